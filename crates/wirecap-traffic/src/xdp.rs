//! Frames from transmit queues of one's choice, by AF_XDP.
//!
//! ```text
//!   Lane q:  idle slots ── stamp ──► TransmitQueue q ──► the driver, or a copy by the kernel
//!               ▲                          │
//!               └──────── completions ─────┘          a slot: a cell, or several for longer frames; its frame stays in it
//! ```
//!
//! **The rules that hold here:** the queue that is furthest behind its share comes next, so that shares hold over the whole
//! run. Each queue has flows of its own, since frames of different queues overtake each other. Frames of a batch bear one time,
//! read before any of them is sent.

use std::{
    io,
    time::{Duration, Instant},
};

use wirecap_sys::{
    clock,
    netdev::LinkFault,
    xsk::{BindChoice, BindMode, CellPart, TransmitOptions, TransmitQueue, XskError},
};

use crate::{
    error::Error,
    frame::{FLOWS_MAX, FrameSpec, Template},
    generator::{Engine, Made},
    live::interface_name,
    pace::Unit,
    popularity::{FlowChooser, Popularity},
    random::Random,
    sizes::{SizeChooser, Sizes},
};

/// Frames that can be under way on a queue: enough for any driver to be busy, few enough to stay in the cache.
const SLOTS: u32 = 512;
/// Frames of one look at the clock and one wake-up. In copy mode the kernel takes as many with one system call.
const BATCH: u64 = 32;
const PATIENCE: Duration = Duration::from_secs(2);
/// Nothing was put into this slot yet.
const EMPTY: u8 = u8::MAX;

/// A queue, and how much of the traffic it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueShare {
    /// Number of the transmit queue.
    pub queue: u16,
    /// Its share, relative to that of the others; 0 is none.
    pub weight: u32,
}

/// What to send, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct XdpOptions {
    /// The frames; their length is in `sizes`.
    pub frame: FrameSpec,
    /// How long they are.
    pub sizes: Sizes,
    /// Number of flows: 1 to [`FLOWS_MAX`], and no fewer than queues.
    pub flows: u32,
    /// How often they are of which flow.
    pub popularity: Popularity,
    /// What random choices begin with: the same seed, the same frames.
    pub seed: u64,
    /// The queues, one at least.
    pub queues: Vec<QueueShare>,
    /// Zero-copy or copy.
    pub bind: BindChoice,
}

impl Default for XdpOptions {
    /// 60-byte IPv4 frames (64 with FCS) of 4,096 flows that take turns, from queue 0.
    fn default() -> Self {
        Self {
            frame: FrameSpec::default(),
            sizes: Sizes::fixed(FrameSpec::default().len),
            flows: 4096,
            popularity: Popularity::Turns,
            seed: 1,
            queues: vec![QueueShare { queue: 0, weight: 1 }],
            bind: BindChoice::Best,
        }
    }
}

/// What a queue has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueMade {
    /// Its number.
    pub queue: u16,
    /// Whether the driver sends from the cells themselves.
    pub mode: BindMode,
    /// Why it is not zero-copy, when that was tried.
    pub fallback: Option<String>,
    /// Frames that were put into its ring.
    pub made: u64,
    /// Frames that the kernel has given back: sent, or dropped by the interface.
    pub completed: u64,
    /// Frames that the kernel refused to look at; 0, or a defect.
    pub invalid: u64,
}

/// Sends frames from transmit queues of one interface.
#[derive(Debug)]
pub struct XdpGenerator {
    frames: Frames,
    lanes: Vec<Lane>,
    interface: String,
    ifindex: u32,
    made: Made,
}

/// What the lanes have in common.
#[derive(Debug)]
struct Frames {
    /// One for each size.
    templates: Vec<Template>,
    sizes: SizeChooser,
    random: Random,
    sequence: u64,
}

/// A queue at work.
#[derive(Debug)]
struct Lane {
    id: u16,
    weight: u32,
    queue: TransmitQueue,
    cells_per_slot: u32,
    /// Slots that are not with the kernel, all of their cells.
    idle: Vec<u32>,
    /// Of which size the frame in each slot is.
    loaded: Box<[u8]>,
    /// Cells of each slot that are with the kernel.
    under_way: Box<[u8]>,
    flows: FlowChooser,
    /// The flow of number n here is `first_flow` + n × `flow_step`.
    first_flow: u32,
    flow_step: u32,
    made: u64,
    completed: u64,
    /// Since when there is no room for another frame.
    full_since: Option<Instant>,
}

