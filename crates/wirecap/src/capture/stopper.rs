//! Ends a capture: gives the interfaces back.

use std::{
    sync::{Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use wirecap_sys::cpu;

use crate::{engine::Shared, port::open_port::OpenPort};

/// How long packets that are being processed when a program is detached may take to reach their
/// socket, on kernels that cannot tell when they have.
const SETTLE: Duration = Duration::from_millis(5);

/// Ends a capture from another thread, one that waits for signals for instance (not from a signal
/// handler itself: it takes a lock). Keeping it keeps nothing else.
#[derive(Debug, Clone)]
pub struct Stopper {
    pub(super) shared: Weak<Shared>,
    pub(super) ports: Weak<Mutex<Vec<OpenPort>>>,
}

impl Stopper {
    /// Gives the interfaces back. Workers still get what was captured before, then
    /// [`crate::Next::Ended`]. A second call does nothing.
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
