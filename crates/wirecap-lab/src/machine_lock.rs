//! A lock that holds for all processes of a machine.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
};

/// The right to use up something that all network namespaces share, such as the kernel's table of
/// neighbours, until it is dropped. Tests of other processes wait for it.
#[derive(Debug)]
pub struct MachineLock(#[expect(dead_code, reason = "it is unlocked when it is dropped")] Flock<File>);

impl MachineLock {
    /// Waits for the lock of this name.
    ///
    /// # Panics
    /// If its file, in the directory of temporary files, cannot be opened or locked.
    pub fn wait_for(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wirecap-lab-{name}.lock"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        loop {
            match Flock::lock(file, FlockArg::LockExclusive) {
                Ok(locked) => return Self(locked),
                Err((unlocked, Errno::EINTR)) => file = unlocked,
                Err((_, error)) => panic!("{}: {error}", path.display()),
            }
        }
    }
}
