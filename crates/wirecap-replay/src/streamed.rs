//! A trace that does not fit into memory, or a pipe: a thread reads ahead, and cells are filled before their
//! frames are due.
//!
//! ```text
//!   files ─► Feed ─► blocks ──channel──► written into idle cells ─► ready, in order ─► ring
//!            (thread that reads)                      (thread that sends)
//!              ▲                             └── emptied blocks ──┐
//!              └──────────────────────────────────────────────────┘
//!
//!   cells of a lane, in a circle   │ with the kernel │ ready │ ► written next │ idle │
//! ```
//!
//! Rule: a cell is written only while it is neither ready nor with the kernel.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel},
    },
    thread,
};

use wirecap_send::Lane;

use crate::{
    Control, Error, Failure, Plan,
    feed::{Block, Feed, FeedPlan, FillMode, PassEnd, Tally},
    schedule::Schedule,
    source_item::{NextFrame, SourceItem, WaitReason},
};

/// Blocks that are read ahead, 1 MiB each.
const BLOCKS: usize = 32;
/// The most messages taken in one call.
const MESSAGES_AT_ONCE: usize = 2 * BLOCKS;
/// The most frames that are ready ahead of time.
const AHEAD: usize = 4096;
/// Frames that are made ready at once when none is.
const BATCH: usize = 64;

#[derive(Debug)]
enum Message {
    Block(Block),
    PassEnd(PassEnd),
    /// Why there is no other pass.
    Failed(Failure),
}

#[derive(Debug)]
pub(crate) struct StreamedTrace {
    messages: Receiver<Message>,
    emptied: Sender<Block>,
    block: Block,
    at: usize,
    ready: VecDeque<ReadyFrame>,
    circles: Vec<Circle>,
    schedule: Schedule,
    plan: Plan,
    control: Arc<Control>,
    /// Passes that were read to their end.
    ended: u64,
    begun: u64,
    /// Of the last pass that ended; until the first has ended, of what was taken of it.
    pub(crate) tally: Tally,
    /// What could not be read in any pass; each failure once.
    pub(crate) failures: Vec<Failure>,
    is_at_end: bool,
    /// Whether the last message was the end of a pass, or why there is no other.
    is_complete: bool,
    /// Whether everything that was read so far is ready or sent.
    is_dry: bool,
}

/// A frame that is ready.
#[derive(Debug, Clone, Copy)]
struct ReadyFrame {
    frame: NextFrame,
    /// Cells that it takes.
    cells: u32,
    /// The pass it belongs to, from 1.
    pass: u64,
}

/// The cells of a lane, taken in turn.
#[derive(Debug, Clone, Copy)]
struct Circle {
    cells: u32,
    next: u32,
    /// INVARIANT: cells right behind `next` that are ready and not staged; at most half of all.
    ready: u32,
}

impl Circle {
    /// Where a frame of `cells` cells can be written, if there is room.
    fn place(&self, cells: u32) -> Option<u32> {
        // The rest of the circle may be too short.
        let cell = if self.next + cells > self.cells { 0 } else { self.next };
        (self.ready + cells <= self.cells / 2).then_some(cell)
    }
}

impl StreamedTrace {
    /// Continues a feed of which the blocks of `head` are already read.
    ///
    /// # Errors
    /// The reading thread cannot be started.
    pub(crate) fn start(
        feed: Feed,
        head: Vec<Block>,
        plan: FeedPlan,
        cells: &[u32],
        control: &Arc<Control>,
    ) -> io::Result<Self> {
        let (messages, receiver) = sync_channel(BLOCKS);
        let (emptied, empties) = channel();
        let (schedule, own_plan) = (Schedule::new(plan.plan.speed), plan.plan.clone());
        let reader = Prefetcher { plan, messages, empties, control: Arc::clone(control) };
        thread::Builder::new().name("wirecap-read".into()).spawn(move || reader.run(feed, head))?;
        let circles = cells.iter().map(|&cells| Circle { cells, next: 0, ready: 0 }).collect();
        Ok(Self {
            messages: receiver,
            emptied,
            block: Block::default(),
            at: 0,
            ready: VecDeque::with_capacity(AHEAD),
            circles,
            schedule,
            plan: own_plan,
            control: Arc::clone(control),
            ended: 0,
            begun: 0,
            tally: Tally::default(),
            failures: Vec::new(),
            is_at_end: false,
            is_complete: false,
            is_dry: false,
        })
    }

    pub(crate) fn peek(&mut self, lanes: &mut [Lane]) -> SourceItem {
        if self.ready.is_empty() {
            self.prepare(lanes, BATCH);
        }
        match self.ready.front() {
            Some(waiting) => SourceItem::Frame(waiting.frame),
            None if self.is_at_end => SourceItem::End,
            None => SourceItem::Wait(if self.is_dry { WaitReason::File } else { WaitReason::Cells }),
        }
    }

