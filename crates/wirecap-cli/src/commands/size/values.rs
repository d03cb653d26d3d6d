//! Values of the flags of `wirecap size`, parsed from text.

use crate::values::{self, Rate, real};

/// Parses a rate: 10Gbit, 10Gbps, 5Mpps, 500k.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
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
        assert_eq!((skew("1"), skew("2.5")), (Ok(1.0), Ok(2.5)));
        assert!(["0.9", "x", "-3", ""].iter().all(|bad| skew(bad).is_err()));
    }
}
