//! Signals that end a command, each asking for more than the one before.
//!
//! ```text
//!   running ──signal──► asked to end ──signal──► the process exits
//!      │                     │
//!      └──── begin_ending ───┴──► ending ──signal──► asked to give up ──signal──► the process exits
//! ```
//!
//! Rule: the signal handler does all of it, so that it takes no thread, and works whatever the process waits
//! for. A signal that comes too soon after the one before repeats it: `timeout` and some service managers
//! send theirs twice. One that people may have sent, since it is not that soon, deserves an answer.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::low_level;

use crate::clock::monotonic_ns;

/// Bits of a state that hold the stage; the others hold the time in nanoseconds, which lasts for 146 years.
const STAGE_BITS: u32 = 2;

/// A fifth of the time for repetitions: people do not send a second signal that soon, programs do.
const BY_PROGRAM_DIVISOR: u64 = 5;

/// What signals have asked for so far.
#[derive(Debug, Default)]
pub struct Escalation {
    /// The stage, and when it was reached. Written by signal handlers, and by the command when it begins to
    /// end; it guards no other memory.
    state: AtomicU64,
    /// Written by signal handlers, once.
    end: Arc<AtomicBool>,
    /// Written by signal handlers, and by the command.
    give_up: Arc<AtomicBool>,
    /// Written by signal handlers, cleared by the command.
    repeated: AtomicBool,
    /// A signal that comes sooner after the last one repeats it.
    repetition_ns: u64,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running = 0,
    AskedToEnd = 1,
    Ending = 2,
    AskedToGiveUp = 3,
}

/// What a signal leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Nothing,
    /// The signal asks for nothing more, but its sender may wait for that.
    Answer,
    End,
    GiveUp,
    Exit,
}

impl Escalation {
    /// A signal that comes within `repetition` after the last one repeats it.
    pub fn new(repetition: Duration) -> Arc<Self> {
        Arc::new(Self { repetition_ns: repetition.as_nanos() as u64, ..Self::default() })
    }

    /// From now on takes these signals. The last stage ends the process with `code`. Call it before there are
    /// other threads: see [`hold_back`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn register(self: &Arc<Self>, signals: &[libc::c_int], code: libc::c_int) -> io::Result<()> {
        hold_back(signals, || self.register_each(signals, code))?
    }

    fn register_each(self: &Arc<Self>, signals: &[libc::c_int], code: libc::c_int) -> io::Result<()> {
        for &signal in signals {
            let escalation = Arc::clone(self);
            let handle = move || {
                if escalation.take(monotonic_ns()) == Reaction::Exit {
                    low_level::exit(code);
                }
            };
            // SAFETY: a signal handler may call nothing but async-signal-safe functions: clock_gettime(2) and
            // _exit(2) are. It takes no lock, allocates nothing and does not panic.
            unsafe { low_level::register(signal, handle) }?;
        }
        Ok(())
    }

    /// As if a signal had come.
    pub fn raise(&self) {
        self.take(monotonic_ns());
    }

    /// Set once a signal has asked for the end.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.end)
    }

    /// Whether a signal has asked for the end.
    pub fn is_asked_to_end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// The command begins to end, for whatever reason: the next signal asks it to give up what is left to do.
    pub fn begin_ending(&self) {
        // A signal that comes just now was meant to end the command, not to give up.
        self.state.store(state(Stage::Ending, monotonic_ns()), Ordering::Relaxed);
    }

    /// Set once a signal has asked to give up what is left to do. The command may set it, too: the next
    /// signal still asks for more than the one before.
    pub fn give_up_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.give_up)
    }

    /// Whether a signal has come since the last call that was too soon to ask for more, but later than a
    /// program sends one twice.
    pub fn take_repeated(&self) -> bool {
        // Written only if set: commands ask many times a second.
        self.repeated.load(Ordering::Relaxed) && self.repeated.swap(false, Ordering::Relaxed)
    }

    fn take(&self, now_ns: u64) -> Reaction {
        let mut before = self.state.load(Ordering::Relaxed);
        let reaction = loop {
            let (after, reaction) = next(before, now_ns, self.repetition_ns);
            // Another signal, in another thread, may be quicker.
            match self.state.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break reaction,
                Err(changed) => before = changed,
            }
        };
        match reaction {
            Reaction::End => self.end.store(true, Ordering::Relaxed),
            Reaction::GiveUp => self.give_up.store(true, Ordering::Relaxed),
            Reaction::Answer => self.repeated.store(true, Ordering::Relaxed),
            Reaction::Nothing | Reaction::Exit => {}
        }
        reaction
    }
}

