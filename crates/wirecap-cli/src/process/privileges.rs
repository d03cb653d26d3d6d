//! Which users can capture with this program.
//!
//! Rule: a program with capabilities gives them to everyone who may execute it. If every user may, wirecap
//! warns.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use wirecap_sys::file_capabilities::has_capabilities;

/// The permission of other users to execute a file, or to search a directory.
const OTHERS_MAY_EXECUTE: u32 = 0o001;

/// Warns if this program lets every user of the machine capture.
pub(crate) fn warn_if_for_everyone() {
    let Some(program) = env::current_exe().ok().filter(|program| is_for_everyone(program)) else { return };
    let program = program.display();
    warn!(
        "{program} has capabilities and every user may execute it, so every user of this machine can read all \
         traffic; allow only a group: chgrp GROUP {program} && chmod 750 {program}, and run setcap again, because chgrp removes capabilities"
    );
}

/// Whether a program has capabilities and every user may execute it.
fn is_for_everyone(program: &Path) -> bool {
    let program = program.canonicalize().unwrap_or_else(|_| PathBuf::from(program));
    let may_pass = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & OTHERS_MAY_EXECUTE != 0)
    };
    has_capabilities(&program).unwrap_or(false) && program.ancestors().all(may_pass)
}
