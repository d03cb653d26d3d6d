//! Asking for cache lines before they are needed.
//!
//! Rule: only hints. Nothing that a program sees changes, any address will do, and a machine without such an
//! instruction does nothing.

#[cfg(target_arch = "aarch64")]
use std::arch::asm;

/// Asks for the cache line at an address, which is read soon: into the first-level cache.
#[inline(always)]
pub(crate) fn to_read(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing that the program sees, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Asks for the cache line at an address, which is read later: into the second-level cache.
#[inline(always)]
pub(crate) fn to_read_later(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: as in `to_read`.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as in `to_read`.
    unsafe {
        asm!("prfm pldl2keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
