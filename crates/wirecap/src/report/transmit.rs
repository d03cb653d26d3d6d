//! What was sent from one queue of a port, and why packets were not.

use serde::Serialize;

/// What was sent from one queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransmitReport {
    /// The queue's number on its NIC.
    pub queue: u16,
    /// Packets given to the kernel to be sent: those put into the ring.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of these that lay in no cell when they came and were copied into one in user space, by a
    /// [`PacketAllocator`](crate::PacketAllocator): 0 where what was captured into cells is forwarded.
    pub copied_bytes: u64,
    /// Cells that the kernel has and has not reported as sent.
    pub in_flight: u32,
    /// System calls by which the kernel was asked to send: one for each batch that is sent, more where it
    /// takes few packets at once, none where the driver looks by itself.
    pub kicks: u64,
    /// Packets that could not be sent: those that were [given up](crate::UnsentPacket::give_up), and
    /// `driver`.
    pub dropped: TransmitDrops,
}

/// Packets that were not sent, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransmitDrops {
    /// The ring was full.
    pub ring_full: u64,
    /// The transmitter had its [share](crate::Transmitter::share_pools) of the packet's pool.
    pub over_share: u64,
    /// Longer than the MTU of the interface.
    pub too_long: u64,
    /// The interface was down.
    pub link_down: u64,
    /// The interface was deleted.
    pub gone: u64,
    /// Not to be sent by this port at all.
    pub not_sendable: u64,
    /// Given to the kernel, and dropped by the driver, as veth does when the other end takes no more. These
    /// are among `packets`, as the only ones. Known where the kernel copies; a driver that sends from the
    /// cells counts what it does not send for the whole interface:
    /// [`PortReport::unsent`](super::PortReport::unsent).
    pub driver: u64,
}

impl TransmitDrops {
    /// All of them, each with its name.
    pub fn causes(&self) -> [(&'static str, u64); 7] {
        let Self { ring_full, over_share, too_long, link_down, gone, not_sendable, driver } = *self;
        [
            ("ring_full", ring_full),
            ("over_share", over_share),
            ("too_long", too_long),
            ("link_down", link_down),
            ("gone", gone),
            ("not_sendable", not_sendable),
            ("driver", driver),
        ]
    }

    /// Added up.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, packets)| packets).sum()
    }
}

/// Why a packet was not put into a transmit ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The ring is full, or the kernel has as many packets as its completion ring can report: flush, and try
    /// again.
    Full,
    /// As many cells of its pool as this transmitter's [share](crate::Transmitter::share_pools) are with the
    /// kernel: as for `Full`.
    OverShare,
    /// Longer than the MTU of the interface, its Ethernet header and one VLAN tag together; or in more cells
    /// than its socket takes, which is so for the MTU that there was at the start, and for a ring of fewer
    /// entries.
    TooLong,
    /// The interface is down or not connected, as [`Capture::events`](crate::Capture::events) last saw it:
    /// call that regularly.
    LinkDown,
    /// The interface was deleted.
    Gone,
    /// The packet is not one that this transmitter can send: one of another engine, one out of its
    /// [reach](crate::Reach), or one of a trace file that is no Ethernet frame.
    NotSendable,
}

impl Refusal {
    /// Number of reasons.
    pub(crate) const COUNT: usize = Self::NotSendable as usize + 1;

    /// Whether there is room again once the kernel has sent more, which
    /// [`UnsentPacket::wait`](crate::UnsentPacket::wait) waits for.
    pub fn is_for_room(self) -> bool {
        matches!(self, Self::Full | Self::OverShare)
    }
}
