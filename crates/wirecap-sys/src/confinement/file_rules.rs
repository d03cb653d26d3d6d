//! Whether the kernel has rules for files: landlock(7).

use std::io;

/// `LANDLOCK_CREATE_RULESET_VERSION` of <linux/landlock.h>.
const VERSION: u32 = 1;

/// The newest version of the rules that the kernel knows.
///
/// # Errors
/// `ENOSYS` or `EOPNOTSUPP`: the kernel has none. Any other error is that of a filter of system calls, which
/// refuses to answer.
pub fn version() -> io::Result<i64> {
    // SAFETY: with this flag, landlock_create_ruleset(2) takes no rules: a null pointer and the length 0.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_a_version_or_lacks_the_call() {
        match version() {
            Ok(version) => assert!(version > 0),
            Err(cause) => {
                assert!(matches!(cause.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM)))
            }
        }
    }
}
