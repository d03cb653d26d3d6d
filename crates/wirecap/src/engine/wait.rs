//! Waiting for packets.
//!
//! ```text
//!   a batch ── nothing ── nothing ── … ── nothing for 2 ms, to any buddy ── doze ── 0.5 s ── doze …
//!              sleep 50 µs, 100 µs, … up to a bound            in the kernel, until something comes
//! ```
//!
//! | strategy | while nothing comes | after a while of silence | what it costs |
//! |---|---|---|---|
//! | busy | asks again at once | the same | a core |
//! | sleep | sleeps 50 µs, then longer, up to a bound; or as long as a port holds packets back | dozes | latency up to the bound; little CPU, none in silence |
//! | block | sleeps in the kernel until a packet comes to its own queues; while the kernel lacks cells, no longer than the bound | dozes | a wake-up for each lull, which on veth the sender's core pays |
//!
//! Rule of the bound: a sleep must be short enough that a quarter of the room the kernel has lasts for it at
//! the line rate of 10 Gigabit Ethernet. Small pools make it so short that sleeping takes a core, which is
//! right for bursts and wrong for silence.
//!
//! Rule of the doze: a thread dozes until *anything* comes that may become its business: a packet in its own
//! queues or those of its buddies, the end, a buddy that goes away ([`doze`](super::doze)). The first packet
//! wakes it at once. So a thread may doze only if nothing else needs doing: hardly any cell, which the kernel
//! would lack, is on its way home.

use std::{
    hint, io,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use wirecap_sys::wake::{WakeCause, Watch};

use super::doze::Sleeper;
use crate::Wait;

/// 64-byte frames per second on 10 Gigabit Ethernet.
const LINE_RATE_PPS: f64 = 14_880_952.0;
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// How long a thread that blocks on its own queues waits before it looks for buddies in need.
const BLOCK: Duration = Duration::from_millis(10);
/// A thread dozes after this time without a packet. Short, since until then a thread with a small pool takes
/// a core; but longer than the gaps in traffic, where every packet would wake all threads of a group.
const SILENCE: Duration = Duration::from_millis(2);
/// Practically forever.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// The first doze, and the longest: each is twice as long as the one before. A thread looks again after that
/// time even if nothing woke it, in case an event was not announced: soon at first, while such an event may
/// still be on its way.
const FIRST_DOZE: Duration = Duration::from_millis(10);
const LONGEST_DOZE: Duration = Duration::from_millis(500);

/// What a thread that waits knows of the engine.
pub(crate) trait EngineView {
    /// A figure that changes when a packet comes to the thread or a buddy.
    fn activity(&self) -> u64;

    /// How long the ports leave packets where they are, those that wait or those that come next, so that more
    /// can join them. Zero if none does.
    fn hold(&self) -> Duration;

    /// For how long at most the thread may doze: `None` if there is something to do that nothing will
    /// announce.
    fn rest(&self) -> Option<Rest>;

    /// The handle by which other threads wake it.
    fn sleeper(&self) -> &Sleeper;
}

/// How quiet it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rest {
    /// Some cells are on their way home, and have to be taken back before long.
    Short,
    /// Nothing is to be done until something comes.
    Long,
}

/// The longest sleep that is safe when the kernel has room for this many frames of 64 bytes.
fn longest_safe(room_frames: u32) -> Duration {
    let quarter = f64::from(room_frames) / 4.0;
    Duration::from_secs_f64(quarter / LINE_RATE_PPS).max(Duration::from_micros(5))
}

/// The longest sleep of a thread that does not know of packets.
pub(crate) fn longest_sleep(room_frames: u32) -> Duration {
    longest_safe(room_frames).min(LONGEST_SLEEP)
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Spin,
    Sleep(Duration),
    /// Until one of the own wakers is readable.
    Block,
    /// Until anything comes, or this time is over.
    Doze(Duration),
}

/// How a thread waits that does so elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// What comes makes its descriptor readable, until the thread is [disarmed](Sleeper::disarm). It looks
    /// again after this time all the same: some events are announced to no thread.
    Armed(Duration),
    /// It looks again after this time. The descriptor says nothing until then.
    Later(Duration),
}

/// The state of one waiting thread.
#[derive(Debug)]
pub(crate) struct Waiter {
    wait: Wait,
    /// The longest sleep while nothing is known of packets, and the longest one for packets that a port holds
    /// back.
    longest: Duration,
    longest_hold: Duration,
    next: Duration,
    /// Since when nothing has come, if that is known.
    silent_since: Option<Instant>,
    /// Anything has come at all.
    has_received: bool,
    activity: u64,
    next_doze: Duration,
    watch: Watch,
    /// How many of its wakers are those of own queues: they come first.
    own_wakers: usize,
    /// The last wake-up found nothing: a block that a worker holds keeps its socket readable.
    in_vain: bool,
}

impl Waiter {
    /// For a thread that waits on `watch`, of which the first `own_wakers` are of its own queues.
    pub(crate) fn new(wait: Wait, room_frames: u32, watch: Watch, own_wakers: usize) -> Self {
        let longest = longest_sleep(room_frames);
        Self {
            wait,
            longest,
            longest_hold: longest_safe(room_frames),
            next: SHORTEST_SLEEP.min(longest),
            silent_since: None,
            has_received: false,
            activity: 0,
            next_doze: FIRST_DOZE,
            watch,
            own_wakers,
            in_vain: false,
        }
    }