    pub(crate) fn advance(&mut self) {
        if let Some(ReadyFrame { frame, cells, pass }) = self.ready.pop_front() {
            self.circles[usize::from(frame.lane)].ready -= cells;
            self.begun = pass;
        }
    }

    /// Makes up to `frames` frames ready. Returns whether it made any.
    pub(crate) fn prepare(&mut self, lanes: &mut [Lane], frames: usize) -> bool {
        let before = self.ready.len();
        while self.ready.len() < AHEAD.min(before + frames) && self.has_frame() {
            let frame = self.block.frames[self.at];
            let (lane, circle) =
                (&mut lanes[usize::from(frame.lane)], &mut self.circles[usize::from(frame.lane)]);
            let cells = frame.len.div_ceil(lane.cell_bytes());
            let Some(cell) = circle.place(cells) else { break };
            if !lane.write(cell, self.block.bytes_of(frame)) {
                break;
            }
            *circle = Circle { next: cell + cells, ready: circle.ready + cells, ..*circle };
            let due_ns = self.schedule.due_ns(frame.offset_ns);
            self.schedule.sent(frame.len);
            let frame = NextFrame { due_ns, cell, len: frame.len, lane: frame.lane };
            self.ready.push_back(ReadyFrame { frame, cells, pass: self.ended + 1 });
            self.at += 1;
        }
        self.ready.len() > before
    }

    /// Whether a frame is available, in the current block or one of the next. Looks at [`MESSAGES_AT_ONCE`]
    /// messages at most, because any number of blocks may have no frame.
    fn has_frame(&mut self) -> bool {
        for _ in 0..MESSAGES_AT_ONCE {
            if self.at < self.block.frames.len() {
                return true;
            }
            match self.messages.try_recv() {
                Ok(Message::Block(block)) => self.take(block),
                Ok(Message::PassEnd(end)) => self.end_pass(end),
                Ok(Message::Failed(failure)) => {
                    self.is_complete = true;
                    self.note(failure);
                }
                Err(TryRecvError::Empty) => {
                    self.is_dry = true;
                    return false;
                }
                Err(TryRecvError::Disconnected) => {
                    self.is_at_end = true;
                    if !self.is_complete {
                        self.note(Failure::from(&Error::Reader));
                    }
                    return false;
                }
            }
        }
        self.is_dry = true;
        false
    }

    fn take(&mut self, block: Block) {
        (self.is_dry, self.is_complete) = (false, false);
        if self.ended == 0 {
            self.tally = block.tally;
        }
        self.control.read(self.ended, block.share_read);
        // The reading thread is gone once everything is read.
        let _ = self.emptied.send(std::mem::replace(&mut self.block, block));
        self.at = 0;
    }

    fn end_pass(&mut self, end: PassEnd) {
        self.schedule.next_pass(end.span_ns, self.plan.gap_ns(end.span_ns, end.frames));
        self.ended += 1;
        self.is_complete = true;
        // For an empty pass, the tally of the one before is more useful.
        if end.frames > 0 || self.ended == 1 {
            self.tally = end.tally;
        }
        end.failures.into_iter().for_each(|failure| self.note(failure));
    }

    fn note(&mut self, failure: Failure) {
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// Passes from which a frame was sent.
    pub(crate) fn passes_begun(&self) -> u64 {
        self.begun
    }
}

/// The thread that reads ahead.
struct Prefetcher {
    plan: FeedPlan,
    messages: SyncSender<Message>,
    empties: Receiver<Block>,
    control: Arc<Control>,
}

impl Prefetcher {
    fn run(self, mut feed: Feed, head: Vec<Block>) {
        for block in head {
            if self.messages.send(Message::Block(block)).is_err() {
                return;
            }
        }
        for pass in 0.. {
            if self.read(&mut feed).is_err() {
                return;
            }
            let mut end = feed.end();
            if pass > 0 && end.frames == 0 {
                end.failures.push(Failure::from(&Error::Emptied(pass + 1)));
            }
            let go_on = end.frames > 0 && !self.plan.plan.is_last(pass);
            let sent = self.messages.send(Message::PassEnd(end));
            if sent.is_err() || !go_on {
                return;
            }
            match Feed::open(&self.plan, &self.control) {
                Ok(opened) => feed = opened,
                Err(failure) => {
                    let _ = self.messages.send(Message::Failed(Failure::from(&failure)));
                    return;
                }
            }
        }
    }

    /// Reads the rest of a pass. An error if the receiver is gone.
    fn read(&self, feed: &mut Feed) -> Result<(), ()> {
        loop {
            let mut block = self.empties.try_recv().unwrap_or_default();
            let more = feed.fill(&mut block, FillMode::Prompt);
            self.messages.send(Message::Block(block)).map_err(drop)?;
            if !more {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
