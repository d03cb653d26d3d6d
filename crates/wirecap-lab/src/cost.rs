//! Output of a benchmark: a table with the cost of each operation.

use std::time::Instant;

/// Rounds of each row.
const ROUNDS: usize = 9;
/// Operations per round.
pub const RUNS: usize = 1 << 20;

/// Prints the head of the table.
#[allow(clippy::print_stdout)]
pub fn header() {
    println!("{ROUNDS} rounds of {RUNS}; median (least to greatest) ns");
    println!("| what | ns |");
    println!("|---|---:|");
}

/// Prints the cost of an operation, which `round` carries out [`RUNS`] times.
#[allow(clippy::print_stdout)]
pub fn row(what: &str, mut round: impl FnMut()) {
    let mut times = [(); ROUNDS].map(|()| {
        let begin = Instant::now();
        round();
        begin.elapsed().as_nanos() as f64 / RUNS as f64
    });
    times.sort_by(f64::total_cmp);
    println!("| {what} | {:.1} ({:.1} to {:.1}) |", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
}

/// Pseudo-random numbers, the same in every run: Marsaglia's xorshift.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.draw() >> 16) % end
    }
}
