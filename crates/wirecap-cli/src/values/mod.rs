//! Values of flags, parsed from text. An error says what is accepted and gives an example.
//!
//! Values that only one command has are in the folder of that command.

mod decimal;
mod file_mode;
mod rate;
mod text_file;
mod trace;

use std::{ops::RangeInclusive, str::FromStr, time::Duration};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wirecap::{
    PortSpec,
    config::{Choice, NamedValue, PortSpecError, parse_bytes, parse_cores},
};

use self::decimal::is_decimal;
pub(crate) use self::{
    decimal::{MILLION, decimal, real, scaled, with_exponent},
    file_mode::FileMode,
    rate::{Rate, pace, per_second, rate},
    text_file::{ROUTES_MIB, SHORT_MIB, text_file},
    trace::{is_trace, is_trace_path},
};

use crate::exit::Usage;

/// Any number.
pub(crate) const ANY: RangeInclusive<u64> = 0..=u64::MAX;

/// Parses a whole number.
pub(crate) fn number<T: TryFrom<u64>>(
    allowed: RangeInclusive<u64>,
    example: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = value_of(text).filter(|value| allowed.contains(value));
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
            match (allowed.start(), *allowed.end()) {
                (min, u64::MAX) if value_of(text).is_some_and(|value| value < *min) => {
                    format!("write a number from {min} on, like {example}")
                }
                (_, u64::MAX) if is_whole(text) => too_large(example),
                (_, u64::MAX) => format!("write a whole number, like {example}"),
                (min, max) => format!("write a number from {min} to {max}, like {example}"),
            }
        })
    }
}

/// Parses a value by its name; the help explains each.
pub(crate) fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    choice_of(T::ALL.iter())
}

/// Like [`choice`], without a value that flags do not offer.
pub(crate) fn choice_but<T: Choice + Send + Sync>(excluded: T) -> impl TypedValueParser<Value = T> {
    choice_of(T::ALL.iter().filter(move |choice| choice.value != excluded))
}

fn choice_of<T: Choice + Send + Sync>(
    choices: impl Iterator<Item = &'static NamedValue<T>>,
) -> impl TypedValueParser<Value = T> {
    let help = |choice: &NamedValue<T>| choice.explanation.trim_end_matches('.');
    let names = choices.map(|choice| PossibleValue::new(choice.name).help(help(choice)));
    PossibleValuesParser::new(names).map(|name| T::named(&name).expect("one of the names"))
}

/// Parses the names of ports.
///
/// # Errors
/// [`Usage`] for a word that cannot be the name of a port.
pub(crate) fn ports(words: &[String]) -> Result<Vec<PortSpec>, Usage> {
    let port = |word: &String| word.parse().map_err(|error: PortSpecError| Usage(error.to_string()));
    words.iter().map(port).collect()
}

/// Parses a number of packets: 1000, with a decimal suffix 10k, 5M, 1G, or with an exponent 1e6.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let packets = scaled(text).filter(|&packets| packets > 0 && !text.contains('.'));
    packets.ok_or_else(|| "write a number of packets from 1 on, like 1000, 10k or 5M".into())
}

/// Parses a size of memory in bytes: 512M, 2G, in powers of two, or 1e9.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).or_else(|| with_exponent(text)).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| "write a size with its unit, like 512M or 2G".into())
}

/// Parses a number of bytes that may be 0: 128, with a suffix in powers of two 64k, 1M, or with an exponent
/// 1e6.
pub(crate) fn bytes(example: &'static str) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let bytes = value_of(text).or_else(|| size(text).ok());
        if bytes.is_none() && !is_whole(text) {
            return Err(format!("write a number of bytes, like {example}, or with a unit, like 64k"));
        }
        bytes.and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(|| too_large(example))
    }
}

fn value_of(text: &str) -> Option<u64> {
    u64::from_str(text).ok()
}

/// Whether it is a whole number, of whatever size.
fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn too_large(example: &str) -> String {
    format!("the number is too large; write one like {example}")
}

/// Parses the size of a file in bytes: 100 is that many millions, as with tcpdump, 512k, 100M and 2G are in
/// powers of two, and 1e8 is a number of bytes.
pub(crate) fn file_size(text: &str) -> Result<u64, String> {
    size_of_file(text, MILLION)
        .ok_or_else(|| "write a size like 100 (million bytes), 512k, 100M, 2G or 1e8 (bytes)".into())
}

/// The size of a file in bytes. A number without a unit is in units of `unit` bytes.
pub(crate) fn size_of_file(text: &str, unit: u64) -> Option<u64> {
    let bytes = match is_decimal(text) {
        true => decimal(text, unit),
        false => with_exponent(text).or_else(|| parse_bytes(text)),
    };
    bytes.filter(|bytes| *bytes > 0)
}

/// A list of cores. A newtype, because clap takes a `Vec` for a flag given several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// Parses a list of cores: numbers and ranges, separated by commas.
pub(crate) fn cores(text: &str) -> Result<Cores, String> {
    parse_cores(text).map(Cores).map_err(|error| error.to_string())
}

/// Parses a time greater than zero: see [`time`].
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() {
        return Err("the time must not be zero; write one like 10s".into());
    }
    Ok(time)
}

