//! The kernel's live frames as a packet generator: up to 20 million frames per second from one core, far more
//! than a receiver on the other core of a veth pair can take (`examples/live_rate.rs` measures it).
//!
//! ```text
//!  send() ─ BPF_PROG_TEST_RUN ─► batch of 64 frames ─► XDP program: stamp ─► devmap ─► ndo_xdp_xmit of the interface
//!             one call per            from a page pool                          16 at a time
//!             65,536 frames
//! ```
//!
//! Rule: the frame counter in the kernel is authoritative, even when a signal interrupts a call.
//!
//! Know before use:
//! - **veth**: the *other* end must be up and have an XDP program (any, but native) or GRO on
//!   (`ethtool -K END gro on`), or it has no ring to receive into and every frame is dropped.
//! - The frames enter the receive queue whose number is that of the generator's CPU (modulo the queues): pin
//!   the calling thread to choose. The other end's receive work runs on the same CPU, so a slow receiver
//!   slows the generator down; always check the rate that was really offered.
//! - A live frame must fit into a page: about 3,400 bytes at most.

use std::time::Duration;

use wirecap_sys::{
    bpf::{self, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec},
    clock, netdev,
};

use crate::anchor::Anchor;
use crate::error::Error;
use crate::frame::{FLOWS_MAX, FrameSpec, Template};
use crate::generator::{Engine, FrameTotals};
use crate::layout::Transport;
use crate::pace::Unit;
use crate::stamp_program::{STATE_LEN, assemble, without_time};

/// Most frames of one call: 3 to 10 ms.
const CHUNK: u64 = 65_536;
/// What to send, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveOptions {
    /// The frames.
    pub frame: FrameSpec,
    /// Number of flows (1 to [`FLOWS_MAX`]), which take turns frame by frame.
    pub flows: u32,
    /// Frames per batch in the kernel, 1 to 256; 0 means 64. veth's receive ring holds 256, so the largest
    /// batches lose frames when the machine is busy and defers receive work.
    pub batch: u32,
}

impl Default for LiveOptions {
    /// 60-byte IPv4 frames (64 with FCS) of 4,096 flows.
    fn default() -> Self {
        Self { frame: FrameSpec::default(), flows: 4096, batch: 64 }
    }
}

/// Sends live frames of the kernel; see the notes of the module.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Program,
    /// Makes calls cheap; never runs `program`.
    _anchor: Anchor,
    /// One value: the next sequence number and flow, which the program writes, and what it needs for the
    /// time.
    state: Map,
    template: Template,
    batch: u32,
    made: FrameTotals,
}

impl LiveGenerator {
    /// Prepares sending to interface `ifindex`. This and all runs must be called by a thread in its network
    /// namespace.
    ///
    /// # Errors
    /// [`Error::Interface`], [`Error::FrameLen`], [`Error::Vlan`], [`Error::Flows`]; [`Error::Bpf`], e.g.
    /// without privilege.
    pub fn new(ifindex: u32, options: LiveOptions) -> Result<Self, Error> {
        let LiveOptions { frame, flows, batch } = options;
        if !(1..=FLOWS_MAX).contains(&flows) {
            return Err(Error::Flows { flows, max: FLOWS_MAX });
        }
        if frame.transport != Transport::Udp {
            return Err(Error::LiveTransport);
        }
        let template = Template::new(frame)?;
        netdev::interface_with_index(ifindex)?;
        let map = |kind, value_size, name| {
            Map::create(&MapSpec { kind, key_size: 4, value_size, max_entries: 1, name })
        };
        let state = map(MapKind::Array, STATE_LEN, "wirecap_state")?;
        let devices = map(MapKind::DevMap, 4, "wirecap_device")?;
        devices.update(&0u32.to_ne_bytes(), &ifindex.to_ne_bytes())?;
        let insns = assemble(&template, flows, &state, &devices)?;
        let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "wirecap_live", &insns))?;
        let _anchor = Anchor::new(&program)?;
        Ok(Self { program, _anchor, state, template, batch, made: FrameTotals::default() })
    }

    /// Sequence number of the next frame, which is the number of frames made so far.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn next_sequence(&self) -> Result<u64, Error> {
        Ok(u64::from_ne_bytes(self.state()?[..8].try_into().expect("a slice of eight bytes")))
    }

    fn state(&self) -> Result<Vec<u8>, Error> {
        Ok(self.state.lookup(&0u32.to_ne_bytes())?.expect("an array has its entry 0"))
    }

    /// One call into the kernel; a signal may interrupt it, the counter stays right.
    fn call(&self, frames: u32) -> Result<(), Error> {
        self.set_time()?;
        match self.program.test_run_live(self.template.bytes(), frames, self.batch) {
            Err(error) if error.errno() == Some(EINTR) => Ok(()),
            Err(cause) if cause.errno() == Some(EINVAL) => {
                Err(Error::LiveRefused { len: self.template.bytes().len(), cause })
            }
            result => result.map_err(bpf::Error::into),
        }
    }

    /// Has the first frame of the next run read the clock. Call it between runs, because a run writes the
    /// state.
    fn set_time(&self) -> Result<(), Error> {
        let state = without_time(self.state()?, clock::system_ahead_of_monotonic_ns());
        Ok(self.state.update(&0u32.to_ne_bytes(), &state)?)
    }
}

impl Engine for LiveGenerator {
    /// Shortest sleep between calls into the kernel: each costs what many frames do.
    const TICK: Duration = Duration::from_millis(1);
    /// Each call has its own page pool, which lives for a second or more if frames are still in flight at the
    /// end of the call. The kernel has numbers for 65,534 pools at a time and then returns `ENOSPC`, so this
    /// allows 5,000 calls per second.
    const BETWEEN_CALLS: Duration = Duration::from_micros(200);

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
mod tests;
