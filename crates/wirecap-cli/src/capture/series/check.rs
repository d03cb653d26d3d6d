//! Refuses settings of a series that contradict each other.

use std::{ffi::OsStr, path::Path, time::Duration};

use anyhow::{Result, bail, ensure};
use wirecap_sys::clock::system_ns;

use super::names::Names;
use crate::{
    process::executable,
    settings::OutputSettings,
    sources::{
        RefusedSettings,
        Setting::{
            self, KeepFiles, RotateCommand, RotateFiles, RotatePackets, RotateSize, RotateTime, StopFiles,
            StopSize,
        },
    },
};

/// The shortest period of a file.
const SHORTEST: Duration = Duration::from_millis(100);
/// The smallest size of a file, in bytes: dumpcap's.
const SMALLEST: u64 = 1_000;

/// Refuses settings of a series that contradict each other. `path` is the name of the output, if it is
/// a file.
///
/// # Errors
/// [`RefusedSettings`], which names them.
pub(crate) fn check(output: &OutputSettings, path: Option<&Path>) -> Result<()> {
    let OutputSettings { rotate_size, rotate_time, rotate_packets, rotate_files, rotate_command, .. } =
        output;
    let OutputSettings { keep_files, stop_files, stop_size, .. } = output;
    check_size(RotateSize, *rotate_size)?;
    check_size(StopSize, *stop_size)?;
    for (setting, number) in
        [(RotatePackets, rotate_packets), (RotateFiles, rotate_files), (StopFiles, stop_files)]
    {
        ensure!(
            *number != Some(0),
            RefusedSettings::value(setting, "must not be 0: write a number from 1 on, or leave it out")
        );
    }
    if !output.rotates() {
        return check_one_file(output, path);
    }
    let by = match (rotate_size, rotate_time) {
        (Some(_), _) => RotateSize,
        (None, Some(_)) => RotateTime,
        (None, None) => RotatePackets,
    };
    ensure!(
        rotate_files.is_none() || rotate_size.is_none() || rotate_time.is_none(),
        RefusedSettings::new(|sources| {
            let [files, size, time] = [RotateFiles, RotateSize, RotateTime].map(|one| sources.name(one));
            format!("{files} counts the files of {size}, or those of {time}: leave one of the three out")
        })
    );
    ensure!(
        *rotate_files != Some(1) || rotate_size.is_none(),
        RefusedSettings::value(
            RotateFiles,
            "1 would replace the only file by itself: keep two or more, or end the capture by a number of packets or a time"
        )
    );
    ensure!(
        stop_size.is_none(),
        RefusedSettings::new(move |sources| {
            let (stop, by) = (sources.name(StopSize), sources.name(by));
            format!("{stop} is the size of one file, and {by} makes a series: leave one of them out")
        })
    );
    ensure!(
        keep_files.is_none_or(|files| files > 1),
        RefusedSettings::value(KeepFiles, "counts the file that is written, too: keep two or more")
    );
    ensure!(
        keep_files.is_none() || rotate_files.is_none(),
        RefusedSettings::new(|sources| {
            let (files, kept) = (sources.name(RotateFiles), sources.name(KeepFiles));
            format!("{files} and {kept} both say how many files there are: leave one of them out")
        })
    );
    ensure!(
        keep_files.is_none() || rotate_command.is_none(),
        RefusedSettings::new(|sources| {
            let (kept, command) = (sources.name(KeepFiles), sources.name(RotateCommand));
            format!(
                "{kept} deletes files while the command of {command} may still read them: leave one of them out, or have \
                 the command delete old files"
            )
        })
    );
    ensure!(
        rotate_command.is_none() || rotate_files.is_none() || rotate_size.is_none(),
        RefusedSettings::new(|sources| {
            let (files, command) = (sources.name(RotateFiles), sources.name(RotateCommand));
            format!(
                "{files} replaces files while the command of {command} may still read them: leave one of them out, or have \
                 the command delete old files"
            )
        })
    );
    rotate_command.as_deref().map_or(Ok(()), check_command)?;
    ensure!(
        rotate_time.is_none_or(|time| time >= SHORTEST),
        RefusedSettings::value(
            RotateTime,
            format!(
                "takes {} ms or more: a file every {} ms is too much",
                SHORTEST.as_millis(),
                rotate_time.unwrap_or_default().as_millis()
            )
        )
    );
    let path = path.ok_or_else(|| {
        RefusedSettings::new(move |sources| {
            let name = sources.either(by, "-w FILE.pcapng", "write");
            format!("{} is for files: name them with {name}, or leave it out", sources.name(by))
        })
    })?;
    if !is_file_or_new(path) {
        let path = path.display().to_string();
        bail!(RefusedSettings::new(move |sources| {
            let by = sources.name(by);
            format!("{by} makes names from that of a file, which {path} is not: write FILE.pcapng")
        }));
    }
    let names = Names::new(path, output);
    let first = names.path(1, system_ns())?;
    ensure!(
        keep_files.is_none() || names.number_in(&first).is_some(),
        RefusedSettings::new(|sources| {
            let kept = sources.name(KeepFiles);
            format!(
                "{kept} deletes files of earlier runs, which cannot be recognised by such a name: write the time in numbers, \
                 as in %Y-%m-%d_%H%M%S"
            )
        })
    );
    Ok(())
}

