//! Ports: where packets come from.
//!
//! ```text
//!   trait ReceiveQueue ── receive(max, intake)    filled cells, oldest first
//!                      ── attach(pool)            free chunks to the kernel
//!                      ── backlog()               filled cells that wait
//!                      ── unreceived()            cells that are filled, or kept by a filter
//!                      ── waiting()               which these are, where their times follow from that
//!                      ── counts()                what happened before the ring
//!                      ── waker()                 what to wait on
//!                      ── outlook(now)            which times are still to come
//!                      ── is_at_end()             nothing will come any more
//! ```
//!
//! | port | packets come from | open |
//! |---|---|---|
//! | `xdp` | an interface, over AF_XDP | `xdp/` |
//! | | some of its receive queues, shared with other processes | `xdp/shared/` |
//! | `packet` | an interface, over AF_PACKET: the host keeps them | `packet/` |
//! | `replay` | a trace file, or a pipe | [`trace`] |
//! | `null` | nowhere: memory only, to measure the engine by itself | [`null`] |
//! | `fault` | another port, with trouble injected | [`fault`] |
//!
//! Rule: the packet path is generic over the trait; which port it is, is decided once per batch.

pub mod fault;
mod intake;
#[cfg(test)]
pub(crate) mod lab;
pub mod null;
pub(crate) mod open_port;
pub(crate) mod opening;
pub(crate) mod packet;
pub(crate) mod source;
pub mod trace;
pub(crate) mod xdp;

use std::{io, ops::Range};

use wirecap_sys::{clock::StampClock, memory::LivePool, wake::Waker, xsk::Sender};

pub(crate) use self::intake::{BatchEnd, BatchTime, Intake, Told};
use self::{fault::FaultQueue, null::NullQueue, packet::PacketQueue, trace::ReplayQueue, xdp::XdpQueue};

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
    /// Packets for the socket that could not be stamped one by one, where that was asked for.
    pub(crate) unstamped: u64,
    /// Packets whose VLAN tag could not be put back, where that is tried.
    pub(crate) untagged: u64,
    /// Packets for the socket that have no hash of the NIC's, where that was asked for.
    pub(crate) unhashed: u64,
}

/// What a port can say of the times of packets that it has not given yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nothing: packets wait, or their times have nothing to do with the clock.
    Open,
    /// Nothing of their times, and none has waited for so long that nobody should wait for them.
    Pause,
    /// They get their time when they are received.
    OnReceipt,
    /// They are later than this, in nanoseconds since 1970 (UTC).
    After(u64),
    /// None will come.
    Ended,
}

/// What a look at a ring has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The cells that wait: cells are numbered through as they come.
    pub(crate) cells: Range<u64>,
    /// More cells may be taken than are received: a filter refuses some.
    pub(crate) may_refuse: bool,
}

/// One receive queue of a port, as the engine drives it. One thread at a time.
///
/// Rule: no method has a default. A port that wraps another one would compile without forwarding it, and answer for itself.
pub(crate) trait ReceiveQueue: Send {
    /// Puts up to `max` filled cells into `intake`, oldest first. `max` is at most its space.
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>);

    /// Gives the pool's free chunks to the kernel, as far as its ring has room.
    fn attach(&mut self, pool: &mut LivePool);

    /// Gives the kernel cells that it could not be given before, if the port has such. Without `gives` it is given none
    /// from now on.
    fn tidy(&mut self, gives: bool);

    /// Filled cells that wait to be received.
    fn backlog(&self) -> u32;

    /// Cells that the kernel has filled, or that a filter keeps, and of which the pool does not know yet. Unlike the backlog they may be
    /// nothing that can be received. None of a port that fills cells only when they are received.
    fn unreceived(&self) -> u32;

    /// Looks which cells wait. `None` of a port whose packets bring their times with them.
    fn waiting(&self) -> Option<Waiting>;

    /// The counters in front of the ring.
    fn counts(&mut self) -> QueueCounts;

    /// A descriptor that becomes readable when packets wait, if there is one. It is open for as long as somebody has it.
    fn waker(&self) -> Option<Waker>;

    /// What is certain, at `now_ns` by the system clock, of the times of packets that are received from here on.
    fn outlook(&self, now_ns: u64) -> Outlook;

    /// The clock of its stamps, if its packets are stamped one by one for it.
    fn stamp_clock(&self) -> Option<&StampClock>;

    /// Whether what is not received stays where it is: nothing is lost if the queue is left alone. Never of an interface.
    fn can_wait(&self) -> bool;

    /// Whether nothing will come any more, and all there was has been received. Never of an interface.
    fn is_at_end(&self) -> bool;
}

