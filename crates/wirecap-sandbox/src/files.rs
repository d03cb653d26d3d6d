//! Which files a thread may open: Landlock.
//!
//! | thread | reads | writes, creates, renames, removes |
//! |---|---|---|
//! | writer | beneath its directories; the time zones | beneath its directories |
//! | main | everything | nothing |
//! | server | nothing | removes beneath the directories of its sockets |
//! | others | nothing | nothing |
//!
//! None executes files, or binds or connects TCP ports, and only the main thread signals other processes,
//! where the kernel has rules for that. What is open stays open.
//!
//! Rule: a thread that looks at other processes has no rules, since Landlock hides processes. Its filter lets
//! it open files to read only.

use std::{
    io,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use wirecap_sys::confinement::file_rules;

use crate::profile::Profile;

/// The newest rules that are known here: Linux 6.12.
const NEWEST: ABI = ABI::V6;

/// Where the C library and others find time zones, which names of files may have.
const TIME_ZONES: [&str; 4] =
    ["/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo"];

/// What a writer may do in its directories. A file is renamed within its directory, which takes no right to
/// refer to others; kernels before 5.19 have no such right to give.
const WRITING: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | MakeReg | RemoveFile});
/// What it may do with time zones.
const READING: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Whether the kernel has rules.
pub(crate) fn are_restricted() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::Execute).and_then(Ruleset::create).is_ok()
}

/// Why a thread has no rules for files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRules {
    /// The kernel does not say which rules it has, or has none. Not transparent: the code of a cause decides.
    #[error("{0}")]
    Unknown(#[from] io::Error),
    /// The kernel refuses these.
    #[error(transparent)]
    Refused(#[from] RulesetError),
}

/// Applies the rules of a profile to the calling thread, for good.
///
/// # Errors
/// The kernel has no rules, or they are refused.
pub(crate) fn restrict(profile: &Profile) -> Result<(), NoRules> {
    // The crate takes any failure of this call for a kernel without rules.
    file_rules::version()?;
    let all = AccessFs::from_all(NEWEST);
    let handled = match profile {
        Profile::Main(_) => AccessFs::from_write(NEWEST) | AccessFs::Execute,
        _ => all,
    };
    // The main thread ends the program that prints.
    let scope = match profile {
        Profile::Main(_) => Scope::AbstractUnixSocket.into(),
        _ => Scope::from_all(NEWEST),
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(scope)?
        .create()?;
    if let Profile::Writer(paths) = profile {
        for directory in &paths.directories {
            ruleset = allow(ruleset, directory, WRITING)?;
        }
        let from_environment = std::env::var_os("TZDIR").map(PathBuf::from);
        for path in TIME_ZONES.iter().map(PathBuf::from).chain(from_environment) {
            let read = if path.is_dir() { READING } else { AccessFs::ReadFile.into() };
            ruleset = allow(ruleset, &path, read)?;
        }
    }
    if let Profile::Server(directories) = profile {
        for directory in directories {
            ruleset = allow(ruleset, directory, AccessFs::RemoveFile.into())?;
        }
    }
    let status = ruleset.restrict_self()?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP).into()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Allows this beneath a path, if there is one. A directory that is missing fails where a file is opened.
fn allow(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(fd) => ruleset.add_rule(PathBeneath::new(fd, access)),
        Err(_) => Ok(ruleset),
    }
}
