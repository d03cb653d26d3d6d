//! How much one command may simulate, and the line on the terminal while it does.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::print::status_line::StatusLine;

/// The most work of all simulations of a command, in events and packets: ten seconds to two minutes.
const MAX_WORK: u64 = 1_000_000_000;
/// Work between two readings of the clock.
const GLANCE: u64 = 1 << 16;
/// How long nothing is shown: most answers take less.
const SILENCE: Duration = Duration::from_secs(2);

/// What the simulations of a command have cost.
pub(super) struct Effort {
    /// Events and packets.
    work: u64,
    /// At how much work the clock is read again.
    next_glance: u64,
    began: Instant,
    line: StatusLine,
}

impl Effort {
    pub(super) fn new(json: bool) -> Self {
        Self { work: 0, next_glance: GLANCE, began: Instant::now(), line: StatusLine::new(false, json) }
    }

    /// Counts work of a simulation.
    ///
    /// # Errors
    /// The command has simulated as much as it may.
    pub(super) fn step(&mut self, work: u64) -> Result<()> {
        self.work += work;
        if self.work >= self.next_glance { self.glance() } else { Ok(()) }
    }

    fn glance(&mut self) -> Result<()> {
        ensure!(
            self.work <= MAX_WORK,
            usage!(
                "simulating this traffic takes too long; give a shorter --burst, a larger -M or fewer --queues"
            )
        );
        self.next_glance = self.work + GLANCE;
        if self.line.is_due() && self.began.elapsed() >= SILENCE {
            let seconds = self.began.elapsed().as_secs();
            let percent = 100 * self.work / MAX_WORK;
            self.line.show(&[format!("simulating, {seconds} s"), format!("{percent} % of the limit")]);
        }
        Ok(())
    }
}

impl Drop for Effort {
    /// What is printed next begins on an empty line.
    fn drop(&mut self) {
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Exit, code_of};

    #[test]
    fn the_effort_of_a_command_is_limited() {
        let mut effort = Effort::new(false);
        assert!(effort.step(MAX_WORK).is_ok());
        let error = effort.step(GLANCE).expect_err("the limit");
        assert!(error.to_string().contains("a shorter --burst") && code_of(&error) == Exit::Usage, "{error}");
    }
}