/// Parses a time: a number, optionally with a fraction, of us, ms, s (or no unit), m, h or d.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ns = match &text[digits.len()..] {
        "us" => 1_000,
        "ms" => MILLION,
        "" | "s" => SECOND_NS,
        "m" => 60 * SECOND_NS,
        "h" => 3600 * SECOND_NS,
        "d" => 24 * 3600 * SECOND_NS,
        unit => {
            return Err(format!(
                "{unit:?} is not a unit of time; use us, ms, s, m, h or d, like 500ms or 2m"
            ));
        }
    };
    if !is_decimal(digits) {
        return Err(format!("{digits:?} is not a number; write a time like 10s, 500ms or 2m"));
    }
    let ns = decimal(digits, unit_ns).ok_or("the time is too long; write one like 10s, 500ms or 2m")?;
    Ok(Duration::from_nanos(ns))
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_refused_with_the_range_and_an_example() {
        let percent = number::<u32>(0..=100, "-T 60");
        assert_eq!((percent("0"), percent("100")), (Ok(0), Ok(100)));
        for bad in ["101", "-1", "", "6O", "1.5"] {
            assert_eq!(percent(bad), Err("write a number from 0 to 100, like -T 60".into()), "{bad}");
        }
        let any = number::<u32>(ANY, "-M 256");
        assert_eq!(any("99999999999"), Err("the number is too large; write one like -M 256".into()));
        assert_eq!(any(&"9".repeat(30)), Err("the number is too large; write one like -M 256".into()));
        let files = number::<u64>(1..=u64::MAX, "-W 10");
        assert_eq!(files("0"), Err("write a number from 1 on, like -W 10".into()));
        assert_eq!(files(&"9".repeat(30)), Err("the number is too large; write one like -W 10".into()));
        assert_eq!(any("many"), Err("write a whole number, like -M 256".into()));
    }

    #[test]
    fn counts() {
        for (text, packets) in
            [("1", 1), ("1k", 1_000), ("10K", 10_000), ("5M", 5_000_000), ("2G", 2_000_000_000)]
        {
            assert_eq!(count(text), Ok(packets), "{text}");
        }
        assert_eq!(
            (count("1e6"), size("1e9"), file_size("1e8")),
            (Ok(MILLION), Ok(1_000 * MILLION), Ok(100 * MILLION))
        );
        assert_eq!(
            (file_size("100"), file_size("64k"), size_of_file("64", 1_000)),
            (Ok(100 * MILLION), Ok(65_536), Some(64_000))
        );
        for bad in [
            "",
            "k",
            "0",
            "0k",
            "0e3",
            "-1",
            "+1",
            "1m",
            "1 k",
            "1.5k",
            "1kk",
            "99999999999999999999",
            "99999999999999G",
            "1é",
        ] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        for text in ["64k", "64K", "64KiB", "0.0625M", "65536e0"] {
            assert_eq!(
                (size(text), bytes("")(text), size_of_file(text, 1)),
                (Ok(65_536), Ok(65_536), Some(65_536)),
                "{text}"
            );
        }
        assert_eq!((bytes("")("0"), bytes("")("128"), bytes("")("1e6")), (Ok(0), Ok(128), Ok(1_000_000)));
        assert_eq!((size("1g"), size("1GiB"), size("2T")), (Ok(1 << 30), Ok(1 << 30), Ok(2 << 40)));
        for bad in ["", "k", "-1", "64 k", "64kb", "64MB", "iB", "64iB", "64ki", "64kk"] {
            assert!(size(bad).is_err() && bytes("")(bad).is_err() && file_size(bad).is_err(), "{bad}");
        }
        for (bad, words) in [
            ("4G", "the number is too large; write one like --snaplen 128"),
            (&"9".repeat(30), "the number is too large; write one like --snaplen 128"),
            ("-1", "write a number of bytes, like --snaplen 128, or with a unit, like 64k"),
        ] {
            assert_eq!(bytes("--snaplen 128")(bad), Err(words.into()), "{bad}");
        }
    }

    #[test]
    fn durations() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(ms("10"), Ok(10_000));
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("2m"), Ok(120_000));
        assert_eq!(ms("1h"), Ok(3_600_000));
        assert_eq!(ms("1d"), Ok(86_400_000));
        assert_eq!(ms("1.5s"), Ok(1_500));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        for bad in ["", "s", "0", "0ms", "-1", "1w", "10 s", "1e3", "inf", "NaN", "1..2", "9e99", "+5", "5ss"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(duration(&"9".repeat(40)).is_err());
    }

    #[test]
    fn core_lists() {
        let list = |text| cores(text).map(|cores| cores.0);
        assert_eq!(list("0"), Ok(vec![0]));
        assert_eq!(list("0,2-4"), Ok(vec![0, 2, 3, 4]));
        assert_eq!(list("3,1"), Ok(vec![3, 1]));
        for bad in ["", ",", "a", "1-", "-1", "1-2-3", "0,", "99999", "0-99999999999999999999"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
        assert!(cores("4-2").unwrap_err().contains("2-4"));
    }
}
