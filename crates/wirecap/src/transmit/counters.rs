//! What one transmitter has sent.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{
    engine::add,
    report::{Refusal, TransmitDrops, TransmitReport},
};

/// What one transmitter has sent. Written by it alone, read by reports.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct TransmitCounters {
    /// The port, by its position in the list of ports.
    pub(crate) port: usize,
    pub(super) queue: u16,
    packets: AtomicU64,
    bytes: AtomicU64,
    copied_bytes: AtomicU64,
    pub(super) in_flight: AtomicU32,
    /// Taken by the kernel, and dropped by the driver.
    pub(super) by_driver: AtomicU64,
    pub(super) kicks: AtomicU64,
    dropped: [AtomicU64; Refusal::COUNT],
}

impl TransmitCounters {
    pub(super) fn new(port: usize, queue: u16) -> Self {
        Self { port, queue, ..Self::default() }
    }

    #[inline]
    pub(super) fn count(&self, packets: u64, bytes: u64) {
        add(&self.packets, packets);
        add(&self.bytes, bytes);
    }

    pub(super) fn count_copied(&self, bytes: u64) {
        add(&self.copied_bytes, bytes);
    }

    pub(super) fn count_dropped(&self, reason: Refusal) {
        add(&self.dropped[reason as usize], 1);
    }

    pub(crate) fn report(&self) -> TransmitReport {
        let dropped = |reason: Refusal| self.dropped[reason as usize].load(Ordering::Relaxed);
        TransmitReport {
            queue: self.queue,
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            copied_bytes: self.copied_bytes.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            kicks: self.kicks.load(Ordering::Relaxed),
            dropped: TransmitDrops {
                ring_full: dropped(Refusal::Full),
                over_share: dropped(Refusal::OverShare),
                too_long: dropped(Refusal::TooLong),
                link_down: dropped(Refusal::LinkDown),
                gone: dropped(Refusal::Gone),
                not_sendable: dropped(Refusal::NotSendable),
                driver: self.by_driver.load(Ordering::Relaxed),
            },
        }
    }
}
