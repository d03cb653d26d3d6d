//! Machine code of a packet filter, in memory that can be run but not written.
//!
//! ```text
//!   code generator ──bytes──► MachineCode ──run(packet, wirelen)──► u32
//!                     mmap read+write, copy, mprotect read+execute; unmapped on drop
//! ```
//!
//! **The rule that holds here:** a page is writable or executable, never both.

use std::io;
use std::ptr::NonNull;

/// What the code is called as, with the C calling convention: packet, bytes of it that are there, its length on
/// the wire in bytes.
type Entry = unsafe extern "C" fn(*const u8, u32, u32) -> u32;

/// A filter function in executable memory. Shared between threads freely: it is never written again.
#[derive(Debug)]
pub struct MachineCode {
    /// INVARIANT: a private mapping of `mapped` bytes, readable and executable, that begins with the function.
    start: NonNull<u8>,
    mapped: usize,
}

// SAFETY: the mapping belongs to the value alone and is only read and executed until it is dropped.
unsafe impl Send for MachineCode {}
// SAFETY: as above; running the code changes nothing in it.
unsafe impl Sync for MachineCode {}

impl MachineCode {
    /// Puts a function into executable memory.
    ///
    /// This is the trust boundary of generated code: nothing can check what the bytes do. The promise the one
    /// caller, the generator of `wirecap-filter`, makes is that they are a complete function of this machine
    /// with the C calling convention, position-independent and without relocations, that it calls nothing,
    /// returns, writes only to its own stack frame, and reads only from the packet's first byte up to the
    /// length it is given. It is not `unsafe` since no other crate may contain unsafe code; do not call it with
    /// anything else.
    ///
    /// # Errors
    /// What mmap or mprotect said; `EACCES` or `EPERM` where a security policy forbids executable memory,
    /// `EINVAL` for no code at all, `ENOTSUP` on machines other than x86-64, whose instruction caches would
    /// have to be told.
    #[doc(hidden)]
    pub fn from_generator(code: &[u8]) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
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
    pub fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        // SAFETY: by the invariant the mapping begins with code that the generator vouches for, and the code is
        // neither written nor unmapped while `self` is borrowed.
        let entry = unsafe { std::mem::transmute::<*mut u8, Entry>(self.start.as_ptr()) };
        // A packet has no 4 GiB; if it had, the code would see its beginning.
        let captured = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: the packet is good for `captured` bytes, the only ones the code reads.
        unsafe { entry(packet.as_ptr(), captured, wirelen) }
    }
}

impl Drop for MachineCode {
    fn drop(&mut self) {
        // SAFETY: exactly our own mapping, and nobody runs it: `run` borrows `self`.
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
        let function = MachineCode::from_generator(&code).unwrap();
        assert_eq!(function.run(&[7, 0], 300), (2 << 16) + 300 + 7);
        let across = std::thread::scope(|scope| scope.spawn(|| function.run(&[1], 0)).join().unwrap());
        assert_eq!(across, (1 << 16) + 1);
    }

    #[test]
    fn no_code_is_an_error() {
        assert_eq!(MachineCode::from_generator(&[]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
