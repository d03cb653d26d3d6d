//! Whether something keeps the system clock right.

use std::{io, mem};

/// Whether the kernel takes the system clock (CLOCK_REALTIME) for synchronised: by NTP, PTP or another
/// source that adjusts it. Needs no privilege.
///
/// # Errors
/// The kernel's error.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: timex consists of integers, for which all zero bytes are a value.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a timex that outlives the call; `modes` is 0, so nothing is set.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(timex.status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        is_synchronised().unwrap();
    }
}
