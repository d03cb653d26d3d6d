//! Rates, times and sizes, each in a fitting unit.

use std::time::Duration;

use super::plural::counted;

/// Packets per second.
pub(crate) fn rate(pps: f64) -> String {
    match pps {
        1e6.. => format!("{:.2} Mpps", pps / 1e6),
        1e3.. => format!("{:.2} kpps", pps / 1e3),
        _ => counted(pps.round() as u64, "packet") + "/s",
    }
}

/// An upper bound of a time, rounded up so that the printed value is a bound as well.
pub(crate) fn at_most(ns: u64) -> String {
    let tenths = |unit_ns: u64| ns.div_ceil(unit_ns / 10) as f64 / 10.0;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_901 => format!("{:.1} µs", tenths(1_000)),
        999_901..999_900_001 => format!("{:.1} ms", tenths(1_000_000)),
        _ => format!("{:.1} s", tenths(1_000_000_000)),
    }
}

/// Bits per second.
pub(crate) fn bit_rate(bps: f64) -> String {
    if bps >= 1e9 { format!("{:.2} Gbit/s", bps / 1e9) } else { format!("{:.2} Mbit/s", bps / 1e6) }
}

/// Bytes per second.
pub(crate) fn byte_rate(bytes: u64) -> String {
    let mb = bytes as f64 / 1e6;
    if mb >= 10.0 { format!("{mb:.0} MB/s") } else { format!("{mb:.1} MB/s") }
}

/// A long time.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Memory that a setting names: in MiB if that is exact.
pub(crate) fn exact_size(bytes: u64) -> String {
    if bytes % (1 << 20) == 0 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    }
}

/// Memory, rounded up.
pub(crate) fn size(bytes: u64) -> String {
    exact_size(if bytes < 1 << 20 { bytes } else { bytes.next_multiple_of(1 << 20) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_up() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (1_001, "1.1 µs"),
            (999_900, "999.9 µs"),
            (999_901, "1.0 ms"),
            (999_900_000, "999.9 ms"),
            (999_900_001, "1.0 s"),
            (3_900_000_001, "4.0 s"),
        ] {
            assert_eq!(at_most(ns), expected);
        }
    }

    #[test]
    fn rates_have_a_fitting_unit() {
        assert_eq!(
            (rate(4e6), rate(1_500.0), rate(3.2)),
            ("4.00 Mpps".into(), "1.50 kpps".into(), "3 packets/s".into())
        );
        assert_eq!(rate(0.9), "1 packet/s");
    }

    #[test]
    fn slow_disks_have_tenths() {
        assert_eq!((byte_rate(9_040_000), byte_rate(10_400_000)), ("9.0 MB/s".into(), "10 MB/s".into()));
    }

    #[test]
    fn times_and_sizes_have_a_fitting_unit() {
        let of = |seconds| length(Duration::from_secs(seconds));
        assert_eq!(
            (of(3), of(42), of(90), of(3_700), of(90_000)),
            ("3.0 s".into(), "42 s".into(), "1 min 30 s".into(), "1 h 1 min".into(), "1 days 1 h".into())
        );
        assert_eq!(
            (bit_rate(1.5e9), bit_rate(2e6), size(4096), size(3 << 20)),
            ("1.50 Gbit/s".into(), "2.00 Mbit/s".into(), "4 KiB".into(), "3 MiB".into())
        );
    }
}
