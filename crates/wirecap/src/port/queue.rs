//! One receive queue of a port, as the engine drives it.
//!
//! ```text
//!   trait ReceiveQueue ── receive(max, intake)   filled cells, oldest first
//!                      ── attach(pool)           free cells to the kernel
//!                      ── backlog()              filled cells that wait
//!                      ── look()                 which these are, and which times are still to come
//!                      ── counts()               what happened in front of the ring
//!                      ── stamp_clock()          what brings its stamps to UTC
//! ```
//!
//! Rule: no method has a default. A queue that wraps another one does not compile without forwarding it. What
//! a queue can do is data beside it: [`OpenQueue`].

use std::{fmt::Debug, ops::Range};

use wirecap_sys::{
    clock::StampClock,
    memory::LivePool,
    wake::Waker,
    xsk::{BindMode, Registration, Sender},
};

use super::intake::Intake;
use crate::packet::ChunkReader;
pub(crate) use crate::report::QueueCounts;

/// What a port knows of the times of packets that it has not given yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nothing: packets wait, or their times have nothing to do with the clock.
    Open,
    /// Nothing of their times, and none has come for so long that merging by time need not wait for them.
    Pause,
    /// They get their time when they are received.
    OnReceipt,
    /// They are at most this much older than the present, in nanoseconds.
    NotOlderThan(u64),
    /// None will come.
    Ended,
}

/// What waits in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingCells {
    /// The cells, numbered in the order in which they come; or bytes, where packets are packed into blocks.
    pub(crate) cells: Range<u64>,
    /// More cells may be taken than are received: a filter refuses some.
    pub(crate) may_refuse: bool,
}

/// What a look at a queue finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Which cells wait. `None` where packets bring their times with them.
    pub(crate) waiting: Option<WaitingCells>,
    /// Cells that the kernel has filled, or that a filter keeps, and that the pool does not know of yet.
    /// Unlike the backlog, some of them may never be received. 0 of a port that fills cells only when they
    /// are received.
    pub(crate) unreceived: u32,
    /// The times of packets that are received from here on.
    pub(crate) outlook: Outlook,
}

/// One receive queue of a port. One thread at a time.
pub(crate) trait ReceiveQueue: Debug + Send {
    /// Puts up to `max` filled cells into `intake`, oldest first. `max` is at most its space.
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>);

    /// Gives free cells to the kernel, as far as its ring has room: those that a filter has refused, then the
    /// pool's free chunks. Without a pool the kernel gets no cell from now on.
    fn attach(&mut self, pool: Option<&mut LivePool>);

    /// Filled cells that wait to be received.
    fn backlog(&self) -> u32;

    /// Looks at what waits.
    fn look(&self) -> Look;

    /// The counters in front of the ring.
    fn counts(&mut self) -> QueueCounts;

    /// The clock of its stamps, if its packets are stamped one by one for it.
    fn stamp_clock(&self) -> Option<&StampClock>;
}

/// A queue of an open port: what drives it, its pool, and what it can do.
#[derive(Debug)]
pub(crate) struct OpenQueue {
    pub(crate) queue: Box<dyn ReceiveQueue>,
    pub(crate) pool: LivePool,
    pub(crate) reader: ChunkReader,
    /// Becomes readable when packets wait. The queue's descriptor is open as long as there is one.
    pub(crate) waker: Option<Waker>,
    /// What is not received stays where it is, so nothing is lost while the queue is left alone.
    pub(crate) can_wait: bool,
    /// What an AF_XDP socket adds.
    pub(crate) socket: Option<SocketParts>,
}

/// What an AF_XDP socket has beside its receive queue.
#[derive(Debug)]
pub(crate) struct SocketParts {
    /// Its sending half, if it has one.
    pub(crate) sender: Option<Sender>,
    /// Its registration of the packet memory and the mode of that, if other ports may use it.
    pub(crate) registration: Option<(Registration, BindMode)>,
}

impl OpenQueue {
    /// A queue that has no descriptor and cannot be left alone.
    pub(crate) fn new(queue: impl ReceiveQueue + 'static, pool: LivePool, reader: ChunkReader) -> Self {
        Self { queue: Box::new(queue), pool, reader, waker: None, can_wait: false, socket: None }
    }
}

/// What is left of a queue when its capture has ended: its descriptors are free for others, its counters
/// stay.
#[derive(Debug)]
pub(crate) struct ClosedQueue {
    counts: QueueCounts,
    clock: Option<StampClock>,
}

impl ClosedQueue {
    /// What stays of `queue`.
    pub(crate) fn of(queue: &mut dyn ReceiveQueue) -> Self {
        Self { counts: queue.counts(), clock: queue.stamp_clock().cloned() }
    }
}

impl ReceiveQueue for ClosedQueue {
    fn receive(&mut self, _max: u32, _intake: &mut Intake<'_>) {}

    fn attach(&mut self, _pool: Option<&mut LivePool>) {}

    fn backlog(&self) -> u32 {
        0
    }

    fn look(&self) -> Look {
        Look { waiting: None, unreceived: 0, outlook: Outlook::Ended }
    }

    fn counts(&mut self) -> QueueCounts {
        self.counts
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.clock.as_ref()
    }
}
