//! One receive queue at work: its port's ring, its pool, and what others may see of it.
//!
//! ```text
//!   Queue ── owner (Mutex): QueueOwner { port queue, pool }    one thread at a time
//!         ── reader, recycle, waker                            any thread
//! ```
//!
//! With `push` the owner is always the same capture thread; with `pull` it is the worker, or a buddy
//! that helps. A thread takes the lock once per batch; only buddies contend for it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use wirecap_core::{ChunkRange, Handover, RecycleQueue};
use wirecap_sys::{
    clock::BatchClock,
    memory::{CellReader, LivePool},
    packed::SMALL_RECORD_BYTES,
    wake::Waker,
};

use super::{arrival::ArrivalWatch, gauge::Gauge, stop_state::StopState, wait::Rest};
use crate::packet::ChunkReader;
use crate::port::{
    intake::Intake,
    queue::{ClosedQueue, OpenQueue, Outlook, ReceiveQueue},
};

/// How often the queue tries to empty its ring at the end.
const LAST_ATTEMPTS: u32 = 1000;

/// A receive queue of an engine.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Which port of the engine it belongs to.
    pub(crate) port: usize,
    /// Its number on the NIC.
    pub(crate) ring_id: u16,
    /// The worker whose queue it is.
    pub(crate) home: usize,
    pub(crate) reader: ChunkReader,
    /// Frames of 64 bytes for which there is room in the kernel while the pool is empty.
    pub(crate) room_frames: u32,
    pub(crate) recycle: RecycleQueue,
    /// Whether its packets are Ethernet frames, which can be sent out of any port.
    pub(crate) is_of_frames: bool,
    /// Whether batches may be drained, if packets lie in cells.
    pub(crate) can_drain: bool,
    /// Becomes readable when packets wait; until the engine takes it.
    pub(crate) waker: Option<Waker>,
    /// Whether threads wait on its waker.
    pub(crate) has_waker: bool,
    /// An AF_XDP socket, which it takes the kernel a while to close.
    is_socket: bool,
    owner: Mutex<QueueOwner>,
}

impl Queue {
    /// A queue of Ethernet frames, whose ring has `ring_entries`; a ring of blocks is as long as the pool.
    pub(crate) fn new(
        port: usize,
        home: usize,
        opened: OpenQueue,
        clock: BatchClock,
        ring_entries: u32,
    ) -> Self {
        let OpenQueue { queue: source, pool, reader, waker, can_wait, socket } = opened;
        let pool_cells = pool.geometry().cells_per_pool();
        let ring_cells = reader.cells().map_or(pool_cells, |_| pool_cells.min(ring_entries));
        let room_frames = match &reader {
            ChunkReader::Packed { .. } => {
                (pool.geometry().pool_bytes() / SMALL_RECORD_BYTES).try_into().unwrap_or(u32::MAX)
            }
            ChunkReader::Cells(..) | ChunkReader::Blocks(_) => pool_cells.min(ring_entries),
        };
        Self {
            port,
            ring_id: pool.id().ring_id,
            home,
            reader,
            room_frames,
            recycle: RecycleQueue::new(&pool),
            is_of_frames: true,
            can_drain: true,
            waker,
            has_waker: false,
            is_socket: socket.is_some(),
            owner: Mutex::new(QueueOwner {
                ring_cells,
                peak: Gauge::default(),
                hold: Duration::ZERO,
                held_ns: 0,
                arrivals: ArrivalWatch::new(clock.made()),
                source,
                pool,
                clock,
                can_wait,
                on_hold: false,
                is_at_end: false,
            }),
        }
    }