/// A queue of any port.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and there is one per queue")]
pub(crate) enum AnyQueue {
    Xdp(XdpQueue),
    Packet(PacketQueue),
    Replay(Box<ReplayQueue>),
    Null(NullQueue),
    Fault(Box<FaultQueue<AnyQueue>>),
    /// The capture has ended; the socket is free for others.
    Closed(ClosedQueue),
}

/// What is kept of a queue.
#[derive(Debug)]
pub(crate) struct ClosedQueue {
    counts: QueueCounts,
    clock: Option<Box<StampClock>>,
}

macro_rules! each_port {
    ($self:expr, $queue:ident => $call:expr, $closed:ident => $otherwise:expr) => {
        match $self {
            AnyQueue::Xdp($queue) => $call,
            AnyQueue::Packet($queue) => $call,
            AnyQueue::Replay($queue) => $call,
            AnyQueue::Null($queue) => $call,
            AnyQueue::Fault($queue) => $call,
            AnyQueue::Closed($closed) => $otherwise,
        }
    };
}

impl AnyQueue {
    /// The queue of an interface that is taken, also with faults injected.
    pub(crate) fn xdp(&self) -> Option<&XdpQueue> {
        match self {
            AnyQueue::Xdp(queue) => Some(queue),
            AnyQueue::Fault(queue) => queue.inner().xdp(),
            AnyQueue::Packet(_) | AnyQueue::Replay(_) | AnyQueue::Null(_) | AnyQueue::Closed(_) => None,
        }
    }

    /// Frees what it has of the kernel's, and keeps what it has counted.
    pub(crate) fn close(&mut self) {
        let (counts, clock) = (self.counts(), self.stamp_clock().cloned().map(Box::new));
        *self = AnyQueue::Closed(ClosedQueue { counts, clock });
    }

    /// Whether it is an AF_XDP socket, which it takes the kernel a while to close.
    pub(crate) fn is_socket(&self) -> bool {
        matches!(self, AnyQueue::Xdp(_))
    }

    /// Takes the sending half out of it, if it has one.
    ///
    /// # Errors
    /// What the kernel said to one more descriptor.
    pub(crate) fn take_sender(&mut self) -> io::Result<Option<Sender>> {
        match self {
            AnyQueue::Xdp(queue) => queue.take_sender(),
            AnyQueue::Fault(queue) => queue.inner_mut().take_sender(),
            AnyQueue::Packet(_) | AnyQueue::Replay(_) | AnyQueue::Null(_) | AnyQueue::Closed(_) => Ok(None),
        }
    }
}

impl ReceiveQueue for AnyQueue {
    #[inline]
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        each_port!(self, queue => queue.receive(max, intake), _closed => ())
    }

    fn attach(&mut self, pool: &mut LivePool) {
        each_port!(self, queue => queue.attach(pool), _closed => ());
    }

    fn tidy(&mut self, gives: bool) {
        each_port!(self, queue => queue.tidy(gives), _closed => ());
    }

    fn backlog(&self) -> u32 {
        each_port!(self, queue => queue.backlog(), _closed => 0)
    }

    fn unreceived(&self) -> u32 {
        each_port!(self, queue => queue.unreceived(), _counts => 0)
    }

    fn waiting(&self) -> Option<Waiting> {
        each_port!(self, queue => queue.waiting(), _counts => None)
    }

    fn counts(&mut self) -> QueueCounts {
        each_port!(self, queue => queue.counts(), closed => closed.counts)
    }

    fn waker(&self) -> Option<Waker> {
        each_port!(self, queue => queue.waker(), _closed => None)
    }

    fn outlook(&self, now_ns: u64) -> Outlook {
        each_port!(self, queue => queue.outlook(now_ns), _closed => Outlook::Ended)
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        each_port!(self, queue => queue.stamp_clock(), closed => closed.clock.as_deref())
    }

    fn can_wait(&self) -> bool {
        each_port!(self, queue => queue.can_wait(), _closed => false)
    }

    fn is_at_end(&self) -> bool {
        each_port!(self, queue => queue.is_at_end(), _closed => false)
    }
}
