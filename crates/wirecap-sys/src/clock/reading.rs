//! Reading clocks: the kernel's, and that of a NIC.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
};

use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_getres, clock_gettime},
};

use super::{ClockError, NS_PER_S};

/// How often two clocks are read to find their difference. The narrowest reading counts.
const READINGS: u32 = 7;

/// A clock that stamps are taken from.
#[derive(Debug, Clone)]
pub enum ClockSource {
    /// CLOCK_MONOTONIC of the kernel: since the start of the machine. It is slewed together with the system
    /// clock, so that their distance changes only when the system clock is set.
    Monotonic,
    /// The clock of a NIC.
    Ptp(PtpClock),
}

/// The clock of a NIC, open.
#[derive(Debug, Clone)]
pub struct PtpClock {
    pub(super) file: Arc<File>,
    pub(super) path: String,
    /// As its driver calls it.
    pub(super) name: String,
}

impl PtpClock {
    /// Opens `/dev/ptp…` by its number, which `ethtool -T` shows.
    ///
    /// # Errors
    /// [`ClockError::Open`].
    pub fn open(number: u32) -> Result<Self, ClockError> {
        let path = format!("/dev/ptp{number}");
        match File::open(&path) {
            Ok(file) => {
                let name = fs::read_to_string(format!("/sys/class/ptp/ptp{number}/clock_name"));
                let name = name.map_or_else(|_| "unnamed".into(), |name| name.trim().to_owned());
                Ok(Self { file: Arc::new(file), path, name })
            }
            Err(source) => Err(ClockError::Open { path, source }),
        }
    }
}

/// The kernel's name for a clock behind a file: `FD_TO_CLOCKID` of Documentation/driver-api/ptp.rst.
fn clock_of_file(fd: RawFd) -> ClockId {
    ClockId::from_raw((!fd << 3) | 3)
}

impl ClockSource {
    fn id(&self) -> ClockId {
        match self {
            ClockSource::Monotonic => ClockId::CLOCK_MONOTONIC,
            ClockSource::Ptp(clock) => clock_of_file(clock.file.as_raw_fd()),
        }
    }

    /// Whether it can be set, and can drift away from the system clock.
    pub(super) fn may_be_set(&self) -> bool {
        matches!(self, ClockSource::Ptp(_))
    }

    /// What it is called.
    pub fn describe(&self) -> String {
        match self {
            ClockSource::Monotonic => "CLOCK_MONOTONIC of the kernel".into(),
            ClockSource::Ptp(PtpClock { path, name, .. }) => format!("the clock of the NIC, {path} ({name})"),
        }
    }

    fn failed(&self, source: io::Error) -> ClockError {
        ClockError::Read { clock: self.describe(), source }
    }

    /// Its resolution in nanoseconds, as the kernel says.
    ///
    /// # Errors
    /// [`ClockError::Read`].
    pub fn resolution_ns(&self) -> Result<u64, ClockError> {
        resolve(self.id()).map_err(|source| self.failed(source))
    }

    /// How far it is ahead of the system clock.
    pub(super) fn distance(&self) -> Result<Distance, ClockError> {
        let mut narrowest: Option<Distance> = None;
        for _ in 0..READINGS {
            let before = system_ns();
            let there = read(self.id()).map_err(|source| self.failed(source))?;
            let width_ns = system_ns().saturating_sub(before);
            let at_ns = before + width_ns / 2;
            if narrowest.is_none_or(|best| width_ns.div_ceil(2) < best.error_ns) {
                let ahead_ns = there as i64 - at_ns as i64;
                narrowest = Some(Distance { ahead_ns, error_ns: width_ns.div_ceil(2), at_ns });
            }
        }
        Ok(narrowest.expect("it was read"))
    }
}

/// How far a clock is ahead of the system clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance {
    pub(super) ahead_ns: i64,
    /// How much more or less it may be.
    pub(super) error_ns: u64,
    /// When, by the system clock.
    pub(super) at_ns: u64,
}

/// The system clock: nanoseconds since 1970 (UTC).
pub fn system_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME).expect("every Linux has the clock")
}

/// The kernel's monotonic clock, which is never set: nanoseconds since some moment.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC).expect("every Linux has the clock")
}

/// How far the system clock is ahead of the kernel's monotonic one (`bpf_ktime_get_ns`), in nanoseconds;
/// modulo 2^64.
pub fn system_ahead_of_monotonic_ns() -> u64 {
    let distance = ClockSource::Monotonic.distance().expect("every Linux has the clock");
    distance.ahead_ns.wrapping_neg() as u64
}

/// The resolution of the system clock in nanoseconds.
pub fn resolution_ns() -> u64 {
    resolve(ClockId::CLOCK_REALTIME).expect("every Linux has the clock")
}

fn read(clock: ClockId) -> io::Result<u64> {
    Ok(nanoseconds(clock_gettime(clock)?))
}

fn resolve(clock: ClockId) -> io::Result<u64> {
    Ok(nanoseconds(clock_getres(clock)?))
}

/// A time before 1970, which a clock that was never set may show, counts as 1970.
fn nanoseconds(time: TimeSpec) -> u64 {
    let ns = i128::from(time.tv_sec()) * i128::from(NS_PER_S) + i128::from(time.tv_nsec());
    ns.clamp(0, i64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_clock_can_be_read_and_keeps_its_distance_from_the_system_clock() {
        let clock = ClockSource::Monotonic;
        let (first, second) = (clock.distance().unwrap(), clock.distance().unwrap());
        assert!(first.ahead_ns < 0, "the machine started after 1970");
        let apart_ns = first.ahead_ns.abs_diff(second.ahead_ns);
        assert!(apart_ns <= first.error_ns + second.error_ns, "{first:?} {second:?}");
        assert!((1..=10_000_000).contains(&clock.resolution_ns().unwrap()));
    }

    #[test]
    fn a_missing_clock_is_an_error_that_names_its_path() {
        let error = PtpClock::open(u32::MAX).unwrap_err();
        assert!(error.to_string().contains("/dev/ptp4294967295"), "{error}");
    }
}
