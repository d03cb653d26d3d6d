//! The sockets of a failed attempt to open a port, closed by several threads.
//!
//! Rule: closing a bound socket waits for an RCU grace period, about 10 ms. Several threads wait for the same
//! one.

use std::{sync::Mutex, thread};

use super::queue::XdpQueue;

/// Fewer are closed one after the other.
const FEW: usize = 4;
/// Threads that close.
const THREADS: usize = 16;

/// The sockets of a port that is being opened. Dropping it closes them.
#[derive(Debug, Default)]
pub(super) struct OpeningSockets {
    pub(super) queues: Vec<XdpQueue>,
}

impl OpeningSockets {
    /// All sockets, once the port is open.
    pub(super) fn finish(mut self) -> Vec<XdpQueue> {
        std::mem::take(&mut self.queues)
    }
}

impl Drop for OpeningSockets {
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        if queues.len() <= FEW {
            return;
        }
        let threads = THREADS.min(queues.len());
        let queues = Mutex::new(queues);
        let close = || {
            while let Some(queue) = pop(&queues) {
                drop(queue);
            }
        };
        thread::scope(|scope| {
            // A helper that cannot be started is no error: the others do its work.
            let help =
                |_| thread::Builder::new().name("wirecap-close".into()).spawn_scoped(scope, close).ok();
            let helpers: Vec<_> = (1..threads).map_while(help).collect();
            close();
            drop(helpers);
        });
    }
}

/// The lock is not held while the queue is closed.
fn pop(queues: &Mutex<Vec<XdpQueue>>) -> Option<XdpQueue> {
    queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop()
}
