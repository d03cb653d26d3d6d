//! `wirecap stop`: ends a capture, and says how it ended.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args;

use super::TargetFlags;
use crate::{
    control::{
        client::{ControlClient, TimedOut},
        protocol::{EndRecord, Request},
    },
    exit::Exit,
    print::stdio::print_stdout,
    text::plural::counted,
    values::duration,
};

/// How long a capture that has said how it ended may take to close its connections.
const CLOSING: Duration = Duration::from_secs(5);

/// What to end.
#[derive(Debug, Args)]
pub(crate) struct StopFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Wait at most this long until everything is written, and exit with code 1 if it is not: the capture
    /// goes on ending [default: no limit].
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
    capture.ask(&Request::Stop)?;
    let left = flags.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
    let ended = match capture.answer(left) {
        Err(error) if error.is::<TimedOut>() => bail!(
            "the capture has not ended after {} s: it still writes what it has captured; wirecap status shows how far it is, \
             and one more SIGINT gives the rest up",
            flags.timeout.unwrap_or_default().as_secs_f64()
        ),
        answer => answer?,
    };
    let Some(ended) = ended else {
        bail!("the capture has ended without saying how: it was killed, or was stopped before it had begun")
    };
    let end: EndRecord = serde_json::from_value(ended).map_err(|cause| {
        anyhow!("the capture has ended; what it says about that is not understood: {cause}")
    })?;
    wait_for_close(&mut capture);
    print_stdout("how the capture ended", &describe(&end))?;
    Ok(match end.exit_code {
        0 => Exit::Fine,
        3 => Exit::Lost,
        _ => Exit::Failed,
    })
}

/// The process ends just after it has said so.
fn wait_for_close(capture: &mut ControlClient) {
    let _ = capture.answer(Some(CLOSING));
}

fn describe(end: &EndRecord) -> String {
    let mut text = format!("the capture has ended with exit code {}", end.exit_code);
    if let Some(error) = &end.error {
        text += &format!(": {error}");
    }
    if let Some(output) = &end.output {
        let files = if end.files > 1 { format!("{} files named ", end.files) } else { String::new() };
        text += &format!("; {} in {files}{output}", counted(end.written, "packet"));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_with_code_error_and_files() {
        let fine =
            EndRecord { exit_code: 0, end: "stop".into(), error: None, output: None, written: 0, files: 0 };
        assert_eq!(describe(&fine), "the capture has ended with exit code 0\n");
        let series = EndRecord { output: Some("x_*.pcapng".into()), written: 1, files: 3, ..fine.clone() };
        assert_eq!(
            describe(&series),
            "the capture has ended with exit code 0; 1 packet in 3 files named x_*.pcapng\n"
        );
        let failed = EndRecord { exit_code: 1, error: Some("eth1 is gone".into()), ..fine };
        assert_eq!(describe(&failed), "the capture has ended with exit code 1: eth1 is gone\n");
    }
}
