//! The variables of the environment that this library reads.

use std::{env, ffi::OsString};

/// The value of a variable, unless it is empty. `None` in programs that have more privileges than the user
/// who started them (setuid, file capabilities): the user is not to choose what they load, read or write.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    // SAFETY: no pointers go in.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    env::var_os(name).filter(|value| !is_privileged && !value.is_empty())
}
