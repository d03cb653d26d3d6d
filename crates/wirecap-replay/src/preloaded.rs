//! A trace that is in cells as a whole: passes over it copy nothing.
//!
//! ```text
//!   cells of a lane   │ copy 0: frames of the trace │ copy 1: the same again │ …
//!                       pass 0, 3, …                  pass 1, 4, …
//! ```
//!
//! Rule: a cell that is with the kernel cannot be given to it again. Several copies of a short trace avoid
//! waiting for the kernel; passes use them in turn.

use wirecap_send::Lane;

use crate::{
    Plan,
    feed::{Block, Frame},
    schedule::Schedule,
    source_item::NextFrame,
};

#[derive(Debug)]
pub(crate) struct PreloadedTrace {
    /// At cells of the first copy.
    frames: Vec<Frame>,
    /// Cells that one copy takes in each lane.
    cells: Vec<u32>,
    copies: u32,
    schedule: Schedule,
    plan: Plan,
    at: usize,
    pass: u64,
}

impl PreloadedTrace {
    /// The cells of each lane that these blocks take.
    pub(crate) fn cells(blocks: &[Block], lanes: usize, cell_bytes: u32) -> Vec<u64> {
        let mut cells = vec![0; lanes];
        for frame in blocks.iter().flat_map(|block| &block.frames) {
            cells[usize::from(frame.lane)] += u64::from(frame.len.div_ceil(cell_bytes));
        }
        cells
    }

    /// Writes `copies` copies of the frames into the lanes' cells. Frees each block when it is written.
    pub(crate) fn load(blocks: Vec<Block>, lanes: &mut [Lane], copies: u32, plan: &Plan) -> Self {
        let cell_bytes = lanes.first().map_or(1, Lane::cell_bytes);
        let one_copy = Self::cells(&blocks, lanes.len(), cell_bytes);
        let cells: Vec<u32> = one_copy.into_iter().map(|cells| cells as u32).collect();
        let mut frames = Vec::with_capacity(blocks.iter().map(|block| block.frames.len()).sum());
        let mut next = vec![0; lanes.len()];
        for block in blocks {
            for &frame in &block.frames {
                let lane = usize::from(frame.lane);
                let cell = next[lane];
                next[lane] += frame.len.div_ceil(cell_bytes);
                for copy in 0..copies {
                    let written = lanes[lane].write(cell + copy * cells[lane], block.bytes_of(frame));
                    debug_assert!(written, "no cell is with the kernel yet");
                }
                frames.push(Frame { at: cell, ..frame });
            }
        }
        let (schedule, plan) = (Schedule::new(plan.speed), plan.clone());
        Self { frames, cells, copies, schedule, plan, at: 0, pass: 0 }
    }

    /// The frame that comes next; `None` at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<NextFrame> {
        if self.at == self.frames.len() && !self.next_pass() {
            return None;
        }
        let Frame { offset_ns, at, len, lane } = self.frames[self.at];
        let copy = if self.copies == 1 { 0 } else { (self.pass % u64::from(self.copies)) as u32 };
        let cell = at + copy * self.cells[usize::from(lane)];
        Some(NextFrame { due_ns: self.schedule.due_ns(offset_ns), cell, len, lane })
    }

    /// Steps to the frame after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.schedule.sent(self.frames[self.at].len);
        self.at += 1;
    }

    fn next_pass(&mut self) -> bool {
        if self.frames.is_empty() || self.plan.is_last(self.pass) {
            return false;
        }
        let span_ns = self.frames[self.frames.len() - 1].offset_ns;
        self.schedule.next_pass(span_ns, self.plan.gap_ns(span_ns, self.frames.len() as u64));
        (self.at, self.pass) = (0, self.pass + 1);
        true
    }

    /// Passes that were begun.
    pub(crate) fn passes_begun(&self) -> u64 {
        self.pass + u64::from(self.at > 0)
    }
}
