//! The user of a thread: credentials(7).
//!
//! Rule: by system calls of its own, not by the C library, which changes all threads at once and would need
//! each of them to be able to. So each thread becomes the user when its work begins, and keeps what it needs.

use std::io;

/// A user as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIds {
    /// Its number.
    pub user: u32,
    /// Its main group.
    pub group: u32,
    /// All its groups.
    pub groups: Vec<u32>,
}

/// Makes the calling thread, and processes that it starts, this user for good. Its capabilities are gone
/// then, unless [`survive_user_change`](super::capabilities::survive_user_change) has kept them permitted.
/// Needs CAP_SETUID and CAP_SETGID.
///
/// # Errors
/// The kernel's error; the thread may be of the new groups already.
pub fn become_user(ids: &UserIds) -> io::Result<()> {
    set_groups(&ids.groups)?;
    let [user, group] = [ids.user, ids.group];
    // SAFETY: both calls take numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresgid, group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) })
}

/// Does `work` with the calling thread's access to files that of this user: what it may not open, `work` may
/// not, and what `work` creates belongs to it.
///
/// # Errors
/// The kernel's error: before `work`, which is not done then, or after it.
pub fn with_files_of<T>(ids: &UserIds, work: impl FnOnce() -> T) -> io::Result<T> {
    let groups = groups()?;
    set_groups(&ids.groups)?;
    let group_before = set_file_group(ids.group);
    // Without the capabilities about files, which the kernel takes away from a file user that is not root.
    let user_before = set_file_user(ids.user);
    let is_user = set_file_user(u32::MAX) == ids.user && set_file_group(u32::MAX) == ids.group;
    let result = is_user.then(work);
    set_file_user(user_before);
    set_file_group(group_before);
    set_groups(&groups)?;
    result.ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))
}

fn groups() -> io::Result<Vec<u32>> {
    // SAFETY: with a size of 0 the kernel writes nothing.
    let count = unsafe { libc::syscall(libc::SYS_getgroups, 0, std::ptr::null_mut::<u32>()) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let mut groups = vec![0_u32; count];
    // SAFETY: the kernel writes `count` numbers at most, for which there is room.
    check(unsafe { libc::syscall(libc::SYS_getgroups, count, groups.as_mut_ptr()) }.min(0))?;
    Ok(groups)
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads as many numbers as there are.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })
}

/// Sets the user that accesses files. Returns the previous one; an invalid number changes nothing.
fn set_file_user(user: u32) -> u32 {
    // SAFETY: it takes a number only.
    unsafe { libc::syscall(libc::SYS_setfsuid, user) as u32 }
}

/// The same for its group.
fn set_file_group(group: u32) -> u32 {
    // SAFETY: it takes a number only.
    unsafe { libc::syscall(libc::SYS_setfsgid, group) as u32 }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::MetadataExt,
        thread,
    };

    use wirecap_lab::require_root;

    use super::*;
    use crate::confinement::capabilities::{Capability, effective, keep_only, survive_user_change};

    fn nobody() -> UserIds {
        UserIds { user: 65_534, group: 65_534, groups: vec![65_534] }
    }

    /// The numbers of the calling thread: real, effective, saved, of files.
    fn shown(line: &str) -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let found = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_thread_becomes_a_user_and_keeps_what_it_asks_for() {
        if !require_root("one_thread_becomes_a_user_and_keeps_what_it_asks_for") {
            return;
        }
        let change = |keeps: bool| {
            thread::spawn(move || {
                survive_user_change(keeps).unwrap();
                become_user(&nobody()).unwrap();
                let kept = keep_only([Capability::NetAdmin].into_iter().collect()).unwrap();
                (shown("Uid:"), shown("Gid:"), shown("Groups:"), kept.has(Capability::NetAdmin))
            })
            .join()
            .unwrap()
        };
        let ids = || ["65534 65534 65534 65534"; 2].map(String::from);
        for keeps in [true, false] {
            let (user, group, groups, kept) = change(keeps);
            assert_eq!(([user, group], groups.as_str(), kept), (ids(), "65534", keeps));
        }
        assert_eq!(shown("Uid:"), "0 0 0 0", "other threads stay who they are");
        let refused = thread::spawn(|| {
            become_user(&nobody()).unwrap();
            become_user(&UserIds { user: 0, group: 0, groups: Vec::new() })
        });
        assert_eq!(refused.join().unwrap().unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn files_are_opened_with_the_permissions_of_the_user() {
        if !require_root("files_are_opened_with_the_permissions_of_the_user") {
            return;
        }
        let directory = std::env::temp_dir().join(format!("wirecap-files-of-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let before = (effective().unwrap(), shown("Groups:"), shown("Uid:"), shown("Gid:"));
        let create = || with_files_of(&nobody(), || File::create(directory.join("x"))).unwrap();
        assert_eq!(create().unwrap_err().kind(), io::ErrorKind::PermissionDenied, "a directory of root");
        std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
        let metadata = create().unwrap().metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (65_534, 65_534));
        assert_eq!((effective().unwrap(), shown("Groups:"), shown("Uid:"), shown("Gid:")), before);
        fs::remove_dir_all(directory).unwrap();
    }
}
