//! From files to blocks of frames: the bytes of each packet that are sent, its queue, and its time.
//!
//! ```text
//!   Merge ─► packet ─┬─ short enough to be sent ─► Placer ─► Block: bytes, and a Frame for each
//!                    └─ otherwise: counted and skipped
//! ```

use serde::Serialize;

use crate::{
    Control, CutPolicy, Error, Failure, Plan,
    merge::{Merge, Step},
    placement::Placer,
    timeline::TimeFaults,
    trace::Packet,
};

/// Bytes of an Ethernet header, the shortest frame that is sent.
const HEADER: usize = 14;
/// A block with this number of bytes or frames is full.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_FRAMES: usize = 8192;
/// The most packets that are read for one block, including skipped ones.
const BLOCK_PACKETS: usize = BLOCK_FRAMES;

/// What to send, and from which queues.
#[derive(Debug, Clone)]
pub(crate) struct FeedPlan {
    pub(crate) plan: Plan,
    /// The queues of the placement, in order.
    pub(crate) queues: Vec<u16>,
    pub(crate) room: Room,
}

/// How long frames may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Longest frame that is sent.
    pub(crate) longest: u32,
    /// Longest frame that another MTU would allow: what the cells of one frame hold.
    pub(crate) of_cells: u32,
}

/// What one pass found in the files, in packets. If a trace is read while it is sent and stops within its
/// first pass, what was read until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tally {
    /// Packets that were read.
    pub packets: u64,
    /// Skipped: shorter than an Ethernet header.
    pub too_short: u64,
    /// Skipped: longer than the interface sends, see [`longest_frame`](wirecap_sys::netdev::longest_frame).
    pub too_long: u64,
    /// Of these, packets that no MTU allows: the cells of one frame do not hold them.
    pub oversized: u64,
    /// The MTU that the other packets that are too long need, in bytes; 0 if there are none.
    pub mtu_needed: u32,
    /// Packets of which the file has only the beginning.
    pub cut: u64,
    /// Faults of their times.
    #[serde(flatten)]
    pub times: TimeFaults,
    /// Gaps that were cut to the longest allowed one.
    pub shortened: u64,
}

/// Frames that are ready to be sent. Reused.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: Vec<Frame>,
    /// The tally of the pass up to the end of this block.
    pub(crate) tally: Tally,
    /// The share of the files that was read then; `None` if one is a pipe.
    pub(crate) share_read: Option<f64>,
}

/// A frame, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Time since the first packet of the pass.
    pub(crate) offset_ns: u64,
    /// Its start: the first byte in the block; once it is in cells, the first cell.
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Its queue, by position among the used ones.
    pub(crate) lane: u16,
}

impl Block {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    pub(crate) fn bytes_of(&self, frame: Frame) -> &[u8] {
        &self.bytes[frame.at as usize..][..frame.len as usize]
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.frames.len() >= BLOCK_FRAMES
    }
}

/// When a block is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillMode {
    /// Once it is full, or [`BLOCK_PACKETS`] packets were read for it.
    Whole,
    /// Also as soon as it has a frame and a pipe is empty.
    Prompt,
}

/// One pass over the files.
#[derive(Debug)]
pub(crate) struct Feed {
    merge: Merge,
    placer: Placer,
    cut: CutPolicy,
    room: Room,
    tally: Tally,
    frames: u64,
    span_ns: u64,
    /// The side file ended early, or is invalid.
    failure: Option<Error>,
}

/// What is known about a pass when its files are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassEnd {
    pub(crate) frames: u64,
    /// From the first frame to the last.
    pub(crate) span_ns: u64,
    pub(crate) tally: Tally,
    /// Why files were not read to their ends.
    pub(crate) failures: Vec<Failure>,
}

impl Feed {
    pub(crate) fn open(FeedPlan { plan, queues, room }: &FeedPlan, control: &Control) -> Result<Self, Error> {
        Ok(Self {
            merge: Merge::open(&plan.files, plan.timing, control)?,
            placer: Placer::new(&plan.placement, queues)?,
            cut: plan.cut,
            room: *room,
            tally: Tally::default(),
            frames: 0,
            span_ns: 0,
            failure: None,
        })
    }

    /// Fills a block. Takes bounded time, except while it waits for the writer of a pipe, so the block may be
    /// empty although more frames follow. Returns whether more may follow.
    pub(crate) fn fill(&mut self, block: &mut Block, how: FillMode) -> bool {
        block.clear();
        let more = self.append(block, how);
        (block.tally, block.share_read) = (self.tally(), self.merge.share_read());
        more
    }