/// Refuses settings that only a series has.
fn check_one_file(output: &OutputSettings, path: Option<&Path>) -> Result<()> {
    let OutputSettings { rotate_files, rotate_command, keep_files, stop_files, stop_size, .. } = output;
    for (setting, given) in [(KeepFiles, keep_files), (StopFiles, stop_files)] {
        ensure!(
            given.is_none(),
            RefusedSettings::new(move |sources| {
                let series = sources.either(
                    setting,
                    "-C SIZE, -G TIME or -b packets:N",
                    "rotate_size, rotate_time or rotate_packets",
                );
                let name = sources.name(setting);
                format!("{name} is a number of files, for a series: add {series}, or leave it out")
            })
        );
    }
    ensure!(
        stop_size.is_none() || path.is_some_and(is_file_or_new),
        RefusedSettings::new(|sources| {
            let name = sources.either(StopSize, "-w FILE.pcapng", "write");
            format!("{} is for a file: name one with {name}, or leave it out", sources.name(StopSize))
        })
    );
    for (setting, given) in [(RotateFiles, rotate_files.is_some()), (RotateCommand, rotate_command.is_some())]
    {
        ensure!(
            !given,
            RefusedSettings::new(move |sources| {
                let series = sources.either(setting, "-C SIZE or -G TIME", "rotate_size or rotate_time");
                let name = sources.name(setting);
                format!("{name} is for a series of files: add {series}, or leave it out")
            })
        );
    }
    Ok(())
}

/// Refuses sizes that were meant in another unit: files of which each has a packet or two.
fn check_size(setting: Setting, size: Option<u64>) -> Result<()> {
    let Some(bytes) = size.filter(|bytes| *bytes < SMALLEST) else { return Ok(()) };
    Err(RefusedSettings::new(move |sources| {
        let few = format!("{bytes} bytes is too small for a file, which takes {SMALLEST} or more");
        match sources.at(
            setting.key(),
            &format!(
                "{few}; a number alone is in bytes: write \"100M\" for 100 MiB, or 100_000_000 for what -C 100 means"
            ),
        ) {
            Some(placed) => placed,
            None => format!("{} {few}: write a size with its unit, like 512k or 100M", setting.flag()),
        }
    })
    .into())
}

fn is_file_or_new(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.is_file())
}

/// Checks that the command of `-z` can be run.
fn check_command(command: &str) -> Result<()> {
    let is_there = match command.contains('/') {
        true => executable::is_program(Path::new(command)),
        false => !command.is_empty() && executable::in_path(OsStr::new(command)).is_some(),
    };
    let hint = match command.contains(' ') {
        true => "it gets no other arguments than the file; name a script that has them",
        false => "name a program, or a script with its path",
    };
    ensure!(
        is_there,
        RefusedSettings::value(RotateCommand, format!("{command:?}: there is no such program; {hint}"))
    );
    Ok(())
}
