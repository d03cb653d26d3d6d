//! Refuses settings of a series that contradict each other.

use std::{ffi::OsStr, path::Path, time::Duration};

use anyhow::{Result, ensure};
use wirecap_sys::clock::system_ns;

use super::names::Names;
use crate::{process::executable, settings::OutputSettings};

/// The shortest period of a file.
const SHORTEST: Duration = Duration::from_millis(100);

/// Refuses settings of a series that contradict each other. `path` is the name of the output, if it is
/// a file.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) that names them.
pub(crate) fn check(output: &OutputSettings, path: Option<&Path>) -> Result<()> {
    let OutputSettings { rotate_size, rotate_time, rotate_packets, rotate_files, rotate_command, .. } =
        output;
    let OutputSettings { keep_files, stop_files, stop_size, .. } = output;
    let numbers = [rotate_size, rotate_packets, rotate_files, stop_files, stop_size];
    ensure!(
        numbers.iter().all(|number| **number != Some(0)),
        usage!("files take sizes and numbers that are not 0")
    );
    if !output.rotates() {
        ensure!(
            keep_files.is_none() && stop_files.is_none(),
            usage!(
                "a number of files is for a series: add -C SIZE, -G TIME or -b packets:N, or leave it out"
            )
        );
        ensure!(
            stop_size.is_none() || path.is_some_and(is_file_or_new),
            usage!("-a filesize: is for a file: name one with -w FILE.pcapng, or leave it out")
        );
        ensure!(
            rotate_files.is_none(),
            usage!("-W is for a series of files: add -C SIZE or -G TIME, or leave it out")
        );
        ensure!(
            rotate_command.is_none(),
            usage!("-z is for a series of files: add -C SIZE or -G TIME, or leave it out")
        );
        return Ok(());
    }
    ensure!(
        rotate_files.is_none() || rotate_size.is_none() || rotate_time.is_none(),
        usage!("-W counts the files of -C, or those of -G: leave one of the three out")
    );
    ensure!(
        *rotate_files != Some(1) || rotate_size.is_none(),
        usage!(
            "-W 1 would replace the only file of -C by itself: keep two or more, or stop with -c or --duration"
        )
    );
    ensure!(
        stop_size.is_none(),
        usage!(
            "-a filesize: is the size of one file, and -C that of each of a series: leave one of them out"
        )
    );
    ensure!(
        keep_files.is_none_or(|files| files > 1),
        usage!("-b files: counts the file that is written, too: keep two or more")
    );
    ensure!(
        keep_files.is_none() || rotate_files.is_none(),
        usage!("-W and -b files: both say how many files there are: leave one of them out")
    );
    ensure!(
        keep_files.is_none() || rotate_command.is_none(),
        usage!(
            "-b files: deletes files while the command of -z may still read them: leave one of them out, or have the command \
             delete old files"
        )
    );
    ensure!(
        rotate_command.is_none() || rotate_files.is_none() || rotate_size.is_none(),
        usage!(
            "-C -W replaces files while the command of -z may still read them: leave one of them out, or have the command \
             delete old files"
        )
    );
    rotate_command.as_deref().map_or(Ok(()), check_command)?;
    ensure!(
        rotate_time.is_none_or(|time| time >= SHORTEST),
        usage!(
            "a file every {} ms is too much: -G takes {} ms or more",
            rotate_time.unwrap_or_default().as_millis(),
            SHORTEST.as_millis()
        )
    );
    let path = path.ok_or_else(|| {
        usage!("-C and -G are for files: name them with -w FILE.pcapng, or leave these flags out")
    })?;
    ensure!(
        is_file_or_new(path),
        usage!(
            "-C and -G make names from that of a file, which {} is not: write -w FILE.pcapng",
            path.display()
        )
    );
    let names = Names::new(path, output);
    let first = names.path(1, system_ns())?;
    ensure!(
        keep_files.is_none() || names.number_in(&first).is_some(),
        usage!(
            "-b files: deletes files of earlier runs, which cannot be recognised by such a name: write the time in numbers, as \
             in %Y-%m-%d_%H%M%S"
        )
    );
    Ok(())
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
    ensure!(is_there, usage!("-z {command:?}: there is no such program; {hint}"));
    Ok(())
}
