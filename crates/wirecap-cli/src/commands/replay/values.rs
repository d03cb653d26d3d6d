//! Values of the flags of `wirecap replay`, parsed from text.

use std::time::Duration;

use wirecap::QueueSet;
use wirecap_replay::Placement;

use crate::values::{MILLION, decimal, scaled, time};

/// Parses `2`, `flow`, `flow:0-3`, `round-robin`, `round-robin:0,2`, `file:SIDE`.
pub(crate) fn placement(text: &str) -> Result<Placement, String> {
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    let queues = || {
        let set = rest.map(str::parse::<QueueSet>).transpose().map_err(|error| error.to_string())?;
        Ok(set.map(|set| set.iter().collect()))
    };
    match (kind, rest) {
        ("flow", _) => queues().map(Placement::Flow),
        ("round-robin", _) => queues().map(Placement::RoundRobin),
        ("file", Some(path)) if !path.is_empty() => Ok(Placement::Side(path.into())),
        (digits, None) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map(Placement::One).map_err(|_| PLACEMENT.into())
        }
        _ => Err(PLACEMENT.into()),
    }
}

const PLACEMENT: &str = "write a queue number, flow, round-robin, flow:0-3, round-robin:0,2 or file:SIDE";

/// Parses a factor, in millionths.
pub(crate) fn factor(text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix('x').unwrap_or(text);
    let factor = decimal(digits, MILLION).filter(|&factor| factor > 0);
    factor.ok_or_else(|| "write a factor, like --speed 10 or --speed 0.5".into())
}

/// Parses a rate: 1000, 10k, 1.5M, 2.5G.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let rate = scaled(text).filter(|&rate| rate > 0);
    rate.ok_or_else(|| "write a number per second from 1 on, like 1000, 10k, 1.5M or 2.5G".into())
}

/// Parses a time between packets: 0, or a number of us, ms or s. The unit is required, because gaps in traces
/// range from microseconds to hours.
pub(crate) fn gap(text: &str) -> Result<Duration, String> {
    let has_unit = text == "0" || text.ends_with('s');
    let gap = time(text).ok().filter(|_| has_unit);
    gap.ok_or_else(|| "write a time with its unit, like 20us, 1.5ms or 2s".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::size;

    #[test]
    fn queues_are_a_number_a_rule_or_a_file() {
        for (text, expected) in [
            ("3", Placement::One(3)),
            ("flow", Placement::Flow(None)),
            ("flow:0-3", Placement::Flow(Some(vec![0, 1, 2, 3]))),
            ("round-robin", Placement::RoundRobin(None)),
            ("round-robin:0,2", Placement::RoundRobin(Some(vec![0, 2]))),
            ("file:side.txt", Placement::Side("side.txt".into())),
            ("file:a:b", Placement::Side("a:b".into())),
        ] {
            assert_eq!(placement(text), Ok(expected), "{text}");
        }
        for bad in
            ["", "flows", "flow:", "flow:x", "file", "file:", "-1", "65536", "0-3", "1:2", "round-robin:3-1"]
        {
            assert!(placement(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn factors_rates_and_sizes_may_have_fractions() {
        assert_eq!(
            (factor("10"), factor("0.5x"), factor("1.25")),
            (Ok(10_000_000), Ok(500_000), Ok(1_250_000))
        );
        assert_eq!(
            (rate("1000"), rate("1.5M"), rate("10k"), rate("2.5G")),
            (Ok(1_000), Ok(1_500_000), Ok(10_000), Ok(2_500_000_000))
        );
        assert_eq!((size("512M"), size("1.5G"), size("4K")), (Ok(512 << 20), Ok(3 << 29), Ok(4096)));
        for bad in
            ["", "0", "-1", "+1", "1e3", "x", ".", "1.", ".5", "0.0000001", "99999999999999999999", "1,5"]
        {
            assert!(factor(bad).is_err(), "{bad}");
        }
        for bad in ["0", "0.5", "M", "1m", "99999999999G"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        for bad in ["512", "0M", "M", "1B"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn gaps_may_be_none_and_short() {
        let us = |text| gap(text).map(|gap| gap.as_nanos() as f64 / 1e3);
        assert_eq!((us("0"), us("20us"), us("1.5ms"), us("2s")), (Ok(0.0), Ok(20.0), Ok(1_500.0), Ok(2e6)));
        for bad in ["", "5", "5m", "us", "-1us", "1.us"] {
            assert!(gap(bad).is_err(), "{bad}");
        }
    }
}
