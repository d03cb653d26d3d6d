//! The texts of names in reports.

use std::fmt;

use wirecap::{
    Timestamp, TimestampReport,
    report::{Clock, ClockScale, CounterRefusal, FilterPlace, Pages, PortReport, QueueMode},
};

/// What the numbers of a port's queues count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Receive queues of a NIC, or those of a trace.
    Queue,
    /// Cores: of a tap.
    Core,
    /// Sockets of AF_PACKET.
    Socket,
}

impl RowKind {
    /// Of this port.
    pub(crate) fn of(port: &PortReport) -> Self {
        match port.queues.first().map(|queue| queue.mode) {
            Some(QueueMode::Tap) => Self::Core,
            Some(QueueMode::Packet) => Self::Socket,
            _ => Self::Queue,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Core => "core",
            Self::Socket => "socket",
        }
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Where a filter runs.
pub(crate) fn place(place: FilterPlace) -> &'static str {
    match place {
        FilterPlace::Kernel => "in the kernel",
        FilterPlace::NativeCode => "in user space, as native code",
        FilterPlace::Interpreter => "in user space, interpreted",
    }
}

/// Where the time of each packet is taken.
pub(crate) fn source(source: Timestamp) -> &'static str {
    match source {
        Timestamp::Hardware => "of each packet by the NIC",
        Timestamp::Kernel => "of each packet in the kernel",
        Timestamp::Batch => "one per look at the queue",
        Timestamp::File => "of each packet, from the file",
    }
}

/// The source, clock and resolution of timestamps, in one line. Bounds are measured while the capture runs,
/// so they are reported at the end.
pub(crate) fn timestamps(
    TimestampReport { source: from, clock, resolution_ns, .. }: &TimestampReport,
) -> String {
    format!("{from}, {}: {}; resolution {resolution_ns} ns", source(*from), self::clock(clock))
}

/// The clock of the timestamps, and how they become UTC.
pub(crate) fn clock(clock: &Clock) -> String {
    match clock {
        Clock::CpuCounter => "the CPU's counter, synchronised with the system clock (UTC)".into(),
        Clock::System { no_counter: None } => "the system clock (UTC)".into(),
        Clock::System { no_counter: Some(reason) } => {
            format!("the system clock (UTC); the CPU's counter is not used: {}", no_counter(*reason))
        }
        Clock::Monotonic => "CLOCK_MONOTONIC, synchronised with the system clock".into(),
        Clock::Nic { device, name, shows, off_ns, showed } => {
            let when = if showed.is_some() { "then" } else { "at the start" };
            let shows = match shows {
                ClockScale::Other => ", synchronised with the system clock".into(),
                shows => {
                    format!(", which shows {} ({off_ns} ns from the system clock {when})", scale(*shows))
                }
            };
            let showed = showed.map(|showed| format!("; it was set, and showed {} before", scale(showed)));
            format!("the clock of the NIC, {device} ({name}){shows}{}", showed.unwrap_or_default())
        }
        Clock::File => "the clock of the program that wrote the file".into(),
        _ => "an unknown clock".into(),
    }
}

fn no_counter(reason: CounterRefusal) -> &'static str {
    match reason {
        CounterRefusal::Absent => "programs cannot read it",
        CounterRefusal::Variable => "its rate may change",
        CounterRefusal::NotTheKernels => "the kernel uses another clock",
        CounterRefusal::Unknown => "the kernel does not say which clock it uses",
        CounterRefusal::Stopped => "it does not count",
        CounterRefusal::NotNeeded => "no packet needs it",
    }
}

fn scale(scale: ClockScale) -> &'static str {
    match scale {
        ClockScale::Tai => "TAI",
        ClockScale::Utc => "UTC",
        ClockScale::Other => "its own time",
    }
}

/// Which pages the packet memory uses.
pub(crate) fn pages(pages: Pages) -> &'static str {
    match pages {
        Pages::Huge => "huge (2 MiB, reserved)",
        Pages::Normal => "normal (4 KiB, transparent huge pages requested)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_nic_is_named_with_its_time_scales() {
        let nic = |shows, showed| {
            let (device, name) = ("/dev/ptp0".into(), "ice".into());
            clock(&Clock::Nic { device, name, shows, off_ns: 900, showed })
        };
        let name = "the clock of the NIC, /dev/ptp0 (ice), ";
        let (tai, utc) = (ClockScale::Tai, ClockScale::Utc);
        assert_eq!(
            nic(tai, None),
            format!("{name}which shows TAI (900 ns from the system clock at the start)")
        );
        assert_eq!(
            nic(utc, Some(tai)),
            format!(
                "{name}which shows UTC (900 ns from the system clock then); it was set, and showed TAI before"
            )
        );
        assert_eq!(nic(ClockScale::Other, None), format!("{name}synchronised with the system clock"));
    }
}
