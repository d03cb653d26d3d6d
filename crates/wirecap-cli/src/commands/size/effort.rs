//! How much one command may simulate, and the line on the terminal while it does.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::print::status_line::StatusLine;

/// The most looks of all simulations of a command.
const MAX_LOOKS: u64 = 1_000_000_000;
/// Looks between two readings of the clock.
const GLANCE: u64 = 1 << 16;
/// How long nothing is shown: most answers take less.
const SILENCE: Duration = Duration::from_secs(2);

/// What the simulations of a command have cost.
pub(super) struct Effort {
    /// Looks at a queue: an event of a simulation looks at most once at each.
    looks: u64,
    /// At how many looks the clock is read again.
    next_glance: u64,
    began: Instant,
    line: StatusLine,
}

impl Effort {
    pub(super) fn new(json: bool) -> Self {
        Self { looks: 0, next_glance: GLANCE, began: Instant::now(), line: StatusLine::new(false, json) }
    }

    /// Counts an event of a simulation.
    ///
    /// # Errors
    /// The command has simulated as much as it may.
    pub(super) fn step(&mut self, looks: u64) -> Result<()> {
        self.looks += looks;
        if self.looks >= self.next_glance { self.glance() } else { Ok(()) }
    }

    fn glance(&mut self) -> Result<()> {
        ensure!(
            self.looks <= MAX_LOOKS,
            usage!(
                "simulating this traffic takes too long; give a shorter --burst, a larger -M or fewer --queues"
            )
        );
        self.next_glance = self.looks + GLANCE;
        if self.line.is_due() && self.began.elapsed() >= SILENCE {
            let seconds = self.began.elapsed().as_secs();
            let percent = 100 * self.looks / MAX_LOOKS;
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
        assert!(effort.step(MAX_LOOKS).is_ok());
        let error = (0..2 * GLANCE).find_map(|_| effort.step(1).err()).expect("the limit");
        assert!(error.to_string().contains("a shorter --burst") && code_of(&error) == Exit::Usage, "{error}");
    }
}
