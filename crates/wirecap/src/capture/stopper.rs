//! Ends a capture: gives the interfaces back.

use std::{
    sync::{Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use wirecap_sys::cpu;

use crate::{engine::EngineState, port::open_port::OpenPort};

/// How long packets may take from a detached program to their socket, on kernels that cannot wait for them.
const SETTLE: Duration = Duration::from_millis(5);

/// Ends a capture from another thread, for instance one that waits for signals. Not for signal handlers: it
/// takes a lock. Holds only weak references.
#[derive(Debug, Clone)]
pub struct Stopper {
    pub(super) shared: Weak<EngineState>,
    pub(super) ports: Weak<Mutex<Vec<OpenPort>>>,
}

impl Stopper {
    /// Gives the interfaces back. Workers still get what was captured before, then
    /// [`crate::WaitOutcome::Ended`]. A second call does nothing.
    pub fn stop(&self) {
        let (Some(shared), Some(ports)) = (self.shared.upgrade(), self.ports.upgrade()) else { return };
        let mut ports = ports.lock().unwrap_or_else(PoisonError::into_inner);
        let are_on_their_way = ports.iter_mut().map(OpenPort::close).fold(false, |any, port| any | port);
        if are_on_their_way && !cpu::wait_for_kernel() {
            thread::sleep(SETTLE);
        }
        ports.iter_mut().for_each(OpenPort::settle);
        shared.stopping.stop();
    }
}
