//! Values of flags that only `replay` has.

use std::{path::PathBuf, time::Duration};

use wirecap::QueueSet;

use crate::values::{MILLION, decimal, scaled, time};

/// Which queues, before the machine was asked how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Where {
    One(u16),
    /// `None` is all of them.
    Flow(Option<QueueSet>),
    RoundRobin(Option<QueueSet>),
    Side(PathBuf),
}

/// Reads `2`, `flow`, `flow:0-3`, `round-robin`, `round-robin:0,2`, `file:SIDE`.
pub(crate) fn where_to(text: &str) -> Result<Where, String> {
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    let set = || rest.map(str::parse::<QueueSet>).transpose().map_err(|error| error.to_string());
    match (kind, rest) {
        ("flow", _) => Ok(Where::Flow(set()?)),
        ("round-robin", _) => Ok(Where::RoundRobin(set()?)),
        ("file", Some(path)) if !path.is_empty() => Ok(Where::Side(path.into())),
        (digits, None) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map(Where::One).map_err(|_| WHERE.into())
        }
        _ => Err(WHERE.into()),
    }
}

const WHERE: &str = "write a queue number, flow, round-robin, flow:0-3, round-robin:0,2 or file:SIDE";

/// Reads a factor, in millionths.
pub(crate) fn factor(text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix('x').unwrap_or(text);
    let factor = decimal(digits, MILLION).filter(|&factor| factor > 0);
    factor.ok_or_else(|| "write how many times as fast, like --speed 10 or --speed 0.5".into())
}

/// Reads a rate: 1000, 10k, 1.5M, 2.5G.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let rate = scaled(text).filter(|&rate| rate > 0);
    rate.ok_or_else(|| "write a number a second from 1 on, like 1000, 10k, 1.5M or 2.5G".into())
}

/// Reads a time between packets: 0, or a number of us, ms or s, which has to be said, as gaps of traces are anything from
/// microseconds to hours.
pub(crate) fn gap(text: &str) -> Result<Duration, String> {
    let said = text == "0" || text.ends_with('s');
    let gap = time(text).ok().filter(|_| said);
    gap.ok_or_else(|| "write a time with its unit, like 20us, 1.5ms or 2s".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::size;

    #[test]
    fn queues_are_a_number_a_rule_or_a_file() {
        let set = |text: &str| Some(text.parse::<QueueSet>().unwrap());
        for (text, expected) in [
            ("3", Where::One(3)),
            ("flow", Where::Flow(None)),
            ("flow:0-3", Where::Flow(set("0-3"))),
            ("round-robin", Where::RoundRobin(None)),
            ("round-robin:0,2", Where::RoundRobin(set("0,2"))),
            ("file:side.txt", Where::Side("side.txt".into())),
            ("file:a:b", Where::Side("a:b".into())),
        ] {
            assert_eq!(where_to(text), Ok(expected), "{text}");
        }
        for bad in
            ["", "flows", "flow:", "flow:x", "file", "file:", "-1", "65536", "0-3", "1:2", "round-robin:3-1"]
        {
            assert!(where_to(bad).is_err(), "{bad}");
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
