//! `wirecap run`: a program that captures by libpcap, with the engine in its place.
//!
//! ```text
//!   flags ─► variables ─┐
//!   the library ────────┴─► LD_PRELOAD ─► the program ── ends ──► its accounts, its exit code
//! ```
//!
//! Rule: the program behaves as if it had been started itself: it has the terminal, it gets the signals, and
//! its exit code is the command's.

mod accounts;
pub(crate) mod flags;
mod program;
mod signals;

use std::{
    env,
    ffi::OsString,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::{Result, anyhow, bail};

use self::{accounts::AccountFile, flags::RunFlags};

/// The file of the library.
const LIBRARY: &str = "libwirecap_pcap.so";

/// Programs that lack the privileges for the engine when they capture.
const GIVE_UP: [&str; 3] = ["dumpcap", "tshark", "wireshark"];

/// Where packages of Debian and Ubuntu put it, seen from the directory of the command.
const MULTIARCH_DIRECTORY: &str = if cfg!(target_arch = "x86_64") {
    "../lib/x86_64-linux-gnu/wirecap"
} else {
    "../lib/aarch64-linux-gnu/wirecap"
};

/// Runs the program, and returns its exit code.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(flags: &RunFlags) -> Result<ExitCode> {
    let [name, arguments @ ..] = flags.program.as_slice() else { bail!(usage!("name a program to run")) };
    let path = program::find(name)?;
    program::check(&path)?;
    let library = library()?;
    let accounts = AccountFile::create()?;
    let mut command = Command::new(&path);
    command.arg0(name).args(arguments).envs(flags.variables());
    command.env("LD_PRELOAD", preloaded(&library)).env("WIRECAP_ACCOUNT", accounts.path());
    if !flags.quiet && path.file_name().is_some_and(|name| GIVE_UP.iter().any(|program| name == *program)) {
        note!(
            "{} gives up its privileges before it opens an interface, so it gets a packet socket; tshark and Wireshark \
             capture on the engine with tshark -i wirecap-eth1 (man wirecap-extcap)",
            name.to_string_lossy()
        );
    }
    let signals = signals::Forwarder::listen()?;
    let mut child = command.spawn().map_err(|error| anyhow!("cannot start {}: {error}", path.display()))?;
    signals.forward_to(child.id());
    let status = child.wait().map_err(|cause| anyhow!("cannot wait for {}: {cause}", path.display()))?;
    let accounts = accounts.read()?;
    if flags.account || flags.json {
        accounts.print(flags.json)?;
    }
    if !flags.quiet {
        let has_failed = status.code().is_some_and(|code| code != 0);
        if has_failed && accounts.are_without_device() && program::has_own_capabilities() {
            note!(
                "{} does not get the capabilities of wirecap (man wirecap-libpcap): run it as root if it needs them",
                name.to_string_lossy()
            );
        }
        accounts.explain(&name.to_string_lossy(), flags.account || flags.json);
    }
    Ok(exit_code(status))
}

/// The program's exit code; as a shell has it if a signal ended the program.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.unwrap_or(1) as u8)
}

/// What is preloaded: the library, then what was to be preloaded anyway.
fn preloaded(library: &Path) -> OsString {
    let mut preloaded = library.as_os_str().to_owned();
    if let Some(before) = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        preloaded.push(":");
        preloaded.push(before);
    }
    preloaded
}

/// The library, where the loader can find it.
fn library() -> Result<PathBuf> {
    let found = find_library()?;
    // The loader treats spaces and colons in LD_PRELOAD as separators.
    let found = found.canonicalize().unwrap_or(found);
    if found.to_string_lossy().contains([' ', ':']) {
        bail!(
            "the loader cannot preload {}: its path has a space or a colon; copy it elsewhere",
            found.display()
        );
    }
    Ok(found)
}

/// Where the library is: named by WIRECAP_LIBRARY, beside the command, or where packages put it.
fn find_library() -> Result<PathBuf> {
    if let Some(named) = env::var_os("WIRECAP_LIBRARY").map(PathBuf::from) {
        if !named.exists() {
            bail!("WIRECAP_LIBRARY names {}, which does not exist", named.display());
        }
        return Ok(named);
    }
    let own =
        env::current_exe().map_err(|cause| anyhow!("cannot find out where this program is: {cause}"))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let places = [
        directory.to_owned(),
        directory.join("../lib/wirecap"),
        directory.join(MULTIARCH_DIRECTORY),
        "/usr/lib/wirecap".into(),
    ];
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.exists());
    found.ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        anyhow!(
            "{LIBRARY} is in none of {}; build it (./dev build), or name it in WIRECAP_LIBRARY",
            places.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_programs() {
        for (raw, code) in [(0, 0), (3 << 8, 3), (9, 137)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), ExitCode::from(code));
        }
    }
}
