//! The `xdp` port: an interface captured over AF_XDP.
//!
//! | to read about | open |
//! |---|---|
//! | which ways are tried, and in which order things happen | `xdp/open.rs` |
//! | a queue that somebody else has | `xdp/bind.rs` |
//! | sockets of an attempt that fails | `xdp/closing.rs` |
//! | one receive queue at work | `xdp/queue.rs` |
//! | how long a frame may be | `xdp/frame_room.rs` |
//! | VLAN tags that the NIC takes off | `xdp/vlan_tags.rs` |
//!
//! Rule: the program is attached last and detached first, by a BPF link, so that the kernel gives
//! the interface back whatever becomes of this process.

mod bind;
mod closing;
mod frame_room;
mod open;
mod queue;
mod shared;
mod sieve;
pub(crate) mod upkeep;
mod vlan_tags;

use std::sync::Arc;

use wirecap_sys::{
    bpf::{self, XdpMode},
    netdev::Promiscuous,
    xsk::BindMode,
};

use self::shared::Attachment;
pub(crate) use self::{open::open, queue::XdpQueue, sieve::Sieve, upkeep::Upkeep};
#[cfg(test)]
pub(crate) use self::{
    open::{Prepared, open_prepared},
    vlan_tags::VlanTags,
};
use crate::{
    Diagnostic, Modes,
    diagnostic::Recovery,
    nic::{rss::SymmetricRss, stamping::Stamping},
    program::{CaptureProgram, ProgramCounts},
    report::{FilterPlace, LengthLimit, QueueMode, TimestampReport},
};

impl Modes {
    fn attempts(self) -> &'static [(XdpMode, BindMode)] {
        const ALL: &[(XdpMode, BindMode)] = &[
            (XdpMode::Native, BindMode::ZeroCopy),
            (XdpMode::Native, BindMode::Copy),
            (XdpMode::Generic, BindMode::Copy),
        ];
        match self {
            Modes::Best => ALL,
            Modes::ZeroCopy => &ALL[..1],
            Modes::Copy => &ALL[1..2],
            Modes::Generic => &ALL[2..],
        }
    }
}

/// A port, open. Dropping the link gives the interface back.
#[derive(Debug)]
pub(crate) struct XdpPort {
    pub(crate) link: Option<Attachment>,
    program: Arc<CaptureProgram>,
    pub(crate) mode: QueueMode,
    /// Why better modes were not taken, among others.
    pub(crate) fallbacks: Vec<Diagnostic>,
    pub(crate) multi_buffer: bool,
    /// Set if the MTU allows frames that need several cells, and the port does not split frames.
    pub(crate) length_limit: Option<LengthLimit>,
    /// Kept as long as the port is captured.
    pub(crate) promiscuous: Option<Promiscuous>,
    /// Where the filter runs, if there is one.
    pub(crate) filter: Option<FilterPlace>,
    /// Put back at the end.
    pub(crate) rss: Option<SymmetricRss>,
    /// How packets are stamped one by one; kept as long as the port is captured.
    pub(crate) stamping: Option<Box<Stamping>>,
    /// Whether the program puts VLAN tags back that the NIC has taken off.
    pub(crate) puts_tags_back: bool,
    /// How far in front of a packet the NIC's hash of it begins, in bytes, if it has one.
    pub(crate) hash_at: Option<u32>,
}

impl XdpPort {
    /// How packets are stamped one by one.
    pub(crate) fn timestamp(&self) -> Option<TimestampReport> {
        self.stamping.as_ref().map(|stamping| stamping.report())
    }

    pub(crate) fn program(&self) -> &bpf::Program {
        &self.program.program
    }

    /// Looks whether the program is still on the interface, and puts it back. `None` if it was, or after the end.
    pub(crate) fn look_at_attachment(&mut self) -> Option<Recovery> {
        self.link.as_mut()?.look(&self.program.program)
    }

    /// What happened on the receive queues that are not captured and had packets, by their numbers.
    pub(crate) fn uncaptured(&self) -> impl Iterator<Item = (u32, ProgramCounts)> {
        let counts = |queue| Some((queue, self.program.counts(queue).ok()?));
        self.program.uncaptured().filter_map(counts).filter(|(_, counts)| counts.seen > 0)
    }
}
