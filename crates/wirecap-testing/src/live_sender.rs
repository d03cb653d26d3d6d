//! Runs the generator of live frames for a number of frames or a time, and accounts for the frames that the
//! interface took.

use std::time::Duration;

use wirecap_send::TxCounters;
use wirecap_sys::netdev;
use wirecap_traffic::{End, Error, LiveGenerator, LiveOptions, Rate, Timing, drive};

/// The account of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendAccount {
    /// Frames that the sender made and gave to the interface, by its own count.
    pub frames: u64,
    /// Growth of the interface's `tx_packets` during the run; other traffic on the interface counts, too. For
    /// veth these are the frames that the other end has taken from its ring, even if it then dropped them.
    pub taken: u64,
    /// Frames that the interface did not take.
    pub dropped: u64,
    /// Duration of sending, in seconds.
    pub seconds: f64,
}

impl SendAccount {
    /// Frames made per second.
    pub fn frames_per_second(&self) -> f64 {
        self.frames as f64 / self.seconds
    }
}

/// Sends live frames through one interface, run after run.
#[derive(Debug)]
pub struct LiveSender {
    generator: LiveGenerator,
    interface: String,
    ifindex: u32,
    rate: Option<Rate>,
}

impl LiveSender {
    /// Prepares sending through interface `ifindex`, as fast as possible. Call this and the runs from a
    /// thread in the interface's network namespace.
    ///
    /// # Errors
    /// Those of [`LiveGenerator::new`]; [`Error::Interface`].
    pub fn new(ifindex: u32, options: LiveOptions) -> Result<Self, Error> {
        let interface = netdev::interface_with_index(ifindex)?.name;
        let generator = LiveGenerator::new(ifindex, options)?;
        Ok(Self { generator, interface, ifindex, rate: None })
    }

    /// Sends `frames_per_second` on average over a run: after a delay, a burst catches up.
    #[must_use]
    pub fn at(self, frames_per_second: u64) -> Self {
        Self { rate: Some(Rate::frames(frames_per_second)), ..self }
    }

    /// Sends `count` frames. Sequence and flow numbers continue where the last run ended. Blocks until done.
    ///
    /// # Errors
    /// [`Error::NothingTaken`] if the interface took none; those of the generator.
    pub fn run(&mut self, count: u64) -> Result<SendAccount, Error> {
        self.drive(Timing { rate: self.rate, frames: Some(count), ..Timing::default() })
    }

    /// Sends for `duration`, to within the time of 65,536 frames at full speed.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_for(&mut self, duration: Duration) -> Result<SendAccount, Error> {
        self.drive(Timing { rate: self.rate, time: Some(duration), ..Timing::default() })
    }

    /// Sequence number of the next frame, which is the number of frames made so far.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn next_sequence(&self) -> Result<u64, Error> {
        self.generator.next_sequence()
    }

    fn drive(&mut self, timing: Timing) -> Result<SendAccount, Error> {
        let counters = TxCounters::start(self.ifindex)?;
        let before = self.next_sequence()?;
        let outcome = drive(&mut self.generator, timing, |_, _| true);
        if let End::Failed(error) = outcome.end {
            return Err(error);
        }
        let frames = self.next_sequence()? - before;
        let taken = counters.settled(frames)?;
        if frames > 0 && taken.packets == 0 {
            return Err(Error::NothingTaken { interface: self.interface.clone(), frames });
        }
        let seconds = outcome.elapsed.as_secs_f64();
        Ok(SendAccount { frames, taken: taken.packets, dropped: taken.dropped, seconds })
    }
}
