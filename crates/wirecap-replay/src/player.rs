//! The thread that sends.
//!
//! ```text
//!   look at the clock ─► stage all frames that are due, a few at once ─► one call per queue ─► note the departure
//!        ▲                      └ none is due: sleep while it is far off, look again and again when it is near
//!        └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! One thread for all queues: packets depart in the order of their times, over all queues, to within the
//! frames that are due at the same look. Several threads would each be as exact, and the order of their
//! packets a matter of luck.
//!
//! Rule: nothing departs before it is due; what is late is made up for without a burst. A frame for which
//! there is no room waits, and all behind it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wirecap_send::{Lane, LinkMonitor, SendError, StallTimer};
use wirecap_sys::netdev::{Interface, LinkFault};

use crate::{
    Control, Error,
    catch_up::CatchUp,
    control::Forecast,
    next::{Next, WaitReason},
    pacing::Pacing,
    source::Source,
    starvation::Starvation,
};

/// Frames that depart together at most: what the kernel takes in one call in copy mode, so that each has its
/// own departure.
const BATCH_TIMED: usize = 32;
/// The same where departures are not measured.
const BATCH_TOP: usize = 256;
/// Closer to a departure than that, in nanoseconds, the thread does not sleep: waking up takes long now and
/// then.
const NEAR_NS: u64 = 200_000;
/// The longest sleep: so soon a stop is noticed.
const NAP_NS: u64 = 10_000_000;
/// At the end, how long is waited for a completion.
const FINISH: Duration = Duration::from_secs(2);
/// Before it, how long something may not go on for want of a completion.
const STUCK: Duration = Duration::from_secs(10);
/// How often the progress is published, in looks.
const TELL: u32 = 64;

/// Why it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Everything was sent, as often as it should be.
    Complete,
    /// As many packets as were asked for.
    Count,
    /// The time asked for is over.
    Duration,
    /// It was stopped.
    Stopped,
    /// The interface or the kernel took no more.
    Failed,
}

/// Sends what a source has.
#[derive(Debug)]
pub(crate) struct Player<'a> {
    interface: &'a Interface,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) source: Source,
    control: &'a Arc<Control>,
    expected: Forecast,
    started: Instant,
    /// `None` at top speed, where nothing is due.
    pub(crate) pacing: Option<Pacing>,
    catch_up: CatchUp,
    /// From the start to the last departure; at top speed until all came back from the kernel.
    pub(crate) last_ns: u64,
    packets: u64,
    bytes: u64,
    /// When each of the frames that are staged was due.
    due: Vec<u64>,
    looks: u32,
    pub(crate) starvation: Starvation,
    /// How long nothing came back while something could not go on.
    stalled: StallTimer,
    link: Option<LinkMonitor>,
}

/// What one look at the clock came to.
enum Step {
    Sent,
    /// Time until the next is due, in nanoseconds.
    Early(u64),
    /// No room, no cell, or the file is behind.
    Blocked,
    Over(End),
}

impl<'a> Player<'a> {
    pub(crate) fn new(
        interface: &'a Interface,
        lanes: Vec<Lane>,
        source: Source,
        control: &'a Arc<Control>,
        expected: Forecast,
        is_timed: bool,
        link: Option<LinkMonitor>,
    ) -> Self {
        Self {
            interface,
            lanes,
            source,
            control,
            expected,
            started: Instant::now(),
            pacing: is_timed.then(Pacing::new),
            catch_up: CatchUp::default(),
            last_ns: 0,
            packets: 0,
            bytes: 0,
            due: Vec::with_capacity(BATCH_TOP),
            looks: 0,
            starvation: Starvation::default(),
            stalled: StallTimer::default(),
            link,
        }
    }

    /// Sends until the end. What happened is in the second part whatever it was.
    pub(crate) fn run(&mut self) -> (End, Option<Error>) {
        let end = self.send_all();
        self.control.sent(self.packets, self.bytes);
        let end = end.and_then(|end| self.finish().map(|()| end));
        if self.pacing.is_none() {
            // Without departures that count, it is over when everything has left.
            self.last_ns = self.now_ns();
        }
        match end {
            Ok(end) => (end, None),
            // A link that is lost explains every other error.
            Err(error) => match LinkFault::settled(self.interface.ifindex) {
                Some(fault) => {
                    let interface = self.interface.name.clone();
                    (End::Failed, Some(SendError::Link { interface, fault }.into()))
                }
                None => (End::Failed, Some(error)),
            },
        }
    }

    fn send_all(&mut self) -> Result<End, Error> {
        self.await_first()?;
        self.started = Instant::now();
        self.control.start(self.started, self.expected);
        loop {
            if let Step::Over(end) = self.look()? {
                return Ok(end);
            }
        }
    }

