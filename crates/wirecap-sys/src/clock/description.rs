//! Which clock times come from, as data for reports.

use serde::Serialize;
use wirecap_core::choices;

/// A clock, and how its times become UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Clock {
    /// The CPU's counter, kept to the system clock.
    CpuCounter,
    /// The system clock.
    System {
        /// Why the CPU's counter is not used; `None` where it would not serve.
        no_counter: Option<CounterRefusal>,
    },
    /// The kernel's CLOCK_MONOTONIC, kept to the system clock.
    Monotonic,
    /// The clock of a NIC.
    Nic {
        /// Its device, `/dev/ptp0`.
        device: String,
        /// What the driver calls it.
        name: String,
        /// What it shows.
        shows: ClockScale,
        /// How far it was from that when it was first seen to show it, in nanoseconds. 0 for a time of its
        /// own, which is kept to the system clock.
        off_ns: u64,
        /// What it showed before it was set, if it was set since the start.
        showed: Option<ClockScale>,
    },
    /// The clock of the program that wrote a trace file.
    File,
}

choices! {
    /// What a clock shows.
    pub enum ClockScale {
        /// International atomic time.
        Tai = "tai",
        /// Coordinated universal time.
        Utc = "utc",
        /// Time since some moment.
        Other = "other",
    }
}

choices! {
    /// Why the CPU's counter gives no times.
    pub enum CounterRefusal {
        /// Programs may not read one.
        Absent = "absent",
        /// Its pace may change.
        Variable = "variable",
        /// The kernel uses another clock.
        NotTheKernels = "not_the_kernels",
        /// The kernel does not say which clock it uses.
        Unknown = "unknown",
        /// It does not count.
        Stopped = "stopped",
        /// No packet needs it.
        NotNeeded = "not_needed",
    }
}
