//! What the pointers of <wirecap.h> to captures and workers point to.

use std::{
    ffi::c_uint,
    sync::{Mutex, MutexGuard, PoisonError},
};

use wirecap::{Capture, Stopper, Transmitter, Worker};

/// `wirecap_t`.
pub(super) struct CaptureHandle {
    /// Several threads may ask for the account.
    pub(super) capture: Mutex<Capture>,
    pub(super) stopper: Stopper,
    /// Those that are not taken yet.
    pub(super) workers: Mutex<Vec<Option<WorkerHandle>>>,
}

impl CaptureHandle {
    pub(super) fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, Vec<Option<WorkerHandle>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
