//! Values of the flags of `wirecap size`, parsed from text.

use crate::values::{self, Rate, per_second, real};

/// From this many packets per second on, a number without a unit is refused: no link carries them, so that it
/// is likely to be the rate of a link in bits.
const IMPLAUSIBLE_PPS: u64 = 1_000_000_000;

/// Parses a rate: 10Gbit, 10Gbps, 5Mpps, 500k.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    if per_second(text).is_some_and(|pps| pps >= IMPLAUSIBLE_PPS) {
        return Err(format!(
            "without a unit, a rate is of packets; write {text}bit for the rate of a link, or {text}pps for packets"
        ));
    }
    values::rate(text).ok_or_else(|| "write a rate of a link, like 10Gbit, or of packets, like 5Mpps".into())
}

/// Parses how many times the mean the busiest queue gets.
pub(super) fn skew(text: &str) -> Result<f64, String> {
    real(text)
        .filter(|skew| *skew >= 1.0)
        .ok_or_else(|| "write a number from 1 to the number of queues, like 3 or 1.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_are_refused_with_an_example() {
        assert!(rate("10Gb").unwrap_err().contains("10Gbit"));
        for bare in ["10G", "2.5G", "10000M", "1e10"] {
            let error = rate(bare).unwrap_err();
            assert!(
                error.contains(&format!("{bare}bit")) && error.contains(&format!("{bare}pps")),
                "{error}"
            );
        }
        assert_eq!(
            (rate("500k"), rate("1Gpps")),
            (Ok(Rate::Packets(500_000)), Ok(Rate::Packets(1_000_000_000)))
        );
        assert_eq!(rate("10Gbit"), Ok(Rate::Bits(10_000_000_000)));
        assert_eq!(rate("5Mpps"), Ok(Rate::Packets(5_000_000)));
        assert_eq!((skew("1"), skew("2.5")), (Ok(1.0), Ok(2.5)));
        assert!(["0.9", "x", "-3", ""].iter().all(|bad| skew(bad).is_err()));
    }
}
