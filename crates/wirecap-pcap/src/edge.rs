//! The edge between C and Rust.
//!
//! Rule: no panic leaves Rust, and no thread is cancelled (pthread_cancel(3)) in it: its stack would be
//! unwound past values that have to be dropped. Functions that wait return to the edge now and then, where
//! there are none, and [let a request in](cancellation_point).

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

// The libc crate lacks them.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// `PTHREAD_CANCEL_DISABLE` of <pthread.h>.
const CANCEL_DISABLE: c_int = 1;

/// The thread is not cancelled while this value exists.
struct CancellationHeld {
    before: c_int,
}

impl CancellationHeld {
    fn new() -> Self {
        let mut before = 0;
        // SAFETY: the state is one that the function knows, and there is room for the one before.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for CancellationHeld {
    fn drop(&mut self) {
        // SAFETY: the state was the thread's before. It becomes effective at the next cancellation point.
        unsafe { pthread_setcancelstate(self.before, &raw mut self.before) };
    }
}

/// Runs a function that C has called. After a panic, which is a defect of this library and has printed its
/// message, the program gets `failed`.
pub(crate) fn catch_panic<T>(failed: T, body: impl FnOnce() -> T) -> T {
    let _held = CancellationHeld::new();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

/// Ends the thread if that was asked for, and is allowed: then the stack is unwound.
///
/// # Safety
/// No frame up to the C function that has called this library has anything to drop.
#[inline]
pub(crate) unsafe fn cancellation_point() {
    // SAFETY: by the caller's promise.
    unsafe { pthread_testcancel() };
}

/// Sets the thread's errno.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the place of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}
