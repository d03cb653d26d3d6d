//! Whether standard output was open when the process began.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in the place of each standard stream that is closed, which
//! then accepts everything that is written. So this is looked up before; in a shared library, when that is
//! loaded.

use std::sync::atomic::{AtomicBool, Ordering};

/// Written once, before anything reads it.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether this process was started with its standard output closed, so that all that is written to it is
/// lost.
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Called by the C library, of a program before Rust's start-up code.
extern "C" fn look() {
    // SAFETY: fcntl(2) with F_GETFD takes no pointers; any number is allowed as descriptor.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

// SAFETY: this section has addresses of functions which the C library calls once each, with three arguments
// that `look` ignores (System V ABI, "Initialization and Termination Functions"). `look` only makes a system
// call and stores a flag: it needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
