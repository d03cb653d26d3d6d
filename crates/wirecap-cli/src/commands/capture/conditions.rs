//! The conditions of dumpcap: when a capture stops (`-a`), and when the next file begins (`-b`).

use std::{str::FromStr, time::Duration};

use anyhow::{Result, bail};

use crate::{
    settings::OutputSettings,
    values::{count, duration, size_of_file},
};

/// What dumpcap counts the sizes of files in.
const KILOBYTE: u64 = 1_000;

/// A condition of either flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Duration(Duration),
    FileSize(u64),
    Files(u64),
    Packets(u64),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once(':')
            .ok_or("write a condition and its value: duration:60, filesize:100000, files:10, packets:1e6")?;
        match name {
            "duration" => duration(value).map(Self::Duration),
            "filesize" => size_of_file(value, KILOBYTE).map(Self::FileSize).ok_or_else(|| {
                "write a size in kB, like filesize:100000, or with its unit, like filesize:100M".into()
            }),
            "files" => {
                count(value).map(Self::Files).map_err(|_| "write a number of files, like files:10".into())
            }
            "packets" => count(value).map(Self::Packets),
            "interval" => {
                Err("files begin at multiples of the time since the start, not of the clock: duration:60"
                    .into())
            }
            "nametimenum" => Err("the time is where the name has it: -w %Y-%m-%d_%H%M%S.pcapng".into()),
            "printname" => Err("-z COMMAND runs a command with the name of each file".into()),
            name => Err(format!("there is no condition {name:?}: duration, filesize, files and packets are")),
        }
    }
}

/// When a capture stops: `-a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StopCondition(Condition);

/// When the next file begins, and how many are kept: `-b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextFileCondition(Condition);

impl FromStr for StopCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl FromStr for NextFileCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// Refuses conditions that set what one of these flags has set.
///
/// # Errors
/// [`Usage`](crate::exit::Usage): the condition and the flag.
pub(super) fn refuse_repeated(
    stop: &[StopCondition],
    next_file: &[NextFileCondition],
    flags: &[&str],
) -> Result<()> {
    let of_stop = stop.iter().filter_map(|StopCondition(condition)| match condition {
        Condition::Duration(_) => Some(("-a duration:", "--duration", "when the capture stops")),
        Condition::Packets(_) => Some(("-a packets:", "-c", "when the capture stops")),
        Condition::FileSize(_) if !next_file.is_empty() => {
            Some(("-a filesize:", "-C", "when the next file begins"))
        }
        Condition::FileSize(_) | Condition::Files(_) => None,
    });
    let of_next_file = next_file.iter().filter_map(|NextFileCondition(condition)| match condition {
        Condition::Duration(_) => Some(("-b duration:", "-G", "when the next file begins")),
        Condition::FileSize(_) => Some(("-b filesize:", "-C", "when the next file begins")),
        Condition::Packets(_) | Condition::Files(_) => None,
    });
    match of_stop.chain(of_next_file).find(|(_, flag, _)| flags.contains(flag)) {
        Some((condition, flag, what)) => {
            bail!(usage!("{flag} and {condition} both say {what}: leave one of them out"))
        }
        None => Ok(()),
    }
}

/// Stores conditions in the settings. In a series, dumpcap takes a size to stop at for the size of each file.
pub(super) fn apply(stop: &[StopCondition], next_file: &[NextFileCondition], output: &mut OutputSettings) {
    for NextFileCondition(condition) in next_file {
        match *condition {
            Condition::Duration(time) => output.rotate_time = Some(time),
            Condition::FileSize(bytes) => output.rotate_size = Some(bytes),
            Condition::Packets(packets) => output.rotate_packets = Some(packets),
            Condition::Files(files) => output.keep_files = Some(files),
        }
    }
    for StopCondition(condition) in stop {
        match *condition {
            Condition::Duration(time) => output.duration = Some(time),
            Condition::FileSize(bytes) if !next_file.is_empty() => output.rotate_size = Some(bytes),
            Condition::FileSize(bytes) => output.stop_size = Some(bytes),
            Condition::Packets(packets) => output.count = Some(packets),
            Condition::Files(files) => output.stop_files = Some(files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(stop: &[&str], next_file: &[&str]) -> OutputSettings {
        let mut output = OutputSettings::default();
        let stop: Vec<_> = stop.iter().map(|text| text.parse().unwrap()).collect();
        let next_file: Vec<_> = next_file.iter().map(|text| text.parse().unwrap()).collect();
        apply(&stop, &next_file, &mut output);
        output
    }

    #[test]
    fn a_condition_and_a_flag_do_not_set_the_same() {
        let refused = |stop: &str, next_file: &[&str], flag| {
            let stop = [stop.parse().unwrap()];
            let next_file: Vec<_> = next_file.iter().map(|text| text.parse().unwrap()).collect();
            refuse_repeated(&stop, &next_file, &["-w", flag]).err().map(|refusal| refusal.to_string())
        };
        for (stop, next_file, flag, words) in [
            (
                "duration:2",
                &[][..],
                "--duration",
                "--duration and -a duration: both say when the capture stops",
            ),
            ("packets:7", &[], "-c", "-c and -a packets: both say when the capture stops"),
            ("filesize:7", &["files:2"], "-C", "-C and -a filesize: both say when the next file begins"),
            ("files:7", &["duration:2"], "-G", "-G and -b duration: both say when the next file begins"),
            ("files:7", &["filesize:2"], "-C", "-C and -b filesize: both say when the next file begins"),
        ] {
            let said = refused(stop, next_file, flag);
            assert_eq!(said, Some(format!("{words}: leave one of them out")));
            assert_eq!(refused(stop, next_file, "-s"), None);
        }
        assert_eq!(refused("filesize:7", &[], "-C"), None, "of one file");
        assert_eq!(refused("duration:7", &["packets:9"], "-c"), None);
    }

    #[test]
    fn conditions_are_those_of_dumpcap() {
        let usual = OutputSettings::default();
        let minute = Some(Duration::from_secs(60));
        assert_eq!(
            settings(&["duration:60", "packets:1e6", "filesize:100"], &[]),
            OutputSettings {
                duration: minute,
                count: Some(1_000_000),
                stop_size: Some(100_000),
                ..usual.clone()
            }
        );
        assert_eq!(
            settings(&["files:20", "filesize:64k"], &["duration:60", "packets:10", "files:10"]),
            OutputSettings {
                rotate_time: minute,
                rotate_packets: Some(10),
                rotate_size: Some(65_536),
                keep_files: Some(10),
                stop_files: Some(20),
                ..usual
            }
        );
    }

    #[test]
    fn a_wrong_condition_is_answered() {
        for (text, answer) in [
            ("60", "write a condition"),
            ("files:", "files:10"),
            ("files:0", "files:10"),
            ("filesize:x", "filesize:100M"),
            ("duration:0", "must not be zero"),
            ("interval:60", "duration:60"),
            ("printname:x", "-z COMMAND"),
            ("size:1", "no condition \"size\""),
        ] {
            let refused = text.parse::<StopCondition>().unwrap_err();
            assert!(refused.contains(answer), "{text}: {refused}");
            assert_eq!(text.parse::<NextFileCondition>(), Err(refused));
        }
    }
}
