//! One transmit queue of a generator: slots in which frames stay and are stamped for each use.
//!
//! ```text
//!   idle slots ── stamp ──► Lane ──► the driver, or a copy by the kernel
//!       ▲                     │
//!       └──── completions ────┘          a slot: a cell, or several for longer frames; its frame stays in it
//! ```
//!
//! Rule: frames of a batch have one time, read before any of them is sent.

use std::time::{Duration, Instant};

use serde::Serialize;
use wirecap_send::{Lane, SendDiagnostic, SendError, StallTimer};
use wirecap_sys::{
    clock,
    netdev::Interface,
    xsk::{BindChoice, TransmitOptions},
};

use crate::{
    frame::Template,
    generator::FrameTotals,
    pace::Unit,
    popularity::{FlowChooser, Popularity},
    random::Random,
    sizes::{SizeChooser, Sizes},
};

/// Frames that can be in flight on a queue: enough to keep any driver busy, few enough to stay in the cache.
const SLOTS: u32 = 512;
/// The slot has no frame yet.
const EMPTY: u8 = u8::MAX;

/// A queue, and its share of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueShare {
    /// Number of the transmit queue.
    pub queue: u16,
    /// Share, relative to the others; 0 means none.
    pub weight: u32,
}

/// What a queue has sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReport {
    /// Number of the queue.
    pub queue: u16,
    /// How the driver gets the frames: `zero-copy` or `copy`.
    pub mode: &'static str,
    /// Why the queue is not zero-copy, if that was tried.
    #[serde(skip)]
    pub fallback: Option<SendDiagnostic>,
    /// Frames that were put into its ring.
    pub made: u64,
    /// Frames that the kernel has given back: sent, or dropped by the interface.
    pub sent: u64,
    /// Frames that the kernel refused as invalid; more than 0 is a defect of wirecap.
    pub invalid: u64,
}

/// What the queues have in common.
#[derive(Debug)]
pub(crate) struct Frames {
    /// One for each size.
    pub(crate) templates: Vec<Template>,
    pub(crate) sizes: SizeChooser,
    pub(crate) random: Random,
    pub(crate) sequence: u64,
}

/// The flows of a queue: `first`, `first + step`, …, below `flows`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowRange {
    pub(crate) first: u32,
    pub(crate) step: u32,
    pub(crate) flows: u32,
    /// The distribution of frames over the flows.
    pub(crate) popularity: Popularity,
}

/// How much to send at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) frames: u64,
    pub(crate) units: u64,
    pub(crate) unit: Unit,
}

/// A queue in use.
#[derive(Debug)]
pub(crate) struct SlotQueue {
    weight: u32,
    lane: Lane,
    slots: Slots,
    flows: FlowChooser,
    range: FlowRange,
    completed: u64,
    stall: StallTimer,
}

/// The slots of a queue.
#[derive(Debug)]
struct Slots {
    cells_per_slot: u32,
    /// Slots of which no cell is with the kernel.
    idle: Vec<u32>,
    /// By slot, the size of its frame, by position in the list.
    loaded: Box<[u8]>,
    /// By slot, its cells that are with the kernel.
    in_flight_cells: Box<[u8]>,
}

impl Slots {
    /// Takes back a cell. Returns whether it was the last one of its frame.
    #[inline]
    fn take_back(&mut self, cell: u32) -> bool {
        let slot = cell / self.cells_per_slot;
        let cells = &mut self.in_flight_cells[slot as usize];
        *cells -= 1;
        let is_whole = *cells == 0;
        if is_whole {
            self.idle.push(slot);
        }
        is_whole
    }
}

impl SlotQueue {
    /// Opens a queue of an interface for frames of these sizes.
    ///
    /// # Errors
    /// [`SendError::Open`] for a queue that does not exist or is in use, and without privilege.
    pub(crate) fn open(
        interface: &Interface,
        share: QueueShare,
        bind: BindChoice,
        sizes: &Sizes,
        range: FlowRange,
    ) -> Result<Self, SendError> {
        let longest = sizes.longest() as u32;
        let cell_bytes = if longest <= 2048 { 2048 } else { 4096 };
        let cells_per_slot = longest.div_ceil(cell_bytes);
        let cells = SLOTS * cells_per_slot;
        let transmit = TransmitOptions {
            cells,
            cell_bytes,
            ring_entries: cells.next_power_of_two(),
            bind,
            multi_buffer: cells_per_slot > 1,
        };
        let slots = Slots {
            cells_per_slot,
            idle: (0..SLOTS).rev().collect(),
            loaded: vec![EMPTY; SLOTS as usize].into(),
            in_flight_cells: vec![0; SLOTS as usize].into(),
        };
        let flows = (range.flows - range.first).div_ceil(range.step);
        Ok(Self {
            weight: share.weight,
            lane: Lane::open(interface, share.queue, transmit)?,
            slots,
            flows: FlowChooser::new(flows, range.popularity),
            range,
            completed: 0,
            stall: StallTimer::default(),
        })
    }

