//! The conditions of dumpcap: when a capture stops (`-a`), and when the next file begins (`-b`).

use std::{str::FromStr, time::Duration};

use anyhow::{Result, bail};

use crate::{
    settings::OutputSettings,
    sources::Setting,
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

impl StopCondition {
    /// The setting, and the condition as messages write it. In a series, dumpcap takes a size to stop at for
    /// the size of each file.
    fn setting(self, in_series: bool) -> (Setting, &'static str) {
        match self.0 {
            Condition::Duration(_) => (Setting::Duration, "-a duration:"),
            Condition::FileSize(_) if in_series => (Setting::RotateSize, "-a filesize:"),
            Condition::FileSize(_) => named(Setting::StopSize),
            Condition::Packets(_) => (Setting::Count, "-a packets:"),
            Condition::Files(_) => named(Setting::StopFiles),
        }
    }
}

impl NextFileCondition {
    /// The setting, and the condition as messages write it.
    fn setting(self) -> (Setting, &'static str) {
        match self.0 {
            Condition::Duration(_) => (Setting::RotateTime, "-b duration:"),
            Condition::FileSize(_) => (Setting::RotateSize, "-b filesize:"),
            Condition::Packets(_) => named(Setting::RotatePackets),
            Condition::Files(_) => named(Setting::KeepFiles),
        }
    }
}

/// A setting, and its flag.
fn named(setting: Setting) -> (Setting, &'static str) {
    (setting, setting.flag())
}

/// Refuses conditions that set what another, or the flag of one of these settings, has set.
///
/// # Errors
/// [`Usage`](crate::exit::Usage): both.
pub(super) fn refuse_repeated(
    stop: &[StopCondition],
    next_file: &[NextFileCondition],
    of_flags: impl Iterator<Item = Setting>,
) -> Result<()> {
    let of_next_file = next_file.iter().map(|condition| condition.setting());
    let of_stop = stop.iter().map(|condition| condition.setting(!next_file.is_empty()));
    let mut said: Vec<(Setting, &str)> = Vec::new();
    for (setting, name) in of_flags.map(named).chain(of_next_file).chain(of_stop) {
        match said.iter().find(|(other, _)| *other == setting) {
            Some((_, first)) if *first == name => {
                bail!(usage!("{name} is given twice: leave one of them out"))
            }
            Some((_, first)) => {
                let what = match setting {
                    Setting::RotateSize | Setting::RotateTime => "when the next file begins",
                    _ => "when the capture stops",
                };
                bail!(usage!("{first} and {name} both say {what}: leave one of them out"))
            }
            None => said.push((setting, name)),
        }
    }
    Ok(())
}

/// Stores conditions in the settings.
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