/// Does `work`, which registers handlers; these signals arrive after it.
///
/// signal-hook first has the kernel call its handler and then notes what to do. A signal that came in between
/// would be lost. Only the calling thread holds signals back, so there should be no other.
///
/// # Errors
/// The kernel's error, also for a number that is not that of a signal.
pub fn hold_back<T>(signals: &[libc::c_int], work: impl FnOnce() -> T) -> io::Result<T> {
    let mut held = SigSet::empty();
    for &signal in signals {
        held.add(Signal::try_from(signal)?);
    }
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = work();
    before.thread_set_mask()?;
    Ok(result)
}

/// The state after a signal, and what that leads to.
fn next(before: u64, now_ns: u64, repetition_ns: u64) -> (u64, Reaction) {
    let (stage, since_ns) = (before & ((1 << STAGE_BITS) - 1), before >> STAGE_BITS);
    let passed_ns = now_ns.saturating_sub(since_ns);
    if stage != Stage::Running as u64 && passed_ns < repetition_ns {
        let is_by_program = passed_ns < repetition_ns / BY_PROGRAM_DIVISOR;
        return (before, if is_by_program { Reaction::Nothing } else { Reaction::Answer });
    }
    if stage == Stage::Running as u64 {
        (state(Stage::AskedToEnd, now_ns), Reaction::End)
    } else if stage == Stage::Ending as u64 {
        (state(Stage::AskedToGiveUp, now_ns), Reaction::GiveUp)
    } else {
        (before, Reaction::Exit)
    }
}

fn state(stage: Stage, now_ns: u64) -> u64 {
    now_ns << STAGE_BITS | stage as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reactions to signals at these times, if the command begins to end at `ending_ns`. The patience is
    /// 100 ns.
    fn reactions(signals_ns: &[u64], mut ending_ns: Option<u64>) -> Vec<Reaction> {
        let mut now = state(Stage::Running, 0);
        let mut react = |at_ns: u64| {
            if let Some(ending_ns) = ending_ns.take_if(|ending_ns| *ending_ns <= at_ns) {
                now = state(Stage::Ending, ending_ns);
            }
            let (after, reaction) = next(now, at_ns, 100);
            now = after;
            reaction
        };
        signals_ns.iter().map(|&at_ns| react(at_ns)).collect()
    }

    #[test]
    fn the_first_signal_ends_the_command_and_a_late_second_one_exits() {
        use Reaction::{Answer, End, Exit, Nothing};
        assert_eq!(reactions(&[0, 1, 19, 20, 99, 100], None), [End, Nothing, Nothing, Answer, Answer, Exit]);
    }

    #[test]
    fn while_the_command_ends_a_signal_gives_up_and_the_next_one_exits() {
        use Reaction::{Answer, End, Exit, GiveUp, Nothing};
        let by_signal = reactions(&[1_000, 1_004, 1_110, 1_120, 1_220], Some(1_005));
        assert_eq!(by_signal, [End, Nothing, GiveUp, Nothing, Exit]);
        assert_eq!(reactions(&[510, 600, 650, 700], Some(500)), [Nothing, GiveUp, Answer, Exit]);
    }

    #[test]
    fn a_repetition_is_taken_once() {
        let escalation = Escalation { repetition_ns: 100, ..Escalation::default() };
        escalation.take(0);
        escalation.take(10);
        assert!(!escalation.take_repeated(), "a program sends one twice");
        escalation.take(50);
        assert!(escalation.take_repeated() && !escalation.take_repeated());
        assert!(!escalation.give_up_flag().load(Ordering::Relaxed));
    }

    #[test]
    fn requests_to_end_and_to_give_up_are_visible() {
        let escalation = Escalation::new(Duration::ZERO);
        let give_up = || escalation.give_up_flag().load(Ordering::Relaxed);
        assert_eq!((escalation.is_asked_to_end(), give_up()), (false, false));
        escalation.begin_ending();
        escalation.raise();
        assert_eq!((escalation.is_asked_to_end(), give_up()), (false, true));
        let escalation = Escalation::new(Duration::ZERO);
        escalation.raise();
        assert!(escalation.is_asked_to_end() && escalation.flag().load(Ordering::Relaxed));
    }

    #[test]
    fn a_signal_that_comes_during_the_registration_is_not_lost() {
        let escalation = Escalation::new(Duration::ZERO);
        let signals = [libc::SIGUSR2];
        let registered = hold_back(&signals, || {
            // To this thread. Without a handler it would end the process.
            nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
            assert!(!escalation.is_asked_to_end());
            escalation.register_each(&signals, 1)
        });
        registered.unwrap().unwrap();
        assert!(escalation.is_asked_to_end());
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR2));
    }

    #[test]
    fn time_goes_on() {
        let before = monotonic_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(monotonic_ns() >= before + 2_000_000);
    }
}
