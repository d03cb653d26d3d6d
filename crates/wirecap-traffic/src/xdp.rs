//! Frames from any transmit queues, by AF_XDP.
//!
//! ```text
//!   drive ── frames, units ──► XdpGenerator ── furthest behind its share ──► SlotQueue q ──► the driver, or a copy by the kernel
//! ```
//!
//! Rule: the queue that is furthest behind its share is next, so that shares hold over the whole run. Each
//! queue has its own flows, because frames of different queues overtake each other.

use std::time::Duration;

use wirecap_send::{SendError, check_queues};
use wirecap_sys::{netdev, xsk::BindChoice};

use crate::{
    error::Error,
    frame::{FLOWS_MAX, FrameSpec, Template},
    generator::{Engine, FrameTotals},
    pace::Unit,
    popularity::Popularity,
    random::Random,
    sizes::{SizeChooser, Sizes},
    slot_queue::{FlowRange, Frames, Limit, QueueReport, QueueShare, SlotQueue},
};

/// Frames per reading of the clock and per wake-up. In copy mode the kernel accepts as many in one system
/// call.
const BATCH: u64 = 32;
/// A queue that accepts no frame for longer has failed.
const STALL: Duration = Duration::from_secs(2);

/// What to send, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct XdpOptions {
    /// The frames; their length is in `sizes`.
    pub frame: FrameSpec,
    /// Their lengths.
    pub sizes: Sizes,
    /// Number of flows: 1 to [`FLOWS_MAX`], and no fewer than queues.
    pub flows: u32,
    /// The distribution of frames over flows.
    pub popularity: Popularity,
    /// Seed of random choices: the same seed gives the same frames.
    pub seed: u64,
    /// The queues, at least one.
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
            popularity: Popularity::RoundRobin,
            seed: 1,
            queues: vec![QueueShare { queue: 0, weight: 1 }],
            bind: BindChoice::Best,
        }
    }
}

/// Sends frames from transmit queues of one interface.
#[derive(Debug)]
pub struct XdpGenerator {
    frames: Frames,
    queues: Vec<SlotQueue>,
    interface: String,
    made: FrameTotals,
}

impl XdpGenerator {
    /// Opens the queues of interface `ifindex`. Must be called by a thread in its network namespace.
    ///
    /// # Errors
    /// [`Error::Interface`], [`Error::FrameLen`], [`Error::Vlan`], [`Error::Flows`], [`Error::FewFlows`];
    /// [`SendError::NoQueue`]; [`SendError::Open`] for a queue that is in use, and without privilege.
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
        let interface = netdev::interface_with_index(ifindex)?;
        check_queues(&interface, queues.iter().map(|share| share.queue))?;
        let open = |(share, number): (&&QueueShare, u32)| {
            let flows = FlowRange {
                first: number,
                step: queues.len() as u32,
                flows: options.flows,
                popularity: options.popularity,
            };
            Ok(SlotQueue::open(&interface, **share, options.bind, &sizes, flows)?)
        };
        let queues = queues.iter().zip(0..).map(open).collect::<Result<_, Error>>()?;
        let frames = Frames {
            templates,
            sizes: SizeChooser::new(&sizes),
            random: Random::new(options.seed),
            sequence: 0,
        };
        Ok(Self { frames, queues, interface: interface.name, made: FrameTotals::default() })
    }

    /// Waits until the kernel has given back every frame, or none of a queue for a second. Returns how many
    /// are missing.
    pub fn finish(&mut self) -> u64 {
        self.queues.iter_mut().map(|queue| queue.finish(Duration::from_secs(1))).sum()
    }

    /// The counters of each queue.
    pub fn queues(&self) -> Vec<QueueReport> {
        self.queues.iter().map(SlotQueue::report).collect()
    }

    /// The queue that is furthest behind its share.
    fn furthest_behind(&self) -> usize {
        let queues = &self.queues;
        (1..queues.len())
            .fold(0, |chosen, other| if queues[other].is_behind(&queues[chosen]) { other } else { chosen })
    }
}

impl Engine for XdpGenerator {
    const TICK: Duration = Duration::from_micros(100);

    fn send(&mut self, frames: u64, units: u64, unit: Unit) -> Result<u64, Error> {
        let chosen = self.furthest_behind();
        let queue = &mut self.queues[chosen];
        let mut made = FrameTotals::default();
        let limit = Limit { frames: frames.min(BATCH), units, unit };
        let (units, flushed) = queue.send(&mut self.frames, limit, &mut made);
        self.made.add(made.frames, made.bytes);
        flushed?;
        if queue.stalled_for(made.frames) > STALL {
            let (interface, frames, seconds) = (self.interface.clone(), queue.in_flight(), STALL.as_secs());
            return Err(SendError::Stalled { interface, frames, seconds }.into());
        }
        Ok(units)
    }

    fn totals(&self) -> FrameTotals {
        self.made
    }
}
