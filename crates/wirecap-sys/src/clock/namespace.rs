//! Time namespaces: there, a process sees another CLOCK_MONOTONIC than BPF programs do.

use std::fs;

/// The offsets of the clocks that new processes of this one see; usually its own.
const OFFSETS: &str = "/proc/self/timens_offsets";

/// Whether the kernel's clock that this process reads is another one than that of BPF programs: in a time
/// namespace that moves it. False if the kernel does not say (before Linux 5.6, and without /proc).
pub fn is_in_time_namespace() -> bool {
    fs::read_to_string(OFFSETS).is_ok_and(|offsets| moves_monotonic(&offsets))
}

/// Whether CLOCK_MONOTONIC has an offset, in a file with a line of name, seconds and nanoseconds for each
/// clock.
fn moves_monotonic(offsets: &str) -> bool {
    offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("monotonic") && words.any(|offset| offset != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_of_the_monotonic_clock_is_found() {
        for (offsets, moves) in [
            ("monotonic           0         0\nboottime            0         0\n", false),
            ("monotonic       86400         0\nboottime            0         0\n", true),
            ("monotonic           0   5000000\nboottime            0         0\n", true),
            ("monotonic          -1         0\nboottime            0         0\n", true),
            ("monotonic           0         0\nboottime         1000         0\n", false),
            ("", false),
        ] {
            assert_eq!(moves_monotonic(offsets), moves, "{offsets}");
        }
    }
}
