//! Ports: where packets come from.
//!
//! ```text
//!   trait ReceiveQueue ── receive(max, intake)    filled cells, oldest first
//!                      ── attach(pool)            free chunks to the kernel
//!                      ── backlog()               filled cells that wait
//!                      ── counts()                what happened before the ring
//!                      ── waker()                 what to wait on
//! ```
//!
//! | port | packets come from | open |
//! |---|---|---|
//! | `xdp` | an interface, over AF_XDP | `xdp.rs` |
//! | `null` | nowhere: memory only, to measure the engine by itself | [`null`] |
//! | `fault` | another port, with trouble injected | [`fault`] |
//!
//! Rule: the packet path is generic over the trait; which port it is, is decided once per batch.

pub mod fault;
mod intake;
pub(crate) mod link;
pub mod null;
mod preflight;
pub(crate) mod program;
pub(crate) mod source;
pub(crate) mod xdp;

use std::os::fd::OwnedFd;

use wirecap_core::Pool;

pub(crate) use self::intake::Intake;
use self::{fault::FaultQueue, null::NullQueue, xdp::XdpQueue};

/// What happened to packets of a queue before they reached its ring, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) seen: u64,
    pub(crate) filtered: u64,
    pub(crate) passed: u64,
    pub(crate) no_free_cell: u64,
    pub(crate) rx_ring_full: u64,
    pub(crate) too_long: u64,
    /// How often the kernel found no cell in the fill ring.
    pub(crate) fill_ring_empty: u64,
}

/// One receive queue of a port, as the engine drives it. One thread at a time.
pub(crate) trait ReceiveQueue: Send {
    /// Puts up to `max` filled cells into `intake`, oldest first. `max` is at most its space.
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>);

    /// Gives the pool's free chunks to the kernel, as far as its ring has room.
    fn attach(&mut self, pool: &mut Pool);

    /// Filled cells that wait to be received.
    fn backlog(&self) -> u32;

    /// The counters in front of the ring.
    fn counts(&mut self) -> QueueCounts;

    /// A descriptor that becomes readable when packets wait, if there is one.
    fn waker(&self) -> Option<OwnedFd>;
}

/// A queue of any port.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and there is one per queue")]
pub(crate) enum AnyQueue {
    Xdp(XdpQueue),
    Null(NullQueue),
    Fault(Box<FaultQueue<AnyQueue>>),
    /// The capture has ended; the socket is free for others.
    Closed(QueueCounts),
}

macro_rules! each_port {
    ($self:expr, $queue:ident => $call:expr, $counts:ident => $closed:expr) => {
        match $self {
            AnyQueue::Xdp($queue) => $call,
            AnyQueue::Null($queue) => $call,
            AnyQueue::Fault($queue) => $call,
            AnyQueue::Closed($counts) => $closed,
        }
    };
}

impl ReceiveQueue for AnyQueue {
    #[inline]
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        each_port!(self, queue => queue.receive(max, intake), _counts => ())
    }

    fn attach(&mut self, pool: &mut Pool) {
        each_port!(self, queue => queue.attach(pool), _counts => ());
    }

    fn backlog(&self) -> u32 {
        each_port!(self, queue => queue.backlog(), _counts => 0)
    }

    fn counts(&mut self) -> QueueCounts {
        each_port!(self, queue => queue.counts(), counts => *counts)
    }

    fn waker(&self) -> Option<OwnedFd> {
        each_port!(self, queue => queue.waker(), _counts => None)
    }
}

/// A port to open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortSpec {
    /// An interface, by name. Refused when the host uses it, unless `force`.
    Xdp {
        /// Name of the interface.
        name: String,
        /// Take it even if it, or a VLAN, macvlan, bridge or bond on top of it, has an IP address or is in use.
        force: bool,
    },
    /// Memory only.
    Null(null::NullPort),
    /// Another port with trouble injected.
    Fault {
        /// The port that gets into trouble.
        inner: Box<PortSpec>,
        /// Which trouble.
        faults: fault::Faults,
    },
}

impl PortSpec {
    /// How the port is called in reports.
    pub fn name(&self) -> String {
        match self {
            PortSpec::Xdp { name, .. } => name.clone(),
            PortSpec::Null(_) => "null".into(),
            PortSpec::Fault { inner, .. } => format!("fault:{}", inner.name()),
        }
    }
}

/// `eth1` is an interface that is taken unless the host uses it, `xdp:eth1` one that is taken in any
/// case.
impl From<&str> for PortSpec {
    fn from(text: &str) -> Self {
        match text.strip_prefix("xdp:") {
            Some(name) => PortSpec::Xdp { name: name.into(), force: true },
            None => PortSpec::Xdp { name: text.into(), force: false },
        }
    }
}

impl From<String> for PortSpec {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<null::NullPort> for PortSpec {
    fn from(port: null::NullPort) -> Self {
        PortSpec::Null(port)
    }
}
