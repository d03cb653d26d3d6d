//! Rates: packets or bits per second.

use super::scaled;

/// More than any link or core.
const MOST: u64 = 1_000_000_000_000_000;

/// A rate, as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Packets per second.
    Packets(u64),
    /// Bits per second.
    Bits(u64),
}

/// Parses a rate: 1M or 1Mpps, 2.5Gbps, 10Gbit.
pub(crate) fn rate(text: &str) -> Option<Rate> {
    let bits = ["bit/s", "bit", "bps"].iter().find_map(|unit| text.strip_suffix(unit));
    match bits {
        Some(number) => per_second(number).map(Rate::Bits),
        None => per_second(text.strip_suffix("pps").unwrap_or(text)).map(Rate::Packets),
    }
}

/// Parses a number per second with a decimal suffix: 500k, 1.5M.
pub(crate) fn per_second(text: &str) -> Option<u64> {
    scaled(text).filter(|number| (1..MOST).contains(number))
}

/// Parses the pace of a worker: 2Mpps, 500k.
pub(crate) fn pace(text: &str) -> Result<u64, String> {
    per_second(text.strip_suffix("pps").unwrap_or(text))
        .ok_or_else(|| "write packets per second, like 500k or 2Mpps".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_links_or_of_packets() {
        for (text, expected) in [
            ("10Gbit", Rate::Bits(10_000_000_000)),
            ("2.5Gbps", Rate::Bits(2_500_000_000)),
            ("100Mbit/s", Rate::Bits(100_000_000)),
            ("5Mpps", Rate::Packets(5_000_000)),
            ("500k", Rate::Packets(500_000)),
        ] {
            assert_eq!(rate(text), Some(expected), "{text}");
        }
        for bad in ["", "0", "fast", "10Gb", "-1", "10G bit", "1e30pps", "bps"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
        assert_eq!((pace("2Mpps"), pace("1e6")), (Ok(2_000_000), Ok(1_000_000)));
        assert!(pace("10Gbit").is_err());
    }
}
