//! Ports: where packets come from.
//!
//! ```text
//!   trait ReceiveQueue ── receive(max, take)      filled cells, oldest first
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
pub(crate) mod link;
pub mod null;
mod preflight;
pub(crate) mod program;
pub(crate) mod source;
pub(crate) mod xdp;

use std::os::fd::OwnedFd;

use wirecap_core::{Descriptor, Pool};

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
    /// Takes up to `max` filled cells, oldest first. Their `timestamp_ns` is 0 unless the port knows
    /// better than the clock of the engine. Returns how many were taken.
    fn receive(&mut self, max: u32, take: impl FnMut(Descriptor)) -> u32;

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
    fn receive(&mut self, max: u32, mut take: impl FnMut(Descriptor)) -> u32 {
        // A fault port holds an `AnyQueue` again; the closure behind a reference ends the recursion
        // of types there.
        match self {
            AnyQueue::Xdp(queue) => queue.receive(max, take),
            AnyQueue::Null(queue) => queue.receive(max, take),
            AnyQueue::Fault(queue) => queue.receive(max, &mut take as &mut dyn FnMut(Descriptor)),
            AnyQueue::Closed(_) => 0,
        }
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