    fn append(&mut self, block: &mut Block, how: FillMode) -> bool {
        for _ in 0..BLOCK_PACKETS {
            if self.failure.is_some() {
                return false;
            }
            if block.is_full() {
                return true;
            }
            let (offset_ns, packet) = match self.merge.next(how == FillMode::Whole || block.frames.is_empty())
            {
                Step::Packet(offset_ns, packet) => (offset_ns, packet),
                Step::Nothing => return true,
                Step::End => return false,
            };
            // The side file has a number for each packet that is read, even if it is not sent.
            let lane = match self.placer.place(&packet.bytes) {
                Ok(lane) => lane,
                Err(failure) => {
                    self.failure = Some(failure);
                    return false;
                }
            };
            self.tally.packets += 1;
            let Some(len) = len_to_send(packet, self.cut, self.room, &mut self.tally) else { continue };
            let at = block.bytes.len();
            block.bytes.extend_from_slice(&packet.bytes);
            block.bytes.resize(at + len, 0);
            block.frames.push(Frame { offset_ns, at: at as u32, len: len as u32, lane });
            self.frames += 1;
            self.span_ns = offset_ns;
        }
        true
    }

    fn tally(&self) -> Tally {
        Tally { times: self.merge.faults(), shortened: self.merge.clock.shortened, ..self.tally }
    }

    pub(crate) fn end(&self) -> PassEnd {
        let failures = self.merge.failures().chain(&self.failure).map(Failure::from).collect();
        PassEnd { frames: self.frames, span_ns: self.span_ns, tally: self.tally(), failures }
    }
}

/// How many bytes of a packet are sent; `None` skips it.
fn len_to_send(packet: &Packet, cut: CutPolicy, room: Room, tally: &mut Tally) -> Option<usize> {
    let captured = packet.bytes.len();
    let on_wire = packet.original_len as usize;
    let is_cut = captured < on_wire;
    tally.cut += u64::from(is_cut);
    if is_cut && cut == CutPolicy::Skip {
        return None;
    }
    let len = if cut == CutPolicy::Pad { on_wire } else { captured };
    if captured < HEADER {
        tally.too_short += 1;
        return None;
    }
    if len > room.longest as usize {
        tally.too_long += 1;
        if len > room.of_cells as usize {
            tally.oversized += 1;
        } else {
            tally.mtu_needed = tally.mtu_needed.max((len - HEADER) as u32);
        }
        return None;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { longest: 1_518, of_cells: 9_000 };

    fn lens(there: usize, on_wire: u32, cut: CutPolicy) -> (Option<usize>, Tally) {
        let mut tally = Tally::default();
        let packet = Packet { placed_ns: None, bytes: vec![0; there], original_len: on_wire };
        (len_to_send(&packet, cut, ROOM, &mut tally), tally)
    }

    #[test]
    fn cut_packets_are_sent_padded_or_skipped() {
        for (cut, len) in
            [(CutPolicy::Send, Some(96)), (CutPolicy::Pad, Some(1_000)), (CutPolicy::Skip, None)]
        {
            assert_eq!(lens(96, 1_000, cut), (len, Tally { cut: 1, ..Tally::default() }));
            assert_eq!(lens(96, 96, cut), (Some(96), Tally::default()));
        }
        assert_eq!(lens(96, 9_000, CutPolicy::Send).0, Some(96), "the captured bytes alone");
        assert_eq!(
            lens(96, 9_000, CutPolicy::Pad),
            (None, Tally { cut: 1, too_long: 1, mtu_needed: 8_986, ..Tally::default() })
        );
    }

    #[test]
    fn an_mtu_is_advised_only_where_it_would_help() {
        let left_out = |len: usize| lens(len, len as u32, CutPolicy::Send).1;
        assert_eq!((left_out(9_000).oversized, left_out(9_000).mtu_needed), (0, 8_986));
        assert_eq!(left_out(9_001), Tally { too_long: 1, oversized: 1, ..Tally::default() });
    }

    #[test]
    fn frames_that_no_interface_takes_are_left_out() {
        assert_eq!(lens(14, 14, CutPolicy::Send).0, Some(14));
        assert_eq!(lens(13, 13, CutPolicy::Send), (None, Tally { too_short: 1, ..Tally::default() }));
        assert_eq!(lens(0, 60, CutPolicy::Pad), (None, Tally { too_short: 1, cut: 1, ..Tally::default() }));
        assert_eq!(lens(1_518, 1_518, CutPolicy::Send).0, Some(1_518));
        assert_eq!(
            lens(1_519, 1_519, CutPolicy::Send),
            (None, Tally { too_long: 1, mtu_needed: 1_505, ..Tally::default() })
        );
    }
}
