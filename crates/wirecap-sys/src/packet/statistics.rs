//! What the kernel has counted at a packet socket.
//!
//! Reading sets its counters to zero, and a process that was forked has the same socket. So the sums lie in
//! memory that all of them share, whichever reads.

use std::{io, sync::atomic::Ordering::Relaxed};

use crate::fork::SharedNumbers;

/// Counters of a socket since [`PacketSocket::listen`](super::PacketSocket::listen).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Packets that passed the filter, dropped ones included.
    pub packets: u64,
    /// Of these, packets for which no block was free.
    pub dropped: u64,
}

/// The sums of what was read: packets, and those of them that were dropped.
#[derive(Debug)]
pub(super) struct StatisticsSums(SharedNumbers<2>);

impl StatisticsSums {
    /// # Errors
    /// What mmap(2) returned.
    pub(super) fn new() -> io::Result<Self> {
        SharedNumbers::new().map(Self)
    }

    /// Adds what was read.
    pub(super) fn add(&self, packets: u64, dropped: u64) -> PacketStatistics {
        let [all_packets, all_dropped] = self.0.get();
        PacketStatistics {
            packets: all_packets.fetch_add(packets, Relaxed) + packets,
            dropped: all_dropped.fetch_add(dropped, Relaxed) + dropped,
        }
    }

    /// Begins to count.
    pub(super) fn clear(&self) {
        self.0.get().iter().for_each(|sum| sum.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_adds_to_the_same_sums() {
        let sums = StatisticsSums::new().unwrap();
        sums.add(5, 5);
        sums.clear();
        assert_eq!(sums.add(3, 1), PacketStatistics { packets: 3, dropped: 1 });
        // SAFETY: the new process adds, and ends: both may be done after a fork.
        match unsafe { libc::fork() } {
            0 => {
                sums.add(10, 2);
                // SAFETY: it ends this process alone.
                unsafe { libc::_exit(0) }
            }
            // SAFETY: the process was forked here, and is waited for once.
            other => assert_eq!(unsafe { libc::waitpid(other, std::ptr::null_mut(), 0) }, other),
        }
        assert_eq!(sums.add(0, 0), PacketStatistics { packets: 13, dropped: 3 });
    }
}
