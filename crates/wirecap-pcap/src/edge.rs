//! The edge between C and Rust.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function that C has called. After a panic, which is a defect of this library and has printed its
/// message, the program gets `failed`.
pub(crate) fn catch_panic<T>(failed: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

/// Sets the thread's errno.
pub(crate) fn set_errno(errno: std::ffi::c_int) {
    // SAFETY: the place of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}