    /// Time begins when there is something to send: the writer of a pipe may take long.
    fn await_first(&mut self) -> Result<(), Error> {
        while matches!(self.source.peek(&mut self.lanes), Next::Wait(_)) && !self.control.is_stopped() {
            self.check_link(Instant::now())?;
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn check_link(&mut self, now: Instant) -> Result<(), Error> {
        Ok(self.link.as_mut().map_or(Ok(()), |link| link.check(now))?)
    }

    fn look(&mut self) -> Result<Step, Error> {
        if self.control.is_stopped() {
            return Ok(Step::Over(End::Stopped));
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks % TELL == 0 {
            self.control.sent(self.packets, self.bytes);
        }
        let now_ns = self.now_ns();
        self.check_link(self.started + Duration::from_nanos(now_ns))?;
        let step = self.stage(now_ns);
        if !self.due.is_empty() {
            self.depart()?;
        }
        match step {
            Step::Early(wait_ns) => {
                self.turn()?;
                self.wait(wait_ns);
            }
            Step::Blocked => self.hold()?,
            Step::Sent | Step::Over(_) => {}
        }
        Ok(step)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Puts the frames that are due into the rings.
    fn stage(&mut self, now_ns: u64) -> Step {
        if self.expected.limits.duration.is_some_and(|duration| u128::from(now_ns) >= duration.as_nanos()) {
            return Step::Over(End::Duration);
        }
        let batch = if self.pacing.is_some() { BATCH_TIMED } else { BATCH_TOP };
        while self.due.len() < batch {
            if self.expected.limits.count.is_some_and(|count| self.packets >= count) {
                return Step::Over(End::Count);
            }
            let frame = match self.source.peek(&mut self.lanes) {
                Next::Frame(frame) => frame,
                Next::Wait(awaited) => {
                    if awaited == WaitReason::File && self.packets > 0 {
                        self.starvation.waits();
                    }
                    return Step::Blocked;
                }
                Next::End => return Step::Over(End::Complete),
            };
            self.starvation.came(self.pacing.is_none() || frame.due_ns < now_ns);
            let not_before_ns = self.catch_up.not_before(frame.due_ns);
            if self.pacing.is_some() && not_before_ns > now_ns {
                return Step::Early(not_before_ns - now_ns);
            }
            if !self.lanes[usize::from(frame.lane)].stage(frame.cell, frame.len) {
                return Step::Blocked;
            }
            self.source.advance();
            self.catch_up.departs(frame.due_ns, now_ns);
            self.due.push(frame.due_ns);
            self.packets += 1;
            self.bytes += u64::from(frame.len);
        }
        Step::Sent
    }

    /// Gives what was staged to the kernel.
    fn depart(&mut self) -> Result<(), Error> {
        let departed_ns = self.now_ns();
        self.last_ns = departed_ns;
        if let Some(pacing) = &mut self.pacing {
            self.due.iter().for_each(|&due_ns| pacing.departed(due_ns, departed_ns));
        }
        self.due.clear();
        self.stalled.restart();
        self.lanes.iter_mut().try_for_each(Lane::flush_staged)?;
        Ok(())
    }

    /// Lets the kernel go on, and takes cells back. Returns how many.
    fn turn(&mut self) -> Result<u32, Error> {
        let mut back = 0;
        for lane in &mut self.lanes {
            back += lane.turn()?;
        }
        if back > 0 {
            self.stalled.restart();
        }
        Ok(back)
    }

    fn hold(&mut self) -> Result<(), Error> {
        let back = self.turn()?;
        let in_flight: u32 = self.lanes.iter().map(Lane::in_flight).sum();
        if in_flight == 0 {
            self.stalled.restart();
            if back == 0 {
                // It is the file that is waited for.
                thread::sleep(Duration::from_micros(50));
            }
        } else if back == 0 {
            if self.stalled.waited(Instant::now()) > STUCK {
                return Err(self.stuck(STUCK));
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Waits for what is due in `wait_ns`, or for a part of that.
    fn wait(&mut self, wait_ns: u64) {
        if self.source.work_ahead(&mut self.lanes) {
            return;
        }
        let left = self.expected.limits.duration.map_or(u64::MAX, |duration| {
            duration.as_nanos().saturating_sub(u128::from(self.now_ns())) as u64
        });
        match wait_ns.min(left).checked_sub(NEAR_NS) {
            Some(far_ns) if far_ns > 0 => {
                self.control.sent(self.packets, self.bytes);
                thread::sleep(Duration::from_nanos(far_ns.min(NAP_NS)));
            }
            _ => std::hint::spin_loop(),
        }
    }

    /// Waits until everything was sent.
    fn finish(&mut self) -> Result<(), Error> {
        self.stalled.restart();
        loop {
            self.turn()?;
            if self.lanes.iter().all(|lane| lane.in_flight() == 0) {
                return Ok(());
            }
            let now = Instant::now();
            self.check_link(now)?;
            if self.stalled.waited(now) > FINISH {
                return Err(self.stuck(FINISH));
            }
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn stuck(&self, waited: Duration) -> Error {
        let frames = self.lanes.iter().map(|lane| u64::from(lane.in_flight())).sum();
        let (interface, seconds) = (self.interface.name.clone(), waited.as_secs());
        SendError::Stalled { interface, frames, seconds }.into()
    }
}
