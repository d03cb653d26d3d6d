//! The variables of the environment that this library reads.

use std::{env, ffi::OsString};

/// Whether WIRECAP_OFF has the library pass everything on.
pub(crate) fn is_off() -> bool {
    variable("WIRECAP_OFF").is_some_and(|value| value != "0")
}

/// The value of a variable; `None` if it is empty. `None` also in a program with more privileges than its
/// user (setuid, file capabilities): the user must not choose which files it loads, reads or writes.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    // SAFETY: no pointers go in.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    env::var_os(name).filter(|value| !is_privileged && !value.is_empty())
}
