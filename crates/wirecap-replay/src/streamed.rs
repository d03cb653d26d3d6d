//! A trace that is larger than the memory for it, or a pipe: a thread reads ahead, and cells are filled before their frames
//! are due.
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

use crate::{
    Control,
    feed::{Block, Feed, FeedPlan, PassEnd},
    lane::Lane,
    schedule::Schedule,
    source::{Next, Passes, Ready},
};

/// Blocks that are read ahead: of 1 MiB each.
const BLOCKS: usize = 32;
/// Frames that lie ready ahead of time, at most.
const AHEAD: usize = 4096;
/// Frames that are made ready at once when there is none.
const BATCH: usize = 64;

#[derive(Debug)]
enum Message {
    Block(Block),
    PassEnd(PassEnd),
}

#[derive(Debug)]
pub(crate) struct Streamed {
    messages: Receiver<Message>,
    emptied: Sender<Block>,
    block: Block,
    at: usize,
    /// With the cells that each takes.
    ready: VecDeque<(Ready, u32)>,
    circles: Vec<Circle>,
    schedule: Schedule,
    passes: Passes,
    /// Passes that were read to their end.
    ended: u64,
    begun: u64,
    /// Of the last pass that ended.
    pub(crate) end: PassEnd,
    is_at_end: bool,
    /// The file is behind; told once for each time.
    is_starved: bool,
    /// How often a frame was not there when the one before it had been sent.
    pub(crate) starved: u64,
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
    /// Where a frame of so many cells can be written, if it may be.
    fn place(&self, cells: u32) -> Option<u32> {
        // What is left at the end of the circle is too short.
        let cell = if self.next + cells > self.cells { 0 } else { self.next };
        (self.ready + cells <= self.cells / 2).then_some(cell)
    }
}

impl Streamed {
    /// Goes on with a feed, of which these blocks are read already.
    ///
    /// # Errors
    /// If the thread that reads cannot be started.
    pub(crate) fn start(
        (feed, head): (Feed, Vec<Block>),
        plan: FeedPlan,
        cells: &[u32],
        (schedule, passes): (Schedule, Passes),
        control: &Arc<Control>,
    ) -> io::Result<Self> {
        let (messages, receiver) = sync_channel(BLOCKS);
        let (emptied, empties) = channel();
        let reader = Ahead { plan, passes, messages, empties, control: Arc::clone(control) };
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
            passes,
            ended: 0,
            begun: 0,
            end: PassEnd::default(),
            is_at_end: false,
            is_starved: false,
            starved: 0,
        })
    }

    pub(crate) fn peek(&mut self, lanes: &mut [Lane]) -> Next {
        if self.ready.is_empty() {
            self.prepare(lanes, BATCH);
        }
        match self.ready.front() {
            Some(&(ready, _)) => Next::Frame(ready),
            None if self.is_at_end => Next::End,
            None => Next::Wait,
        }
    }

    pub(crate) fn advance(&mut self) {
        if let Some((sent, cells)) = self.ready.pop_front() {
            self.circles[usize::from(sent.lane)].ready -= cells;
        }
    }

    /// Makes up to so many frames ready. Returns whether it made any.
    pub(crate) fn prepare(&mut self, lanes: &mut [Lane], frames: usize) -> bool {
        let before = self.ready.len();
        while self.ready.len() < AHEAD.min(before + frames) && self.has_frame() {
            let frame = self.block.frames[self.at];
            let (lane, circle) =
                (&mut lanes[usize::from(frame.lane)], &mut self.circles[usize::from(frame.lane)]);
            let cells = Lane::cells_of(lane.cell_bytes(), frame.len);
            let Some(cell) = circle.place(cells) else { break };
            if !lane.write(cell, self.block.bytes_of(frame)) {
                break;
            }
            *circle = Circle { next: cell + cells, ready: circle.ready + cells, ..*circle };
            let due_ns = self.schedule.due_ns(frame.offset_ns);
            self.schedule.sent(frame.len);
            self.ready.push_back((Ready { due_ns, cell, len: frame.len, lane: frame.lane }, cells));
            self.at += 1;
            self.begun = self.ended + 1;
        }
        self.ready.len() > before
    }

    /// Whether there is a frame in the block, or one could be had.
    fn has_frame(&mut self) -> bool {
        while self.at == self.block.frames.len() {
            match self.messages.try_recv() {
                Ok(Message::Block(block)) => {
                    self.is_starved = false;
                    // Nobody takes it once all is read.
                    let _ = self.emptied.send(std::mem::replace(&mut self.block, block));
                    self.at = 0;
                }
                Ok(Message::PassEnd(end)) => {
                    self.schedule.next_pass(end.span_ns, self.passes.gap_ns(end.span_ns, end.frames));
                    self.ended += 1;
                    self.end = end;
                }
                Err(TryRecvError::Empty) => {
                    self.starved += u64::from(!self.is_starved && self.ready.is_empty() && self.begun > 0);
                    self.is_starved = true;
                    return false;
                }
                Err(TryRecvError::Disconnected) => {
                    self.is_at_end = true;
                    return false;
                }
            }
        }
        true
    }

    /// Passes that were begun.
    pub(crate) fn passes_begun(&self) -> u64 {
        self.begun
    }
}

/// The thread that reads ahead.
struct Ahead {
    plan: FeedPlan,
    passes: Passes,
    messages: SyncSender<Message>,
    empties: Receiver<Block>,
    control: Arc<Control>,
}

impl Ahead {
    fn run(self, mut feed: Feed, head: Vec<Block>) {
        for block in head {
            if self.messages.send(Message::Block(block)).is_err() {
                return;
            }
        }
        for pass in 0.. {
            if self.read(&mut feed, pass).is_err() {
                return;
            }
            let end = feed.end();
            let go_on = end.frames > 0 && !self.passes.is_last(pass);
            let sent = self.messages.send(Message::PassEnd(end));
            if sent.is_err() || !go_on {
                return;
            }
            match Feed::open(&self.plan) {
                Ok(opened) => feed = opened,
                Err(failure) => {
                    let failures = vec![failure.to_string()];
                    let _ = self.messages.send(Message::PassEnd(PassEnd { failures, ..PassEnd::default() }));
                    return;
                }
            }
        }
    }

    /// Reads what is left of a pass. An error if nobody wants it any more.
    fn read(&self, feed: &mut Feed, pass: u64) -> Result<(), ()> {
        loop {
            let mut block = self.empties.try_recv().unwrap_or_default();
            let more = feed.fill(&mut block);
            self.control.read(pass, feed.share_read());
            self.messages.send(Message::Block(block)).map_err(drop)?;
            if !more {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_taken_in_a_circle_and_ready_ones_are_left_alone() {
        let mut circle = Circle { cells: 8, next: 6, ready: 2 };
        assert_eq!(circle.place(1), Some(6));
        assert_eq!(circle.place(2), Some(6));
        circle.next = 7;
        assert_eq!(circle.place(2), Some(0), "one cell at the end is left out");
        circle.ready = 3;
        assert_eq!((circle.place(1), circle.place(2)), (Some(7), None), "half of them at most");
    }
}
