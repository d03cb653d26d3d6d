//! The kernel's own word on the AF_XDP sockets of this process, whoever has opened them.

use std::{collections::BTreeMap, fs, io, ptr};

use super::{BindMode, abi};
use crate::socket_option::Integers;

/// The mode of each AF_XDP socket that this process has open, as the kernel says it (`XDP_OPTIONS`), in the order in which
/// they were opened: to check what a capture reports of itself. A socket that is not bound counts as one that copies.
///
/// # Errors
/// If the descriptors of the process cannot be listed: `/proc` is not mounted, for instance.
pub fn modes_of_process() -> io::Result<Vec<BindMode>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A socket may have several descriptors; its cookie is its own, and grows from socket to socket.
    let sockets: BTreeMap<u64, BindMode> = numbers.filter_map(mode_of).collect();
    Ok(sockets.into_values().collect())
}

/// Cookie and mode. `None` for what is no AF_XDP socket, and for a descriptor that was closed meanwhile.
fn mode_of(number: libc::c_int) -> Option<(u64, BindMode)> {
    let flags: u32 = option(number, abi::SOL_XDP, abi::XDP_OPTIONS)?;
    let cookie: u64 = option(number, libc::SOL_SOCKET, libc::SO_COOKIE)?;
    let zero_copy = flags & abi::XDP_OPTIONS_ZEROCOPY != 0;
    Some((cookie, if zero_copy { BindMode::ZeroCopy } else { BindMode::Copy }))
}

/// An option of whatever has this descriptor, if it is a socket that has it.
fn option<T: Integers>(number: libc::c_int, level: libc::c_int, option: libc::c_int) -> Option<T> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `len` bytes into integers; both outlive the call. A number that is no
    // descriptor, or another one by now, makes it fail or tells of that one: memory is not concerned.
    let result =
        unsafe { libc::getsockopt(number, level, option, ptr::from_mut(&mut value).cast(), &raw mut len) };
    (result == 0).then_some(value)
}