    /// Whether it is further behind its share than another one.
    pub(crate) fn is_behind(&self, other: &Self) -> bool {
        let (own, others) = (u128::from(self.lane.staged()), u128::from(other.lane.staged()));
        own * u128::from(other.weight) < others * u128::from(self.weight)
    }

    /// Sends until a limit is reached, no slot is idle, or the ring is full. Adds to `made`, even when the
    /// kernel refuses, and returns the units and the result of flushing.
    pub(crate) fn send(
        &mut self,
        frames: &mut Frames,
        limit: Limit,
        made: &mut FrameTotals,
    ) -> (u64, Result<(), SendError>) {
        let Self { lane, slots, completed, .. } = self;
        lane.reclaim(|cell| *completed += u64::from(slots.take_back(cell)));
        let sent_ns = clock::system_ns();
        let mut units = 0;
        while made.frames < limit.frames && units < limit.units {
            let Some(slot) = self.slots.idle.pop() else { break };
            let size = frames.sizes.next(&mut frames.random);
            let template = &frames.templates[size];
            self.load(slot, size, template);
            let flow = self.range.first + self.flows.next(&mut frames.random) * self.range.step;
            let head = self.lane.head_mut(slot * self.slots.cells_per_slot).expect("the slot is idle");
            template.stamp_into(head, flow, frames.sequence, sent_ns);
            let len = template.bytes().len();
            if !self.stage(slot, len as u32) {
                self.slots.idle.push(slot);
                break;
            }
            frames.sequence += 1;
            made.add(1, len as u64);
            units += limit.unit.of_frame(len);
        }
        (units, self.lane.flush())
    }

    /// How long the queue has accepted no frame; it just accepted `frames`.
    pub(crate) fn stalled_for(&mut self, frames: u64) -> Duration {
        if frames > 0 {
            self.stall.restart();
            return Duration::ZERO;
        }
        self.stall.waited(Instant::now())
    }

    /// Copies the frame into the slot, unless the slot has one of this size.
    #[inline]
    fn load(&mut self, slot: u32, size: usize, template: &Template) {
        let loaded = &mut self.slots.loaded[slot as usize];
        if usize::from(*loaded) != size {
            *loaded = size as u8;
            let is_written = self.lane.write(slot * self.slots.cells_per_slot, template.bytes());
            assert!(is_written, "the slot is idle");
        }
    }

    #[inline]
    fn stage(&mut self, slot: u32, len: u32) -> bool {
        self.slots.in_flight_cells[slot as usize] = len.div_ceil(self.lane.cell_bytes()) as u8;
        self.lane.stage(slot * self.slots.cells_per_slot, len)
    }

    /// Waits until the kernel has given back every frame, or has given back none for `timeout`. Returns how
    /// many are missing.
    pub(crate) fn finish(&mut self, timeout: Duration) -> u64 {
        let mut left = self.in_flight();
        loop {
            let Self { lane, slots, completed, .. } = self;
            lane.finish(timeout, |cell| *completed += u64::from(slots.take_back(cell)));
            match self.in_flight() {
                // On a slow link, a ring takes seconds.
                less if 0 < less && less < left => left = less,
                missing => return missing,
            }
        }
    }

    /// Frames that the kernel has not given back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.lane.staged() - self.completed
    }

    /// The counters of the queue.
    pub(crate) fn report(&self) -> QueueReport {
        QueueReport {
            queue: self.lane.number(),
            mode: self.lane.mode().as_str(),
            fallback: self.lane.fallback(),
            made: self.lane.staged(),
            sent: self.completed,
            invalid: self.lane.report().refused,
        }
    }
}
