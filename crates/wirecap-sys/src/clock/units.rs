//! Spans of time.

/// How often a clock is compared with the system clock, in nanoseconds.
pub const LOOK_INTERVAL_NS: u64 = 100_000_000;

/// Nanoseconds of a second.
pub(super) const NS_PER_S: u64 = 1_000_000_000;
