//! Memory with code in it.
//!
//! ```text
//!   bytes ──► mmap read+write, copy, mprotect read+execute ──run(packet, wirelen)──► u32 ──drop──► munmap
//! ```
//!
//! Rule: a page is writable or executable, never both.

use std::io;

use crate::mmap::Mmap;

/// What the code is called as, with the C calling convention: packet, bytes of it that are there, its length
/// on the wire in bytes.
type Entry = unsafe extern "C" fn(*const u8, u32, u32) -> u32;

/// A filter function in executable memory. Threads share it: nothing writes it again.
///
/// INVARIANT: the memory begins with the function, and can be read and executed.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// Puts a function into executable memory.
    ///
    /// # Safety
    /// The bytes are a complete function of this machine of the type [`Entry`], position-independent and
    /// without relocations, that calls nothing, returns, writes only to its own stack frame, and reads only
    /// from the packet's first byte up to the length it is given.
    ///
    /// # Errors
    /// What mmap or mprotect returned: `EACCES` or `EPERM` where a security policy forbids executable memory,
    /// `EINVAL` for no code at all.
    pub(super) unsafe fn new(code: &[u8]) -> io::Result<Self> {
        let memory = Mmap::anonymous(code.len(), 0)?;
        let start = memory.start().as_ptr();
        // SAFETY: the mapping is new, writable, at least as long as the code, and overlaps nothing.
        unsafe { start.copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the range is exactly our mapping, and there are no references into it.
        let refused = unsafe { libc::mprotect(start.cast(), memory.len(), protection) } != 0;
        if refused { Err(io::Error::last_os_error()) } else { Ok(Self(memory)) }
    }

    /// Runs the function on a packet of which `packet` was captured and which was `wirelen` bytes long.
    #[inline]
    pub(super) fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        // SAFETY: by the invariant the mapping begins with a function of this type, and it is neither written
        // nor unmapped while `self` is borrowed.
        let entry = unsafe { std::mem::transmute::<*mut u8, Entry>(self.0.start().as_ptr()) };
        // A packet has no 4 GiB; if it had, the code would see its beginning.
        let captured = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: the packet is good for `captured` bytes, the only ones the code reads.
        unsafe { entry(packet.as_ptr(), captured, wirelen) }
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests;
