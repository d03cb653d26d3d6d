//! Mapped memory, unmapped when it is dropped.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

/// Bytes of a page: 4,096 on x86-64, up to 65,536 elsewhere. Mappings begin and end at multiples of it.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf(3) takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of this process, readable when it is made, and writable unless it is [to read](Self::to_read).
#[derive(Debug)]
pub(crate) struct Mmap {
    /// INVARIANT: start of a mapping of `len` bytes that is this value's alone, until it is dropped.
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to no thread. Its owner orders who reads and writes the bytes.
unsafe impl Send for Mmap {}
// SAFETY: as above; nothing here reads or writes them.
unsafe impl Sync for Mmap {}

impl Mmap {
    /// Zeroed memory, private to this process. `flags` are further `MAP_…`.
    ///
    /// # Errors
    /// What mmap(2) returned: `EINVAL` for a length of 0.
    pub(crate) fn anonymous(len: usize, flags: libc::c_int) -> io::Result<Self> {
        Self::new(len, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags, -1, 0)
    }

    /// Zeroed memory that this process shares with those that it forks. `flags` are further `MAP_…`.
    ///
    /// # Errors
    /// As [`Mmap::anonymous`].
    pub(crate) fn inherited(len: usize, flags: libc::c_int) -> io::Result<Self> {
        Self::new(len, READ_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | flags, -1, 0)
    }

    /// A ring of a socket, shared with the kernel. It is not in core dumps: packets in it are confidential.
    ///
    /// # Errors
    /// What mmap(2) or madvise(2) returned.
    pub(crate) fn ring(fd: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let ring = Self::new(len, READ_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)?;
        // SAFETY: the mapping is ours, and the advice changes no contents.
        let refused = unsafe { libc::madvise(ring.start.as_ptr().cast(), len, libc::MADV_DONTDUMP) } != 0;
        if refused { Err(io::Error::last_os_error()) } else { Ok(ring) }
    }

    /// Memory that only the kernel writes: no byte of it may be written here.
    ///
    /// # Errors
    /// What mmap(2) returned.
    pub(crate) fn to_read(fd: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::new(len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), offset)
    }

    fn new(
        len: usize,
        protection: libc::c_int,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        // SAFETY: exactly our own mapping, and nothing borrowed from it outlives its owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