impl XdpGenerator {
    /// Opens the queues of interface `ifindex`. Must be called by a thread in its network namespace.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::FrameLen`], [`Error::Vlan`], [`Error::Flows`], [`Error::FewFlows`]; [`Error::Open`] for a
    /// queue that is not there or taken, and without privilege.
    pub fn open(ifindex: u32, options: &XdpOptions) -> Result<Self, Error> {
        let queues: Vec<_> = options.queues.iter().filter(|share| share.weight > 0).collect();
        if !(1..=FLOWS_MAX).contains(&options.flows) {
            return Err(Error::Flows { flows: options.flows, max: FLOWS_MAX });
        }
        if (options.flows as usize) < queues.len() {
            return Err(Error::FewFlows { flows: options.flows, queues: queues.len() });
        }
        let sizes = options.sizes.for_frames(&options.frame)?;
        let template = |len| Template::new(FrameSpec { len, ..options.frame });
        let templates = sizes.list().iter().map(|size| template(size.len)).collect::<Result<_, _>>()?;
        let interface = interface_name(ifindex).ok_or(Error::NoInterface { ifindex })?;
        let lanes = queues.iter().zip(0..).map(|(share, number)| {
            let flow_step = queues.len() as u32;
            let flows = (options.flows - number).div_ceil(flow_step);
            let flows = FlowChooser::new(flows, options.popularity);
            let open = Lane::open(ifindex, **share, sizes.longest(), options.bind, flows);
            let lane = open.map_err(|cause| Error::Open {
                interface: interface.clone(),
                queue: share.queue,
                cause,
            })?;
            Ok(Lane { first_flow: number, flow_step, ..lane })
        });
        let lanes = lanes.collect::<Result<_, Error>>()?;
        let frames = Frames {
            templates,
            sizes: SizeChooser::new(&sizes),
            random: Random::new(options.seed),
            sequence: 0,
        };
        Ok(Self { frames, lanes, interface, ifindex, made: Made::default() })
    }

    /// The interface, by name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Waits until the kernel has given back every frame, for a second at most. Returns how many it has not.
    pub fn finish(&mut self) -> u64 {
        let patience = Duration::from_secs(1);
        let left = self.lanes.iter_mut().map(|lane| {
            let Lane { queue, under_way, idle, cells_per_slot, completed, .. } = lane;
            // What the kernel says against it is said already, and what it has is counted in any case.
            let _ =
                queue.finish(patience, |cell| Self::back(cell / *cells_per_slot, under_way, idle, completed));
            lane.made - lane.completed
        });
        left.sum()
    }

    /// A cell of a slot has come back.
    #[inline]
    fn back(slot: u32, under_way: &mut [u8], idle: &mut Vec<u32>, completed: &mut u64) {
        let cells = &mut under_way[slot as usize];
        *cells -= 1;
        if *cells == 0 {
            idle.push(slot);
            *completed += 1;
        }
    }

    /// What each queue has done.
    pub fn queues(&self) -> Vec<QueueMade> {
        let queue = |lane: &Lane| QueueMade {
            queue: lane.id,
            mode: lane.queue.mode(),
            fallback: lane.queue.fallback().map(in_words),
            made: lane.made,
            completed: lane.completed,
            invalid: lane.queue.statistics().map_or(0, |statistics| statistics.tx_invalid_descs),
        };
        self.lanes.iter().map(queue).collect()
    }

    /// Why a queue does not send: what the kernel said, if it did say something. What has become of the interface only a thread
    /// in its network namespace sees.
    fn trouble(&self, lane: usize, said: Option<io::Error>) -> Error {
        let (interface, queue) = (self.interface.clone(), self.lanes[lane].id);
        match said {
            None => Error::Stalled { interface, queue, seconds: PATIENCE.as_secs() },
            Some(cause) if cause.kind() == io::ErrorKind::NetworkDown => {
                let fault = LinkFault::settled(self.ifindex).unwrap_or(LinkFault::Down);
                Error::Link { interface, fault }
            }
            Some(cause) if cause.raw_os_error() == Some(ENXIO) => {
                Error::Link { interface, fault: LinkFault::Removed }
            }
            Some(cause) => Error::Refused { interface, queue, cause },
        }
    }

    /// The queue that is furthest behind its share.
    fn furthest_behind(&self) -> usize {
        let mut chosen = 0;
        for (index, lane) in self.lanes.iter().enumerate().skip(1) {
            let best = &self.lanes[chosen];
            let (own, other) = (u128::from(lane.made), u128::from(best.made));
            if own * u128::from(best.weight) < other * u128::from(lane.weight) {
                chosen = index;
            }
        }
        chosen
    }
}

impl Engine for XdpGenerator {
    const TICK: Duration = Duration::from_micros(100);

    fn send(&mut self, frames: u64, units: u64, unit: Unit) -> Result<u64, Error> {
        let chosen = self.furthest_behind();
        let lane = &mut self.lanes[chosen];
        let mut made = Made::default();
        let (units, flushed) = lane.send(&mut self.frames, (frames.min(BATCH), units, unit), &mut made);
        self.made.add(made.frames, made.bytes);
        if flushed.is_err() || lane.is_stalled(made.frames) {
            return Err(self.trouble(chosen, flushed.err()));
        }
        Ok(units)
    }

