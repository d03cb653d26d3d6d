//! Values of the flags of `wirecap generate`, parsed from text.

use std::time::Duration;

use wirecap_traffic::{FCS_LEN, FRAME_LEN_MAX, Popularity, Size, Sizes};

use crate::values::{self, Rate, duration, per_second, real};

/// A rate, as given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RateValue {
    /// Packets per second.
    Packets(u64),
    /// Bits of frames per second, with FCS.
    Bits(u64),
    /// Percent of the capacity of the link.
    Percent(f64),
}

const RATE_HINT: &str = "write a rate like 500k or 1.5Mpps (packets), 2Gbps (bits) or 80% (of the link)";

/// Parses a rate: 1M or 1Mpps, 2.5Gbps, 80%.
pub(super) fn rate(text: &str) -> Result<RateValue, String> {
    let wrong = || RATE_HINT.to_owned();
    if let Some(percent) = text.strip_suffix('%') {
        let percent = real(percent).filter(|&percent| percent > 0.0 && percent <= 100.0);
        return percent.map(RateValue::Percent).ok_or_else(wrong);
    }
    match values::rate(text).ok_or_else(wrong)? {
        Rate::Packets(pps) => Ok(RateValue::Packets(pps)),
        Rate::Bits(bps) => Ok(RateValue::Bits(bps)),
    }
}

/// Parses the speed of a link in bits per second: 10G, 2.5G, 100M.
pub(super) fn speed(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("bps").unwrap_or(text);
    per_second(number)
        .ok_or_else(|| "write the speed of a link in bits per second, like 10G, 2.5G or 100M".into())
}

/// Parses the sizes of frames, with FCS: 64, imix, or 64:7,594:4,1518:1.
pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    if text.eq_ignore_ascii_case("imix") {
        return Ok(Sizes::imix());
    }
    let max = FRAME_LEN_MAX + FCS_LEN;
    let hint =
        format!("write a size with FCS from 64 to {max}, imix, or sizes with weights like 64:7,594:4,1518:1");
    let size = |item: &str| {
        let (size, weight) = item.split_once(':').unwrap_or((item, "1"));
        let size = size.parse::<usize>().ok().filter(|size| (64..=max).contains(size))?;
        Some(Size { len: size - FCS_LEN, weight: weight.parse().ok()? })
    };
    let list = text.split(',').map(size).collect::<Option<Vec<_>>>().ok_or_else(|| hint.clone())?;
    match list[..] {
        [Size { len, .. }] => Ok(Sizes::fixed(len)),
        _ => Sizes::mix(list).map_err(|error| error.to_string()),
    }
}

/// Parses the popularity of flows: round-robin, uniform, zipf or zipf:1.2.
pub(super) fn popularity(text: &str) -> Result<Popularity, String> {
    let hint = "write round-robin, uniform, zipf, or zipf with an exponent up to 10, like zipf:1.2";
    match text {
        "round-robin" => Ok(Popularity::RoundRobin),
        "uniform" => Ok(Popularity::Uniform),
        "zipf" => Ok(Popularity::Zipf(1.0)),
        _ => {
            let exponent = text.strip_prefix("zipf:").and_then(real).filter(|&exponent| exponent <= 10.0);
            exponent.map(Popularity::Zipf).ok_or_else(|| hint.into())
        }
    }
}

/// Shares of queues. A newtype, because clap takes a `Vec` for a flag given several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares(pub(super) Vec<u32>);

/// The largest number of queues, and the largest share.
const MAX_QUEUES: usize = 1024;
const MAX_SHARE: u32 = 1_000_000;

/// Parses the shares of queues: 80,20,20.
pub(super) fn shares(text: &str) -> Result<Shares, String> {
    let hint = "write the share of each queue, like 80,20,20; shares are relative to each other, and at least one is not 0";
    let share = |item: &str| item.parse::<u32>().ok().filter(|&share| share <= MAX_SHARE);
    let shares = text.split(',').map(share).collect::<Option<Vec<_>>>();
    let shares = shares.filter(|shares| shares.iter().any(|&share| share > 0) && shares.len() <= MAX_QUEUES);
    shares.map(Shares).ok_or_else(|| hint.into())
}

/// Parses the time between bursts.
pub(super) fn gap(text: &str) -> Result<Duration, String> {
    duration(text)
        .map_err(|_| format!("{text:?} is not a time between bursts; write one like 50us, 10ms or 1s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, expected) in [
            ("1000", RateValue::Packets(1_000)),
            ("1.5M", RateValue::Packets(1_500_000)),
            ("1e6", RateValue::Packets(1_000_000)),
            ("800kpps", RateValue::Packets(800_000)),
            ("2.5Gbps", RateValue::Bits(2_500_000_000)),
            ("9600bps", RateValue::Bits(9_600)),
            ("80%", RateValue::Percent(80.0)),
            ("0.5%", RateValue::Percent(0.5)),
        ] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for bad in [
            "", "0", "-1", "1e-6", "fast", "101%", "0%", "%", "1Tbps", "1 M", "Mpps", "inf", "0.1",
            "9999999G",
        ] {
            assert_eq!(rate(bad), Err(RATE_HINT.into()), "{bad}");
        }
        assert_eq!(
            (speed("10G"), speed("2.5Gbps"), speed("100M")),
            (Ok(10_000_000_000), Ok(2_500_000_000), Ok(100_000_000))
        );
        assert!(speed("10GB").is_err() && speed("").is_err());
    }

    #[test]
    fn sizes_include_the_fcs() {
        assert_eq!(sizes("64"), Ok(Sizes::fixed(60)));
        assert_eq!(sizes("9022"), Ok(Sizes::fixed(9018)));
        assert_eq!(sizes("IMIX"), Ok(Sizes::imix()));
        assert_eq!(sizes("64:7,594:4,1518:1"), Ok(Sizes::imix()));
        assert_eq!(sizes("64,128").unwrap().mean(), 92.0);
        for bad in ["", "63", "9023", "64:0,65:1", "64:7,", "64:x", "big", "64:1001,65", "-64"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn popularities_shares_and_gaps() {
        assert_eq!(popularity("round-robin"), Ok(Popularity::RoundRobin));
        assert_eq!(popularity("zipf"), Ok(Popularity::Zipf(1.0)));
        assert_eq!(popularity("zipf:0.8"), Ok(Popularity::Zipf(0.8)));
        assert!(
            ["zipf:", "zipf:11", "zipf:-1", "even", "turns", "zipf:NaN"]
                .iter()
                .all(|bad| popularity(bad).is_err())
        );
        assert_eq!(shares("80,20,0"), Ok(Shares(vec![80, 20, 0])));
        assert!(["", "0", "0,0", "a", "1,", "-1", "2000000"].iter().all(|bad| shares(bad).is_err()));
        assert_eq!(
            (gap("50us"), gap("10ms")),
            (Ok(Duration::from_micros(50)), Ok(Duration::from_millis(10)))
        );
        assert!(["0us", "us", "-1us", "1w", ""].iter().all(|bad| gap(bad).is_err()));
    }
}