    /// Locks the queue. Nothing of the application runs under the lock, so a poisoned lock says nothing about
    /// the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueOwner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the queue, unless another thread has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, QueueOwner>> {
        match self.owner.try_lock() {
            Ok(owner) => Some(owner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Captures at most the rest of one chunk and hands it over, if there is anything.
    ///
    /// With `attach`, free chunks are given to the kernel.
    pub(crate) fn capture(&self, attach: bool, stopping: &StopState) -> Option<Handover> {
        let mut owner = self.lock();
        owner.bring_home(&self.recycle, attach);
        loop {
            let received = owner.receive(self.reader.cells(), stopping);
            let handover = owner.pool.hand_over();
            // The end of a chunk may hold only the beginning of a packet: it goes on in the next chunk.
            if handover.is_some() || received == 0 {
                return handover;
            }
        }
    }

    /// The reader of its cells. Panics if packets lie in blocks.
    #[inline]
    pub(crate) fn cell_reader(&self) -> &CellReader {
        self.reader.cells().expect("only packets in cells are owned")
    }

    /// Sends cells home.
    pub(crate) fn send_home(&self, handover: Handover) {
        for range in handover.into_ranges() {
            self.send_home_range(range);
        }
    }

    /// Sends cells of one chunk home.
    pub(crate) fn send_home_range(&self, range: ChunkRange) {
        let refused = self.recycle.push(range);
        debug_assert!(refused.is_ok(), "{refused:?}");
    }

    /// Cells that wait, or 0 while another thread has the queue: it is being looked after.
    pub(crate) fn backlog(&self) -> u64 {
        self.try_lock().map_or(0, |owner| owner.backlog())
    }

    /// Whether packets were received that are not handed over. False while another thread has the queue.
    pub(crate) fn has_filled(&self) -> bool {
        self.try_lock().is_some_and(|owner| owner.pool.filled_cells() > 0)
    }

    /// How long its port holds back what waits, or what comes next. Zero while another thread has the queue.
    pub(crate) fn hold(&self) -> Duration {
        self.try_lock().map_or(Duration::ZERO, |owner| owner.hold)
    }

    /// Closes the socket of the port's queue if nothing is left in it: each worker does so with its own at
    /// the end, since the kernel waits for a grace period with each.
    pub(crate) fn close_drained(&self) {
        let mut owner = self.lock();
        if self.is_socket && owner.backlog() == 0 && !owner.pool.has_begun() {
            owner.close();
        }
    }

    /// Whether the queue may be left alone until packets come, which its waker announces if it has one.
    /// `None` while another thread has it.
    pub(crate) fn rest(&self) -> Option<Rest> {
        let owner = self.try_lock()?;
        let waits = owner.pool.filled_cells() > 0 || (!self.has_waker && owner.backlog() > 0);
        if waits || !self.recycle.is_empty() { None } else { owner.gauge(false).rest() }
    }

    /// Closes the port's queue, so that its socket is free for others. The counters are kept.
    pub(crate) fn close(&self) {
        self.lock().close();
    }

    /// Closes the port's queue, unless it was locked during the fork by a thread that this process lacks.
    pub(crate) fn abandon(&self) {
        if let Some(mut owner) = self.try_lock() {
            owner.close();
        }
    }

    /// Counts the packets that are in the ring at the end and drops them. A faulty port may hold packets
    /// back, so the queue tries again, but not forever.
    pub(crate) fn discard_rest(&self, stopping: &StopState) {
        let mut attempts = LAST_ATTEMPTS;
        while attempts > 0 {
            match self.capture(false, stopping) {
                Some(handover) => self.send_home(handover),
                None if self.lock().source.backlog() == 0 => return,
                None => attempts -= 1,
            }
        }
    }
}

/// The part of a queue that one thread at a time may touch.
#[derive(Debug)]
pub(crate) struct QueueOwner {
    pub(crate) source: Box<dyn ReceiveQueue>,
    pub(crate) pool: LivePool,
    pub(crate) clock: BatchClock,
    pub(crate) arrivals: ArrivalWatch,
    /// Packets that are not received are not lost.
    can_wait: bool,
    /// The queue receives nothing, since a merger has enough of it. INVARIANT: only of a port that can wait.
    on_hold: bool,
    /// The port has reached its end, and `StopState` knows.
    is_at_end: bool,
    /// Cells that the kernel can have at once.
    ring_cells: u32,
    /// The fullest the pool was when its cells were looked after.
    peak: Gauge,
    /// How long the port holds back what waits, or what comes next, as of the last look; and the system clock
    /// then.
    hold: Duration,
    held_ns: u64,
}

impl QueueOwner {
    /// Takes recycled cells back, and gives free chunks and runs to the kernel. Returns whether anything
    /// moved: with rings shorter than the pool, free chunks may have to stay.
    pub(crate) fn bring_home(&mut self, recycle: &RecycleQueue, attach: bool) -> bool {
        // It is fullest just before cells come home: nothing else makes it emptier.
        self.peak = self.peak.max(self.gauge(!attach));
        let recycled = !recycle.is_empty();
        if recycled {
            // A refusal is counted by the pool.
            recycle.take_all(|range| {
                let _ = self.pool.recycle(range);
            });
        }
        let attached_cells = self.pool.attached_cells();
        self.source.attach(attach.then_some(&mut self.pool));
        recycled || self.pool.attached_cells() > attached_cells
    }

    /// Fills the rest of the current chunk with what waits, and reports the end. Returns how many cells it
    /// filled. With `near`, their reader, the packets are prefetched, since this thread reads them.
    pub(crate) fn receive(&mut self, near: Option<&CellReader>, stopping: &StopState) -> u32 {
        if self.on_hold && !stopping.is_stopping() {
            return 0;
        }
        let received = self.fill(near);
        if self.source.look().outlook == Outlook::Ended && !std::mem::replace(&mut self.is_at_end, true) {
            stopping.queue_ended();
        }
        received
    }

    /// Receives what a look at the ring finds.
    fn fill(&mut self, near: Option<&CellReader>) -> u32 {
        let hold = std::mem::take(&mut self.hold);
        let Some(filler) = self.pool.filler() else { return 0 };
        let space = filler.space();
        if space == 0 {
            return 0;
        }
        let Some(batch) = self.arrivals.look(&*self.source, &mut self.clock, space) else {
            // A packet that came now would be held back, too.
            let now_ns = self.arrivals.looked_ns;
            let passed_ns = now_ns.abs_diff(std::mem::replace(&mut self.held_ns, now_ns));
            self.hold = hold.saturating_sub(Duration::from_nanos(passed_ns));
            return 0;
        };
        let mut intake = Intake::new(filler, batch, near);
        self.source.receive(batch.max, &mut intake);
        let received = space - intake.space();
        (self.hold, self.held_ns) = (intake.hold, batch.now_ns);
        self.arrivals.received(intake.finish());
        received
    }

    /// Cells that wait to be handed over: in the ring, and filled in the pool.
    pub(crate) fn backlog(&self) -> u64 {
        let ring = if self.on_hold { 0 } else { self.source.backlog() };
        u64::from(ring) + u64::from(self.pool.filled_cells())
    }

    /// How full the pool is. With `stopped`, the kernel needs no more cells.
    pub(crate) fn gauge(&self, stopped: bool) -> Gauge {
        let levels = self.pool.levels();
        let free_cells =
            if stopped { levels.free_chunks * self.pool.geometry().cells_per_chunk() } else { 0 };
        Gauge::new(levels, self.ring_cells, self.source.look().unreceived, free_cells)
    }

    /// The fullest the pool has been.
    pub(crate) fn peak(&self, stopped: bool) -> Gauge {
        self.peak.max(self.gauge(stopped))
    }

    /// Stops or resumes receiving, if the port can wait. Returns whether it can.
    pub(crate) fn hold(&mut self, on_hold: bool) -> bool {
        self.on_hold = on_hold && self.can_wait;
        self.can_wait
    }

    fn close(&mut self) {
        self.source = Box::new(ClosedQueue::of(&mut *self.source));
    }
}
