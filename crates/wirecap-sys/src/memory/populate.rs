//! Bringing the pages of the packet memory in.

use std::io;

use super::{HUGE_PAGE_BYTES, PacketMemory};

impl PacketMemory {
    /// Brings all pages in now, so that no packet waits for a page fault.
    ///
    /// It goes page by page: while the kernel is at it, it lets no other thread map anything, end, or let the process end, and
    /// on a busy machine gigabytes take many seconds.
    ///
    /// # Errors
    /// What the kernel said, ENOMEM for instance when a control group's limit is reached.
    pub fn populate(&self) -> io::Result<()> {
        (0..self.len).step_by(HUGE_PAGE_BYTES).try_for_each(|offset| {
            let len = HUGE_PAGE_BYTES.min(self.len - offset);
            // SAFETY: the range lies in the mapping, which is private and writable: `offset + len` is at most its length.
            let result = unsafe {
                libc::madvise(self.start.as_ptr().add(offset).cast(), len, libc::MADV_POPULATE_WRITE)
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    }
}
