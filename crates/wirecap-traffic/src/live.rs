//! The kernel's live frames as a packet generator: up to 20 million frames per second from one core, which is
//! far more than a receiver on the other core of a veth pair can take (`examples/live_rate.rs` measures it).
//!
//! ```text
//!  run() ─ BPF_PROG_TEST_RUN ─► batch of 64 frames ─► XDP program: stamp ─► devmap ─► ndo_xdp_xmit of the interface
//!            one call per            from a page pool                          16 at a time
//!            65,536 frames
//! ```
//!
//! **The rules that hold here:** the frame counter in the kernel is the truth of what was sent, also when a
//! signal cuts a call short. What the interface took is read from its own counters and reported beside it.
//!
//! To know before use:
//! - **veth**: the *other* end must be up and have an XDP program (any, but native) or GRO on
//!   (`ethtool -K END gro on`), or it has no ring to receive into and every frame is dropped.
//! - The frames enter the receive queue whose number is that of the CPU the generator runs on (modulo the
//!   queues): pin the calling thread to choose. The other end's receive work runs on that same CPU, so a slow
//!   receiver slows the generator down; always look at the rate that was really offered.
//! - Live frames lie in one page: about 3,400 bytes at most.

use std::{num::NonZeroU64, time::Duration};

use wirecap_send::TxCounters;
use wirecap_sys::{
    bpf::{self, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec},
    clock, netdev,
};

use crate::anchor::Anchor;
use crate::error::Error;
use crate::frame::{FLOWS_MAX, FrameSpec, Template};
use crate::generator::{End, Engine, FrameTotals, drive};
use crate::layout::Transport;
use crate::pace::{Rate, Timing, Unit};
use crate::stamp_program::{STATE_LEN, assemble, state_at};

/// Most frames of one call: 3 to 10 ms.
const CHUNK: u64 = 65_536;
/// Shortest sleep between calls into the kernel: each costs what many frames do.
const TICK: Duration = Duration::from_millis(1);
/// Each call has a page pool of its own, which lives on for a second or more if frames are still under way at
/// the call's end. The kernel has numbers for 65,534 of them at a time and then says `ENOSPC`, so there are
/// 5,000 calls a second at most.
const BETWEEN_CALLS: Duration = Duration::from_micros(200);

/// What to send, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveOptions {
    /// The frames.
    pub frame: FrameSpec,
    /// Number of flows (1 to [`FLOWS_MAX`]), which take turns frame by frame.
    pub flows: u32,
    /// Frames per batch in the kernel, 1 to 256; 0 means 64. veth's receive ring holds 256, so the largest
    /// batches lose frames when the machine is busy and receive work is put off.
    pub batch: u32,
    /// Frames per second; `None` is as fast as it goes. Kept in steps of 0.2 to 1 ms, and over the whole run:
    /// time lost is made up for in a burst.
    pub rate_pps: Option<NonZeroU64>,
}

impl Default for LiveOptions {
    /// 60-byte IPv4 frames (64 with FCS) of 4,096 flows, as fast as it goes.
    fn default() -> Self {
        Self { frame: FrameSpec::default(), flows: 4096, batch: 64, rate_pps: None }
    }
}

/// What a run has sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// Frames the generator made and redirected to the interface, by its own count.
    pub frames: u64,
    /// Frames by which the interface's `tx_packets` grew during the run; other traffic on it counts, too. For
    /// veth these are the frames the other end has taken from its ring, whatever it then did with them.
    pub taken: u64,
    /// Frames by which the interface's `tx_dropped` grew.
    pub dropped: u64,
    /// Duration of sending, in seconds.
    pub seconds: f64,
}

impl Sent {
    /// Frames made per second.
    pub fn frames_per_second(&self) -> f64 {
        self.frames as f64 / self.seconds
    }
}

/// Sends frames from the kernel; see the module's notes.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Program,
    /// Makes calls cheap; `program` is never run by it.
    _anchor: Anchor,
    /// One value: next sequence number and next flow, which the program writes, and what it needs to tell the
    /// time.
    state: Map,
    template: Template,
    interface: String,
    ifindex: u32,
    batch: u32,
    rate_pps: Option<NonZeroU64>,
    made: FrameTotals,
}

