//! The thread that sends.
//!
//! ```text
//!   read the clock ─► stage all frames that are due, a few at once ─► one call per queue ─► note the departure
//!        ▲                      └ none is due: sleep while the next is far off, poll when it is near
//!        └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! One thread serves all queues, so packets depart in the order of their times over all queues, except among
//! frames that are due in the same round. Several threads would be as exact, but the order of their packets
//! would be random.
//!
//! Rule: no packet departs before it is due; delays are made up for without a burst. A frame without room
//! waits, and all later frames with it.

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
    pacing::Pacing,
    source::Source,
    source_item::{SourceItem, WaitReason},
    starvation::Starvation,
};

/// The most frames that depart together: what the kernel accepts in one call in copy mode, so that each frame
/// has its own departure.
const BATCH_TIMED: usize = 32;
/// The same if departures are not measured.
const BATCH_TOP: usize = 256;
/// Closer to a departure than this, in nanoseconds, the thread does not sleep, because waking up sometimes
/// takes long.
const NEAR_NS: u64 = 200_000;
/// The longest sleep, in nanoseconds; limits the reaction time to a stop.
const NAP_NS: u64 = 10_000_000;
/// How long to wait for a completion at the end.
const FINISH: Duration = Duration::from_secs(2);
/// How long to wait for a completion before the end.
const STUCK: Duration = Duration::from_secs(10);
/// The progress is published once in this number of rounds.
const PUBLISH_ROUNDS: u32 = 64;

/// Why a replay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Everything was sent, as often as planned.
    Complete,
    /// The limit on packets was reached.
    Count,
    /// The limit on time was reached.
    Duration,
    /// It was stopped.
    Stopped,
    /// The interface or the kernel accepted no more packets.
    Failed,
}

/// Sends the frames of a source.
#[derive(Debug)]
pub(crate) struct Player<'a> {
    interface: &'a Interface,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) source: Source,
    control: &'a Arc<Control>,
    expected: Forecast,
    started: Instant,
    /// `None` at top speed, where frames have no due times.
    pub(crate) pacing: Option<Pacing>,
    catch_up: CatchUp,
    /// From the start to the last departure; at top speed, to the last completion.
    pub(crate) last_ns: u64,
    packets: u64,
    bytes: u64,
    /// Due times of the staged frames.
    due: Vec<u64>,
    rounds: u32,
    pub(crate) starvation: Starvation,
    /// How long the kernel has returned nothing while frames could not be sent.
    stalled: StallTimer,
    link: Option<LinkMonitor>,
}

/// The result of one round.
enum Step {
    Sent,
    /// Time until the next frame is due, in nanoseconds.
    Early(u64),
    /// No room, no cell, or reading has fallen behind.
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
            rounds: 0,
            starvation: Starvation::default(),
            stalled: StallTimer::default(),
            link,
        }
    }

    /// Sends until the end. The second part is the error that ended it, if any.
    pub(crate) fn run(&mut self) -> (End, Option<Error>) {
        let end = self.send_all();
        self.control.sent(self.packets, self.bytes);
        let end = end.and_then(|end| self.finish().map(|()| end));
        if self.pacing.is_none() {
            // Without measured departures, the run ends when everything has left.
            self.last_ns = self.now_ns();
        }
        match end {
            Ok(end) => (end, None),
            // A lost link explains every other error.
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
            if let Step::Over(end) = self.round()? {
                return Ok(end);
            }
        }
    }

    /// The run begins when there is something to send, because the writer of a pipe may take long.
    fn await_first(&mut self) -> Result<(), Error> {
        while matches!(self.source.peek(&mut self.lanes), SourceItem::Wait(_)) && !self.control.is_stopped() {
            self.check_link(Instant::now())?;
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    fn check_link(&mut self, now: Instant) -> Result<(), Error> {
        Ok(self.link.as_mut().map_or(Ok(()), |link| link.check(now))?)
    }

    fn round(&mut self) -> Result<Step, Error> {
        if self.control.is_stopped() {
            return Ok(Step::Over(End::Stopped));
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds % PUBLISH_ROUNDS == 0 {
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

    /// Stages the frames that are due.
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
                SourceItem::Frame(frame) => frame,
                SourceItem::Wait(awaited) => {
                    if awaited == WaitReason::File && self.packets > 0 {
                        self.starvation.waits();
                    }
                    return Step::Blocked;
                }
                SourceItem::End => return Step::Over(End::Complete),
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

    /// Gives staged frames to the kernel.
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

    /// Has the kernel continue, and takes cells back. Returns how many.
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
                // Only reading is behind.
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

    /// Waits for a frame that is due in `wait_ns`, or for a part of that time.
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