    /// There were packets: the next wait is short again.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST_SLEEP.min(self.longest);
        self.silent_since = None;
        self.has_received = true;
        self.next_doze = FIRST_DOZE;
        self.in_vain = false;
    }

    /// A descriptor that is readable once the thread is [armed](Self::arm) and something comes.
    pub(crate) fn readiness(&self) -> io::Result<OwnedFd> {
        self.watch.readiness()
    }

    /// Whether its descriptors are still open.
    pub(crate) fn is_open(&self) -> bool {
        self.watch.is_open()
    }

    /// How a thread waits that does so elsewhere, with its descriptor: as [`Waiter::pause`], but a thread
    /// that would block waits for the descriptor, and one that would spin looks often. It is `now`. `None` if
    /// there is something to do already.
    pub(crate) fn wait_elsewhere(&mut self, now: Instant, idler: &impl EngineView) -> Option<Elsewhere> {
        if self.wait == Wait::Busy {
            // It has no wakers: nothing would announce a packet.
            return Some(Elsewhere::Later(self.longest));
        }
        // Each look costs an event loop more than a sleep costs a thread, so there are few.
        self.next = self.longest;
        match self.next_plan(now, idler) {
            Plan::Sleep(duration) if self.has_received => return Some(Elsewhere::Later(duration)),
            _ => {}
        }
        let mut rest = None;
        let is_idle = || {
            rest = idler.rest();
            rest.is_some()
        };
        if !idler.sleeper().arm(&mut self.watch, is_idle) {
            return None;
        }
        Some(Elsewhere::Armed(match rest? {
            Rest::Short => FIRST_DOZE,
            Rest::Long => std::mem::replace(&mut self.next_doze, LONGEST_DOZE),
        }))
    }

    /// Waits once, at most `limit`. It is `now`.
    pub(crate) fn pause(&mut self, now: Instant, limit: Duration, idler: &impl EngineView) {
        match self.next_plan(now, idler) {
            Plan::Doze(longest) => {
                let allowed = || match idler.rest()? {
                    Rest::Short => Some(FIRST_DOZE.min(limit)),
                    Rest::Long => Some(longest.min(limit)),
                };
                match idler.sleeper().doze(&mut self.watch, allowed) {
                    Some(woken) => self.dozed(woken),
                    None => self.carry_out(self.awake(), limit, idler),
                }
            }
            plan => self.carry_out(plan, limit, idler),
        }
    }

    /// What to do at `now`. A thread that spins has no use for the hold, whose price is a lock for
    /// each queue.
    fn next_plan(&mut self, now: Instant, idler: &impl EngineView) -> Plan {
        let hold = if self.wait == Wait::Busy { Duration::ZERO } else { idler.hold() };
        if hold.is_zero() {
            self.plan(now, idler.activity())
        } else {
            Plan::Sleep(hold.max(SHORTEST_SLEEP).min(self.longest_hold))
        }
    }

    /// What to do at `now` if no packets are held back, given the activity of the thread and its buddies so
    /// far.
    fn plan(&mut self, now: Instant, activity: u64) -> Plan {
        if self.wait == Wait::Busy {
            return Plan::Spin;
        }
        if std::mem::replace(&mut self.activity, activity) != activity {
            self.silent_since = None;
        }
        let silent = now.saturating_duration_since(*self.silent_since.get_or_insert(now));
        // A thread that has nothing to block on can only doze.
        let has_nothing = self.wait == Wait::Block && self.own_wakers == 0;
        if silent >= SILENCE || has_nothing { Plan::Doze(self.next_doze) } else { self.awake() }
    }

    /// How it waits while packets come and go.
    fn awake(&self) -> Plan {
        match self.wait {
            Wait::Busy => Plan::Spin,
            Wait::Block if self.own_wakers > 0 && !self.in_vain => Plan::Block,
            Wait::Sleep | Wait::Block => Plan::Sleep(self.next),
        }
    }

    fn carry_out(&mut self, plan: Plan, limit: Duration, idler: &impl EngineView) {
        match plan {
            Plan::Spin | Plan::Doze(_) => hint::spin_loop(),
            Plan::Sleep(duration) => {
                thread::sleep(duration.min(limit));
                self.next = (self.next * 2).min(self.longest);
            }
            Plan::Block => {
                // Cells that come home ring no bell, and until the kernel gets them no packet may come.
                let restless = self.longest.max(SHORTEST_SLEEP);
                let allowed = || Some(limit.min(if idler.rest().is_some() { BLOCK } else { restless }));
                let woken = idler.sleeper().doze_on(&mut self.watch, self.own_wakers, allowed);
                self.in_vain = woken == Some(WakeCause::Waker);
            }
        }
    }

    fn dozed(&mut self, woken: WakeCause) {
        match woken {
            WakeCause::Timeout => self.next_doze = (self.next_doze * 2).min(LONGEST_DOZE),
            // If it was for a buddy, or spurious, the thread stays awake for a while.
            WakeCause::Bell | WakeCause::Waker => (self.silent_since, self.next_doze) = (None, FIRST_DOZE),
        }
    }
}

#[cfg(test)]
mod tests;
