//! Signals that end the process at once when they are repeated.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use signal_hook::low_level;

/// From now on, any of these signals that comes `patience` or longer after the first one ends the process with `code`. The signal handler
/// reads the clock, so this needs no thread.
///
/// # Errors
/// What the kernel said.
pub fn end_if_repeated(signals: &[libc::c_int], patience: Duration, code: libc::c_int) -> io::Result<()> {
    let (first_ns, patience_ns) = (Arc::new(AtomicU64::new(0)), patience.as_nanos() as u64);
    for &signal in signals {
        let first_ns = Arc::clone(&first_ns);
        let handle = move || {
            if is_repeated(&first_ns, monotonic_ns(), patience_ns) {
                low_level::exit(code);
            }
        };
        // SAFETY: a signal handler may call nothing but async-signal-safe functions: clock_gettime(2) and _exit(2) are. It takes no
        // lock, allocates nothing and does not panic.
        unsafe { low_level::register(signal, handle) }?;
    }
    Ok(())
}

/// Whether the first signal came `patience_ns` ago or earlier. `first_ns`, written by the handler alone, is its time, and 0 before.
fn is_repeated(first_ns: &AtomicU64, now_ns: u64, patience_ns: u64) -> bool {
    match first_ns.compare_exchange(0, now_ns.max(1), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => false,
        Err(first_ns) => now_ns.saturating_sub(first_ns) >= patience_ns,
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is that of one structure that outlives the call. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_as_repeated_once_the_patience_is_over() {
        let first_ns = AtomicU64::new(0);
        let repeated = |now_ns| is_repeated(&first_ns, now_ns, 100);
        assert_eq!([0, 50, 99, 101, 102].map(repeated), [false, false, false, true, true]);
    }

    #[test]
    fn time_goes_on() {
        let before = monotonic_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(monotonic_ns() >= before + 2_000_000);
    }
}
