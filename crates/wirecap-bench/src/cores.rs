//! How long a cache line takes from one core to another.
//!
//! Why: a hypervisor moves virtual CPUs without exposing it. While sender and receiver share no cache,
//! sometimes for minutes, a receiver that reads packets soon after they were written runs at a different
//! speed.

use std::{
    hint,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};
use wirecap_sys::cpu;

use crate::stats::Summary;

const ROUND_TRIPS: u32 = 500;
/// The result is the median of this many series, because interrupts lengthen some of them.
const SERIES: u32 = 21;

/// A word alone in its cache line, and in the adjacent one that some processors fetch with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// How long a cache line takes from core `a` to core `b`, in nanoseconds. `None` if they are the same.
///
/// # Errors
/// If a thread cannot be bound to a core.
pub fn apart_ns(a: usize, b: usize) -> Result<Option<f64>> {
    if a == b {
        return Ok(None);
    }
    let (there, back) = (Line::default(), Line::default());
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<()> {
            pin(b, &back)?;
            for number in 1..=SERIES * ROUND_TRIPS {
                wait_for(&there, number);
                back.0.store(number, Ordering::Release);
            }
            Ok(())
        });
        let timed = scope.spawn(|| -> Result<f64> {
            pin(a, &there)?;
            let mut series = Vec::new();
            let mut number = 0;
            for _ in 0..SERIES {
                let start = Instant::now();
                for _ in 0..ROUND_TRIPS {
                    number += 1;
                    there.0.store(number, Ordering::Release);
                    wait_for(&back, number);
                }
                series.push(start.elapsed().as_nanos() as f64 / f64::from(2 * ROUND_TRIPS));
            }
            Ok(Summary::of(series).expect("there are some").median)
        });
        echo.join().expect("the thread does not panic")?;
        timed.join().expect("the thread does not panic").map(Some)
    })
}

/// Binds this thread to a core. On failure, releases the thread that waits for `line`.
fn pin(core: usize, line: &Line) -> Result<()> {
    cpu::pin_to_core(core).with_context(|| format!("binding a thread to core {core}")).inspect_err(|_| {
        line.0.store(u32::MAX, Ordering::Release);
    })
}

fn wait_for(line: &Line, number: u32) {
    while line.0.load(Ordering::Acquire) < number {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_some_time_to_another_core_and_none_to_the_same() {
        assert_eq!(apart_ns(0, 0).unwrap(), None);
        if crate::machine::cores() > 1 {
            let ns = apart_ns(0, 1).unwrap().unwrap();
            assert!((1.0..1e6).contains(&ns), "{ns}");
        }
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(apart_ns(0, 1_000).is_err());
        assert!(apart_ns(1_000, 0).is_err());
    }
}
