//! The one call, bpf(2), and what every user of it shares: owned file descriptors, names, locked memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use super::attr::{Attr, Command, GetId, GetInfo, NAME_LEN};
use super::error::Error;

/// Calls bpf(2) and gives its non-negative result.
///
/// # Safety
/// Every address in `attr` must be valid for the length the kernel will read or write there for `command`,
/// for as long as the call lasts, and written memory must be exclusively the caller's.
pub(super) unsafe fn bpf<T: Attr>(command: Command, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is a live, exclusively borrowed part of bpf_attr of the size passed, without padding
    // (`Attr`); what it points to is the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command as i64, std::ptr::from_mut(attr), size_of::<T>()) };
    // bpf(2) returns an int: a file descriptor, zero, or -1.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Like [`bpf`], for the commands that return a new file descriptor (close-on-exec, as all of bpf(2)'s).
///
/// # Safety
/// As for [`bpf`]; also `command` must be one that returns a new file descriptor.
pub(super) unsafe fn bpf_fd<T: Attr>(command: Command, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: passed on from the caller.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the kernel has just made `fd` for us, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor of an object of this machine, by its number.
///
/// # Safety
/// `command` is one that goes from a number to a descriptor.
pub(super) unsafe fn open_by_id(command: Command, id: u32) -> io::Result<OwnedFd> {
    let mut attr = GetId { id, ..GetId::default() };
    // SAFETY: there are no addresses in it; the caller vouches for the command.
    unsafe { bpf_fd(command, &mut attr) }
}

/// What the kernel reports about an object, written over `info`.
///
/// # Safety
/// Addresses in `info` are valid for the lengths beside them, and what is there is the caller's alone.
pub(super) unsafe fn object_info<T: Attr>(fd: BorrowedFd<'_>, info: T) -> io::Result<T> {
    let mut info = [info];
    let mut attr = GetInfo {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of::<T>() as u32,
        info: address_mut(&mut info),
    };
    // SAFETY: the kernel writes at most `info_len` bytes, which is the size of `info`, any bits of which are
    // a value (`Attr`), and where addresses in it say, which the caller vouches for.
    unsafe { bpf(Command::ObjGetInfoByFd, &mut attr) }?;
    let [info] = info;
    Ok(info)
}

/// What a call gives; `None` if there is no such thing (`ENOENT`).
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(cause) if cause.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        result => result.map(Some),
    }
}

/// Runs `call`, and once more with the limit of locked memory lifted if it was refused for permission.
///
/// Before Linux 5.11 maps and programs were charged to `RLIMIT_MEMLOCK` (64 KiB by default), and exceeding it
/// was reported as `EPERM`. Later kernels never come here with enough capabilities.
pub(super) fn with_memlock<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && lift_memlock() => call(),
        result => result,
    }
}

fn lift_memlock() -> bool {
    setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY).is_ok()
}

/// An object's name as the kernel wants it: zero padded and zero terminated.
pub(super) fn object_name(name: &str) -> Result<[u8; NAME_LEN], Error> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if name.is_empty() || name.len() >= NAME_LEN || !name.bytes().all(valid) {
        return Err(Error::BadName(name.into()));
    }
    let mut padded = [0; NAME_LEN];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    Ok(padded)
}

/// The text of a zero-padded name from the kernel.
pub(super) fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// The address of a buffer as bpf_attr holds it.
pub(super) fn address<T>(buffer: &[T]) -> u64 {
    buffer.as_ptr().expose_provenance() as u64
}

/// The address of a buffer the kernel will write to.
pub(super) fn address_mut<T>(buffer: &mut [T]) -> u64 {
    buffer.as_mut_ptr().expose_provenance() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(&object_name("xdp_count.1").unwrap()[..12], b"xdp_count.1\0");
        assert_eq!(text(&object_name("abc").unwrap()), "abc");
        for bad in ["", "sixteen_letters_", "sp ace", "dash-ed", "ümlaut"] {
            assert!(matches!(object_name(bad), Err(Error::BadName(_))), "{bad:?}");
        }
    }
}
