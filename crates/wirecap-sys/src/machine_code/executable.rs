//! Memory with code in it.
//!
//! ```text
//!   bytes ──► mmap read+write, copy, mprotect read+execute ──run(packet, wirelen)──► u32 ──drop──► munmap
//! ```
//!
//! Rule: a page is writable or executable, never both.

use std::io;
use std::ptr::NonNull;

/// What the code is called as, with the C calling convention: packet, bytes of it that are there, its length on
/// the wire in bytes.
type Entry = unsafe extern "C" fn(*const u8, u32, u32) -> u32;

/// A filter function in executable memory. Threads share it: nothing writes it again.
#[derive(Debug)]
pub(super) struct Executable {
    /// INVARIANT: a private mapping of `mapped` bytes, readable and executable, that begins with the function.
    start: NonNull<u8>,
    mapped: usize,
}

// SAFETY: the mapping belongs to the value alone and is only read and executed until it is dropped.
unsafe impl Send for Executable {}
// SAFETY: as above; running the code changes nothing in it.
unsafe impl Sync for Executable {}

impl Executable {
    /// Puts a function into executable memory.
    ///
    /// # Safety
    /// The bytes are a complete function of this machine of the type [`Entry`], position-independent and without relocations,
    /// that calls nothing, returns, writes only to its own stack frame, and reads only from the packet's first byte up to
    /// the length it is given.
    ///
    /// # Errors
    /// What mmap or mprotect returned: `EACCES` or `EPERM` where a security policy forbids executable memory, `EINVAL`
    /// for no code at all.
    pub(super) unsafe fn new(code: &[u8]) -> io::Result<Self> {
        let mapping = Self::map(code.len())?;
        // SAFETY: the mapping is new, writable, at least as long as the code, and overlaps nothing.
        unsafe { mapping.start.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        // SAFETY: the range is exactly our mapping, and there are no references into it.
        let protected = unsafe {
            libc::mprotect(mapping.start.as_ptr().cast(), mapping.mapped, libc::PROT_READ | libc::PROT_EXEC)
        };
        if protected == 0 { Ok(mapping) } else { Err(io::Error::last_os_error()) }
    }

    /// New zeroed memory that can be written; not to be run before it is protected.
    fn map(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, mapped: len })
    }

    /// Runs the function on a packet of which `packet` was captured and which was `wirelen` bytes long.
    #[inline]
    pub(super) fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        // SAFETY: by the invariant the mapping begins with a function of this type, and it is neither written nor unmapped
        // while `self` is borrowed.
        let entry = unsafe { std::mem::transmute::<*mut u8, Entry>(self.start.as_ptr()) };
        // A packet has no 4 GiB; if it had, the code would see its beginning.
        let captured = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: the packet is good for `captured` bytes, the only ones the code reads.
        unsafe { entry(packet.as_ptr(), captured, wirelen) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: exactly our own mapping, and no thread runs it: `run` borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_arrive() {
        // mov eax, esi; shl eax, 16; add eax, edx; movzx ecx, byte [rdi]; add eax, ecx; ret
        let code = [0x89, 0xf0, 0xc1, 0xe0, 0x10, 0x01, 0xd0, 0x0f, 0xb6, 0x0f, 0x01, 0xc8, 0xc3];
        // SAFETY: the function above, which reads the first byte of packets that have one.
        let function = unsafe { Executable::new(&code) }.unwrap();
        assert_eq!(function.run(&[7, 0], 300), (2 << 16) + 300 + 7);
        let across = std::thread::scope(|scope| scope.spawn(|| function.run(&[1], 0)).join().unwrap());
        assert_eq!(across, (1 << 16) + 1);
    }

    #[test]
    fn no_code_is_an_error() {
        // SAFETY: there is nothing to run.
        let refused = unsafe { Executable::new(&[]) }.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
}
