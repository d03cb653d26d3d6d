//! What the pointers of <wirecap.h> to captures and workers point to.

use std::ffi::c_uint;

use wirecap::{Capture, Stopper, Transmitter, Worker};

/// `wirecap_t`.
pub(super) struct CaptureHandle {
    pub(super) capture: Capture,
    pub(super) stopper: Stopper,
    pub(super) workers: Vec<Option<WorkerHandle>>,
}

/// `wirecap_worker_t`.
pub(super) struct WorkerHandle {
    pub(super) worker: Worker,
    /// Those of the queues that it is home of.
    pub(super) transmitters: Vec<Transmitter>,
}

impl WorkerHandle {
    /// Its transmit ring of a device.
    pub(super) fn transmitter(&mut self, device: c_uint) -> Option<&mut Transmitter> {
        self.transmitters.iter_mut().find(|transmitter| transmitter.port() == device as usize)
    }
}
