//! The kernel's own word on the AF_XDP sockets of this process, whoever has opened them.

use std::{fs, io, ptr};

use super::{BindMode, abi};

/// The mode of each AF_XDP socket that this process has open, as the kernel says it (`XDP_OPTIONS`), by descriptor:
/// to check what a capture reports of itself. A socket that is not bound counts as one that copies.
///
/// # Errors
/// If the descriptors of the process cannot be listed: `/proc` is not mounted, for instance.
pub fn modes_of_process() -> io::Result<Vec<BindMode>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let mut numbers: Vec<libc::c_int> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().filter_map(mode_of).collect())
}

/// `None` for what is no AF_XDP socket, and for a descriptor that was closed meanwhile.
fn mode_of(number: libc::c_int) -> Option<BindMode> {
    let (mut flags, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `len` bytes into an integer; both outlive the call. A number that is no
    // descriptor, or another one by now, makes it fail or tells of that one: memory is not concerned.
    let result = unsafe {
        libc::getsockopt(
            number,
            abi::SOL_XDP,
            abi::XDP_OPTIONS,
            ptr::from_mut(&mut flags).cast(),
            &raw mut len,
        )
    };
    let zero_copy = flags & abi::XDP_OPTIONS_ZEROCOPY != 0;
    (result == 0).then_some(if zero_copy { BindMode::ZeroCopy } else { BindMode::Copy })
}
