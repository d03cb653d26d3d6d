//! Ends a capture: gives the interfaces back.

use std::{
    sync::{Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use wirecap_sys::cpu;

use crate::{
    Diagnostic,
    engine::Shared,
    nic::rss::SymmetricRss,
    port::open_port::{OpenPort, Taken},
};

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
        let mut detached = false;
        for OpenPort { taken, upkeep, removed, .. } in ports.iter_mut() {
            match taken {
                Taken::Xdp(xdp) => {
                    if let Some(link) = xdp.link.take() {
                        if !*removed {
                            upkeep.look_at_end(&link);
                        }
                        // It fails when the interface is gone; closing the link is all there is to do then.
                        let _ = link.detach();
                        detached = true;
                    }
                    // Only now: packets that come while the NIC is set up anew are the host's.
                    xdp.promiscuous = None;
                    xdp.stamping.iter_mut().for_each(|stamping| stamping.end());
                    xdp.rss.iter_mut().for_each(SymmetricRss::restore);
                }
                Taken::Passive(packet) => {
                    packet.close();
                    detached = true;
                }
                Taken::Replay(replay) => replay.close(),
                Taken::Nothing => {}
            }
        }
        if detached && !cpu::wait_for_kernel() {
            thread::sleep(SETTLE);
        }
        for port in ports.iter_mut() {
            if matches!(&port.taken, Taken::Passive(packet) if !packet.wait_for_last_block()) {
                port.fallbacks.push(Diagnostic::LastBlockKept);
            }
        }
        shared.stopping.stop();
    }
}