    fn made(&self) -> Made {
        self.made
    }
}

impl Lane {
    fn open(
        ifindex: u32,
        share: QueueShare,
        longest: usize,
        bind: BindChoice,
        flows: FlowChooser,
    ) -> Result<Self, XskError> {
        let cell_bytes = if longest <= 2048 { 2048 } else { 4096 };
        let cells_per_slot = (longest as u32).div_ceil(cell_bytes);
        let options = TransmitOptions {
            cells: SLOTS * cells_per_slot,
            cell_bytes,
            ring_entries: (SLOTS * cells_per_slot).next_power_of_two(),
            bind,
            multi_buffer: cells_per_slot > 1,
        };
        Ok(Self {
            id: share.queue,
            weight: share.weight,
            queue: TransmitQueue::open(ifindex, share.queue.into(), options)?,
            cells_per_slot,
            idle: (0..SLOTS).rev().collect(),
            loaded: vec![EMPTY; SLOTS as usize].into(),
            under_way: vec![0; SLOTS as usize].into(),
            flows,
            first_flow: 0,
            flow_step: 1,
            made: 0,
            completed: 0,
            full_since: None,
        })
    }

    /// Sends until a limit is reached, the slots are used up, or the ring is full. Adds to `made`, also when the kernel
    /// refuses, and returns the units and what the kernel said.
    fn send(
        &mut self,
        frames: &mut Frames,
        (most, most_units, unit): (u64, u64, Unit),
        made: &mut Made,
    ) -> (u64, io::Result<()>) {
        self.reclaim();
        let sent_ns = clock::system_ns();
        let mut units = 0;
        while made.frames < most && units < most_units {
            let Some(slot) = self.idle.pop() else { break };
            let size = frames.sizes.next(&mut frames.random);
            let template = &frames.templates[size];
            self.load(slot, size, template);
            let flow = self.first_flow + self.flows.next(&mut frames.random) * self.flow_step;
            let head = self.queue.cell_mut(slot * self.cells_per_slot).expect("the slot is idle");
            template.stamp_into(head, flow, frames.sequence, sent_ns);
            let len = template.bytes().len();
            if !self.stage(slot, len) {
                self.idle.push(slot);
                break;
            }
            frames.sequence += 1;
            made.add(1, len as u64);
            units += unit.of_frame(len);
        }
        self.made += made.frames;
        (units, self.queue.flush())
    }

    /// Whether it could not take a frame for too long, this time included.
    fn is_stalled(&mut self, frames: u64) -> bool {
        if frames > 0 {
            self.full_since = None;
            return false;
        }
        self.full_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
    }

    /// Copies the frame into the slot, unless one of this size is in it.
    #[inline]
    fn load(&mut self, slot: u32, size: usize, template: &Template) {
        if usize::from(self.loaded[slot as usize]) == size {
            return;
        }
        self.loaded[slot as usize] = size as u8;
        let cell_bytes = self.queue.options().cell_bytes as usize;
        for (part, cell) in template.bytes().chunks(cell_bytes).zip(slot * self.cells_per_slot..) {
            let bytes = self.queue.cell_mut(cell).expect("the slot is idle");
            bytes[..part.len()].copy_from_slice(part);
        }
    }

    #[inline]
    fn stage(&mut self, slot: u32, len: usize) -> bool {
        let (first, cell_bytes) = (slot * self.cells_per_slot, self.queue.options().cell_bytes);
        let len = len as u32;
        if len <= cell_bytes {
            self.under_way[slot as usize] = 1;
            return self.queue.stage(first, len);
        }
        let parts = len.div_ceil(cell_bytes);
        let part =
            |index: u32| CellPart { cell: first + index, len: (len - index * cell_bytes).min(cell_bytes) };
        let all: [CellPart; MAX_CELLS] = std::array::from_fn(|index| part((index as u32).min(parts - 1)));
        self.under_way[slot as usize] = parts as u8;
        self.queue.stage_parts(&all[..parts as usize])
    }

    fn reclaim(&mut self) {
        let Self { queue, under_way, idle, cells_per_slot, completed, .. } = self;
        queue.complete(|cell| XdpGenerator::back(cell / *cells_per_slot, under_way, idle, completed));
    }
}

fn in_words(refused: &XskError) -> String {
    if refused.is_unsupported() { "the driver does not offer it".into() } else { refused.to_string() }
}

/// Cells of the longest frame.
const MAX_CELLS: usize = crate::frame::FRAME_LEN_MAX.div_ceil(4096);
const ENXIO: i32 = nix::errno::Errno::ENXIO as i32;
