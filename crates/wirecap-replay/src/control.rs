//! Stops a running replay, and reports its progress to other threads.

use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// When to stop before the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// After this number of packets.
    pub count: Option<u64>,
    /// After this time.
    pub duration: Option<Duration>,
}

/// Stops a replay, and reports its progress. Shared between the thread that sends and others.
#[derive(Debug, Default)]
pub struct Control {
    /// Written by the thread that stops it; orders nothing else.
    stopped: AtomicBool,
    /// Set when the first packet is about to be sent.
    started: OnceLock<(Instant, Forecast)>,
    /// Packets given to the kernel so far. Written by the thread that sends.
    packets: AtomicU64,
    /// Bytes of these. Written by the thread that sends.
    bytes: AtomicU64,
    /// The current pass, and the share of the files that was read in it. Written by the thread that sends,
    /// once per block that it takes.
    read: Mutex<Option<(u64, f64)>>,
}

/// What is known before sending begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Forecast {
    /// Packets of all passes, where that is known.
    pub(crate) packets: Option<u64>,
    /// Planned duration, where that is known.
    pub(crate) planned: Option<Duration>,
    /// Passes over the files; `None` repeats until stopped.
    pub(crate) passes: Option<u64>,
    pub(crate) limits: Limits,
}

impl Forecast {
    /// The duration until the files or a limit end the replay, where that is known.
    pub(crate) fn length(&self) -> Option<Duration> {
        let Limits { count, duration } = self.limits;
        // The time at which a limit on packets is reached is unknown in advance.
        let is_cut = count.is_some_and(|count| self.packets.is_none_or(|packets| count < packets));
        let planned = self.planned.filter(|_| !is_cut)?;
        Some(planned.min(duration.unwrap_or(planned)))
    }

    /// The nearest end determines the share.
    fn progress(&self, elapsed: Duration, packets: u64, bytes: u64, read: Option<(u64, f64)>) -> Progress {
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0));
        let seconds = elapsed.as_secs_f64();
        let of_files = match (self.planned, self.packets, read) {
            (Some(planned), _, _) => ratio(seconds, planned.as_secs_f64()),
            (None, Some(all), _) => ratio(packets as f64, all as f64),
            (None, None, Some((pass, share))) => {
                self.passes.and_then(|passes| ratio(pass as f64 + share, passes as f64))
            }
            (None, None, None) => None,
        };
        let of_count = self.limits.count.and_then(|count| ratio(packets as f64, count as f64));
        let of_time = self.limits.duration.and_then(|duration| ratio(seconds, duration.as_secs_f64()));
        let share = [of_files, of_count, of_time].into_iter().flatten().reduce(f64::max);
        let left = share.filter(|&share| share > 0.0).map(|share| seconds * (1.0 - share) / share);
        let left = left.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Progress { elapsed, packets, bytes, share, left }
    }
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Since the first packet.
    pub elapsed: Duration,
    /// Packets given to the kernel.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Share that is done, from 0 to 1, if an end is known.
    pub share: Option<f64>,
    /// Estimated time until the end.
    pub left: Option<Duration>,
}

impl Control {
    /// Ends the replay: the kernel gets no more packets.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How far it is; `None` before the first packet.
    pub fn progress(&self) -> Option<Progress> {
        let (started, expected) = self.started.get()?;
        let read = *self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let packets = self.packets.load(Ordering::Relaxed);
        let (elapsed, bytes) = (started.elapsed(), self.bytes.load(Ordering::Relaxed));
        Some(expected.progress(elapsed, packets, bytes, read))
    }

    pub(crate) fn start(&self, at: Instant, expected: Forecast) {
        let _ = self.started.set((at, expected));
    }

    pub(crate) fn sent(&self, packets: u64, bytes: u64) {
        self.packets.store(packets, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, pass: u64, share: Option<f64>) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = share.map(|share| (pass, share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn share(expected: Forecast, read: Option<(u64, f64)>) -> Option<f64> {
        expected.progress(10 * SECOND, 500, 0, read).share
    }

    fn limits(count: Option<u64>, seconds: Option<u32>) -> Limits {
        Limits { count, duration: seconds.map(|seconds| seconds * SECOND) }
    }

    #[test]
    fn the_nearest_end_is_reported() {
        let four = Forecast { passes: Some(4), ..Forecast::default() };
        let planned = Forecast { planned: Some(40 * SECOND), packets: Some(600), ..four };
        assert_eq!(share(planned, None), Some(0.25), "the plan counts, not the packets");
        assert_eq!(planned.progress(10 * SECOND, 500, 0, None).left, Some(30 * SECOND));
        assert_eq!(share(Forecast { limits: limits(None, Some(20)), ..planned }, None), Some(0.5));
        assert_eq!(share(Forecast { limits: limits(Some(1_000), Some(60)), ..planned }, None), Some(0.5));
        assert_eq!(share(Forecast { packets: Some(1_000), ..four }, None), Some(0.5));
        assert_eq!(share(four, Some((2, 0.5))), Some(0.625));
    }

    #[test]
    fn the_earliest_end_sets_the_length() {
        let length = |count, seconds| {
            let (planned, packets) = (Some(40 * SECOND), Some(600));
            Forecast { planned, packets, limits: limits(count, seconds), ..Forecast::default() }.length()
        };
        assert_eq!(length(None, None), Some(40 * SECOND));
        assert_eq!((length(None, Some(10)), length(None, Some(50))), (Some(10 * SECOND), Some(40 * SECOND)));
        assert_eq!((length(Some(600), None), length(Some(599), None)), (Some(40 * SECOND), None));
        assert_eq!(Forecast { limits: limits(None, Some(10)), ..Forecast::default() }.length(), None);
    }

    #[test]
    fn an_unknown_end_is_not_reported() {
        assert_eq!(share(Forecast::default(), None), None);
        assert_eq!(share(Forecast::default(), Some((2, 0.5))), None);
        let late = Forecast { planned: Some(SECOND), ..Forecast::default() };
        let late = late.progress(10 * SECOND, 1, 1, None);
        assert_eq!((late.share, late.left), (Some(1.0), Some(Duration::ZERO)));
        assert!(Control::default().progress().is_none());
    }
}
