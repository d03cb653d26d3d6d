//! Values of the flags of `wirecap size`, parsed from text.

use crate::values::{real, scaled};

/// More than any link or core.
const MOST: u64 = 1_000_000_000_000_000;

/// A rate, as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateValue {
    /// Packets per second.
    Packets(u64),
    /// Bits per second on the wire.
    Bits(u64),
}

/// Parses a rate: 10Gbit, 10Gbps, 5Mpps, 500k.
pub(super) fn rate(text: &str) -> Result<RateValue, String> {
    let bits = ["bit/s", "bit", "bps"].iter().find_map(|unit| text.strip_suffix(unit));
    let (number, make): (_, fn(u64) -> RateValue) = match bits {
        Some(number) => (number, RateValue::Bits),
        None => (text.strip_suffix("pps").unwrap_or(text), RateValue::Packets),
    };
    let hint = || "write a rate of a link, like 10Gbit, or of packets, like 5Mpps".to_owned();
    per_second(number).map(make).ok_or_else(hint)
}

/// Parses the pace of a worker: 2Mpps, 500k.
pub(super) fn pace(text: &str) -> Result<u64, String> {
    let hint = || "write packets per second, like 500k or 2Mpps".to_owned();
    per_second(text.strip_suffix("pps").unwrap_or(text)).ok_or_else(hint)
}

/// Parses how many times the mean the busiest queue gets.
pub(super) fn skew(text: &str) -> Result<f64, String> {
    let hint = || "write a number from 1 to the number of queues, like 3 or 1.5".to_owned();
    real(text).filter(|skew| *skew >= 1.0).ok_or_else(hint)
}

fn per_second(number: &str) -> Option<u64> {
    scaled(number).filter(|number| (1..MOST).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_links_or_of_packets() {
        for (text, expected) in [
            ("10Gbit", RateValue::Bits(10_000_000_000)),
            ("2.5Gbps", RateValue::Bits(2_500_000_000)),
            ("100Mbit/s", RateValue::Bits(100_000_000)),
            ("5Mpps", RateValue::Packets(5_000_000)),
            ("500k", RateValue::Packets(500_000)),
        ] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for bad in ["", "0", "fast", "10Gb", "-1", "10G bit", "1e30pps"] {
            assert!(rate(bad).unwrap_err().contains("10Gbit"), "{bad}");
        }
        assert_eq!((pace("2Mpps"), pace("1e6")), (Ok(2_000_000), Ok(1_000_000)));
        assert!(pace("10Gbit").is_err());
        assert_eq!((skew("1"), skew("2.5")), (Ok(1.0), Ok(2.5)));
        assert!(["0.9", "x", "-3", ""].iter().all(|bad| skew(bad).is_err()));
    }
}