impl LiveGenerator {
    /// Prepares sending to interface `ifindex`. Must be called, as the runs must, by a thread in its network
    /// namespace.
    ///
    /// # Errors
    /// [`Error::Interface`], [`Error::FrameLen`], [`Error::Vlan`], [`Error::Flows`]; [`Error::Bpf`], e.g.
    /// without privilege.
    pub fn new(ifindex: u32, options: LiveOptions) -> Result<Self, Error> {
        let LiveOptions { frame, flows, batch, rate_pps } = options;
        if !(1..=FLOWS_MAX).contains(&flows) {
            return Err(Error::Flows { flows, max: FLOWS_MAX });
        }
        if frame.transport != Transport::Udp {
            return Err(Error::LiveTransport);
        }
        let template = Template::new(frame)?;
        let interface = netdev::interface_with_index(ifindex)?.name;
        let map = |kind, value_size, name| {
            Map::create(&MapSpec { kind, key_size: 4, value_size, max_entries: 1, name })
        };
        let state = map(MapKind::Array, STATE_LEN, "wirecap_state")?;
        let devices = map(MapKind::DevMap, 4, "wirecap_device")?;
        devices.update(&0u32.to_ne_bytes(), &ifindex.to_ne_bytes())?;
        let insns = assemble(&template, flows, &state, &devices)?;
        let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "wirecap_live", &insns))?;
        let _anchor = Anchor::new(&program)?;
        Ok(Self {
            program,
            _anchor,
            state,
            template,
            interface,
            ifindex,
            batch,
            rate_pps,
            made: FrameTotals::default(),
        })
    }

    /// Sends `count` frames. Sequence and flow numbers go on where the last run ended. Blocks until done.
    ///
    /// # Errors
    /// [`Error::NothingTaken`] if the interface took none; [`Error::LiveRefused`], [`Error::Interface`],
    /// [`Error::Bpf`].
    pub fn run(&mut self, count: u64) -> Result<Sent, Error> {
        self.drive(Timing { frames: Some(count), ..self.timing() })
    }

    /// Sends for `duration`, to within the time of 65,536 frames at full speed.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_for(&mut self, duration: Duration) -> Result<Sent, Error> {
        self.drive(Timing { time: Some(duration), ..self.timing() })
    }

    /// Sequence number of the next frame: how many this generator has made so far.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn next_sequence(&self) -> Result<u64, Error> {
        Ok(u64::from_ne_bytes(self.state()?[..8].try_into().expect("a slice of eight bytes")))
    }

    fn state(&self) -> Result<Vec<u8>, Error> {
        Ok(self.state.lookup(&0u32.to_ne_bytes())?.expect("an array has its entry 0"))
    }

    fn timing(&self) -> Timing {
        Timing { rate: self.rate_pps.map(|rate| Rate::frames(rate.get())), ..Timing::default() }
    }

    fn drive(&mut self, timing: Timing) -> Result<Sent, Error> {
        let counters = TxCounters::start(self.ifindex)?;
        let before = self.made.frames;
        let outcome = drive(self, timing, |_, _| true);
        if let End::Failed(error) = outcome.end {
            return Err(error);
        }
        let frames = self.made.frames - before;
        let taken = counters.settled(frames)?;
        if frames > 0 && taken.packets == 0 {
            return Err(Error::NothingTaken { interface: self.interface.clone(), frames });
        }
        let seconds = outcome.elapsed.as_secs_f64();
        Ok(Sent { frames, taken: taken.packets, dropped: taken.dropped, seconds })
    }

    /// One call into the kernel; a signal may cut it short, the counter knows.
    fn call(&self, frames: u32) -> Result<(), Error> {
        self.tell_time()?;
        match self.program.test_run_live(self.template.bytes(), frames, self.batch) {
            Err(error) if error.errno() == Some(EINTR) => Ok(()),
            Err(cause) if cause.errno() == Some(EINVAL) => {
                Err(Error::LiveRefused { len: self.template.bytes().len(), cause })
            }
            result => result.map_err(bpf::Error::into),
        }
    }

    /// Call it while no run is under way: only a run writes the state.
    fn tell_time(&self) -> Result<(), Error> {
        let state = state_at(self.state()?, clock::system_ns(), clock::system_ahead_of_monotonic_ns());
        Ok(self.state.update(&0u32.to_ne_bytes(), &state)?)
    }
}

impl Engine for LiveGenerator {
    const TICK: Duration = TICK;
    const BETWEEN_CALLS: Duration = BETWEEN_CALLS;

    fn send(&mut self, frames: u64, units: u64, unit: Unit) -> Result<u64, Error> {
        let len = self.template.bytes().len();
        let of_frame = unit.of_frame(len);
        let first = self.next_sequence()?;
        self.call(frames.min(units.div_ceil(of_frame)).min(CHUNK) as u32)?;
        let frames = self.next_sequence()? - first;
        self.made.add(frames, frames * len as u64);
        Ok(frames * of_frame)
    }

    fn totals(&self) -> FrameTotals {
        self.made
    }
}

const EINTR: i32 = nix::errno::Errno::EINTR as i32;
const EINVAL: i32 = nix::errno::Errno::EINVAL as i32;

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
