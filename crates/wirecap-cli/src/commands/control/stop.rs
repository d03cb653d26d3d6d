//! `wirecap stop`: ends a capture, and says how it ended.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args;

use super::TargetFlags;
use crate::{
    control::{
        client::{ControlClient, TimedOut, label},
        protocol::{EndRecord, Request},
    },
    exit::Exit,
    print::stdio::print_stdout,
    values::duration,
};

/// How long a capture may take to close its connections after it has reported its end.
const CLOSING: Duration = Duration::from_secs(5);

/// What to end.
#[derive(Debug, Args)]
pub(crate) struct StopFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Wait at most this long until everything is written, then exit with code 1; the capture still ends
    /// [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

/// Ends the capture as SIGINT does, and waits until it has ended. The exit code is that of the capture.
///
/// # Errors
/// There is no such capture, the user may not end it, or it takes longer than the timeout.
pub(crate) fn run(flags: &StopFlags) -> Result<Exit> {
    let begun = Instant::now();
    let mut capture = flags.target.connect()?;
    let which = match flags.target.names_one() {
        true => String::new(),
        false => format!("{}: ", label(capture.path())),
    };
    let left = || flags.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
    capture.ask_within(&Request::Stop, left().unwrap_or(Duration::MAX))?;
    let answer = match capture.answer(left()) {
        Err(error) if error.is::<TimedOut>() => bail!(
            "the capture has not ended after {} s: it still writes what it has captured, or waits for the reader of a copy or \
             for the command of -z; its own messages say which, and one more SIGINT gives up what it waits for",
            flags.timeout.unwrap_or_default().as_secs_f64()
        ),
        answer => answer?,
    };
    let Some(answer) = answer else {
        bail!("the capture has ended without saying how: it was killed, or was stopped before it had begun")
    };
    let end: EndRecord = serde_json::from_value(answer)
        .map_err(|cause| anyhow!("the capture has ended, but its last answer cannot be parsed: {cause}"))?;
    wait_for_close(&mut capture);
    print_stdout("how the capture ended", &format!("{which}{end}\n"))?;
    Ok(match end.exit_code {
        0 => Exit::Fine,
        3 => Exit::Lost,
        _ => Exit::Failed,
    })
}

/// Waits for the process, which ends just after it has reported its end.
fn wait_for_close(capture: &mut ControlClient) {
    let _ = capture.answer(Some(CLOSING));
}
