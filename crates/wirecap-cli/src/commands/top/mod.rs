//! `wirecap top`: a running capture, live in the terminal.
//!
//! ```text
//!   a capture that runs ──┐                                                       ┌─► keys
//!                         ├─► control socket ─► Report, twice a second ─► History ─┴─► view ─► terminal
//!   wirecap capture, ─────┘   control::client   figures.rs                rates, losses
//!   as a child process
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | which capture, or which interfaces | [`flags`], [`source`] |
//! | what a report says | [`figures`] |
//! | earlier reports: rates of two minutes, the last losses | [`history`] |
//! | what is on the screen | [`view`]; what it looks like: [`style`] |
//! | what waits to be shown: the newest report, all messages and keys | [`news`] |
//! | the terminal and its keys | [`screen`] |
//!
//! Rule: the command uses captures only over their control sockets, even the one that it starts, which ends
//! with it. Only the screen is written to standard output without `print`.

mod figures;
pub(crate) mod flags;
mod history;
mod news;
mod screen;
mod source;
mod style;
mod view;

use std::{io::IsTerminal, ops::RangeInclusive, time::Duration};

use anyhow::{Result, ensure};

use self::{flags::TopFlags, screen::Screen, source::Source};
use crate::{exit::Exit, process::signals::Signals};

/// What captures serve.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

/// Shows a capture until the user quits or the capture ends.
///
/// # Errors
/// There is no terminal, no such capture, or the capture cannot start.
pub(crate) fn run(flags: &TopFlags, signals: &Signals) -> Result<Exit> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    ensure!(
        is_terminal,
        usage!(
            "top needs a terminal; wirecap status CAPTURE prints the account once, --metrics and --json are for programs"
        )
    );
    ensure!(
        INTERVALS.contains(&flags.interval),
        usage!("--interval {:?} is not possible: write a time from 100ms to 1m", flags.interval)
    );
    let mut source = Source::open(flags, signals)?;
    let shown = match source.watch(flags.interval) {
        Ok(()) => {
            Screen::open(&source, flags.interval).and_then(|mut screen| screen.run(&mut source, signals))
        }
        Err(error) => Err(error),
    };
    // The terminal has been restored.
    source.close(shown)
}
