//! What may take long before anything is changed on the machine, and is given up on a signal.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::process::{idle_thread::no_thread, signals::Signals};

/// How often signals are looked at once it is known that it takes long.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked at before: mostly it takes no longer than this.
const GLANCE: Duration = Duration::from_millis(1);
/// Steps that take longer are announced.
pub(crate) const LONG: Duration = Duration::from_secs(1);
/// Name of the thread that does it.
const THREAD: &str = "wirecap-open";

/// Something that may take long and changes nothing, so that it can be given up.
pub(crate) struct Step {
    /// Printed when the step takes longer than `timeout`.
    pub(crate) waits_for: String,
    pub(crate) timeout: Duration,
    /// Said when a signal has ended it.
    pub(crate) given_up: String,
}

impl Step {
    /// Has libpcap compile a filter.
    pub(crate) fn compiling() -> Self {
        Self {
            waits_for: "libpcap is compiling the filter: long lists of addresses and names take it long, networks do not"
                .into(),
            timeout: LONG,
            given_up: "the filter was not compiled".into(),
        }
    }

    /// By a thread of its own, since it waits where nothing but the end of the process can reach it. Nothing
    /// is announced if `quiet`.
    ///
    /// # Errors
    /// A signal has ended it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        signals: &Signals,
        quiet: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let working = thread::Builder::new().name(THREAD.into()).spawn(work);
        let working = working.map_err(|cause| no_thread(THREAD, &cause))?;
        let begun = Instant::now();
        let mut announced = quiet;
        while !working.is_finished() {
            if !announced && begun.elapsed() >= self.timeout {
                note!("{}", self.waits_for);
                announced = true;
            }
            ensure!(!signals.end(), "{}, so nothing was captured", self.given_up);
            thread::sleep(if begun.elapsed() >= self.timeout { TICK } else { GLANCE });
        }
        Ok(working.join().expect("no panic"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_given_up_on_a_signal_and_else_waited_for() {
        let step = Step { waits_for: "waiting".into(), timeout: LONG, given_up: "it was not there".into() };
        let begun = Instant::now();
        let given_up =
            step.run(&Signals::sent(), true, || thread::sleep(Duration::from_secs(60))).unwrap_err();
        assert_eq!(given_up.to_string(), "it was not there, so nothing was captured");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let done = step.run(&Signals::default(), true, || {
            thread::sleep(Duration::from_millis(30));
            7
        });
        assert_eq!(done.unwrap(), 7);
    }
}
