//! `wirecap rotate`: the next file of a series begins now.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::Value;

use super::TargetFlags;
use crate::{
    control::{
        client::{ControlClient, TimedOut},
        protocol::{CompleteFileRecord, Request},
    },
    exit::Exit,
    print::stdio::print_stdout,
    text::plural::counted,
    values::duration,
};

/// What to rotate.
#[derive(Debug, Args)]
pub(crate) struct RotateFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Wait at most this long until the old file is complete, then exit with code 1; the next file still
    /// begins [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

/// Has the next file begin now, waits until the old one is complete, and prints its name.
///
/// # Errors
/// There is no such capture, it writes no series of files, the user may not change it, or writing the old
/// file takes longer than the timeout.
pub(crate) fn run(flags: &RotateFlags) -> Result<Exit> {
    let answer = rotate(flags.target.connect()?, flags.timeout)?;
    let files: Vec<CompleteFileRecord> = serde_json::from_value(answer["files"].clone())
        .map_err(|cause| anyhow!("cannot parse the answer of the capture: {cause}"))?;
    print_stdout("the complete files", &files.iter().map(describe).collect::<String>())?;
    Ok(Exit::Fine)
}

fn rotate(mut capture: ControlClient, timeout: Option<Duration>) -> Result<Value> {
    let begun = Instant::now();
    let left = || timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
    // A slow disk may take any time, and a capture that hangs would, too: this finds one.
    capture.ask_within(&Request::Status, left().unwrap_or(Duration::MAX))?;
    capture.send(&Request::Rotate)?;
    let answer = match capture.answer(left()) {
        Err(error) if error.is::<TimedOut>() => bail!(
            "the old file is not complete after {} s: the capture still writes it, and the next one follows",
            timeout.unwrap_or_default().as_secs_f64()
        ),
        answer => answer?,
    };
    answer.ok_or_else(|| capture.gone())
}

fn describe(complete: &CompleteFileRecord) -> String {
    let next = complete.next.as_ref().map(|next| format!("; {next} follows")).unwrap_or_default();
    format!("{} is complete with {}{next}\n", complete.file, counted(complete.packets, "packet"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixListener,
        thread,
    };

    use super::*;

    /// The answer of a capture that takes this long to write the old file, and what the client makes of it.
    fn rotated(takes: Duration, timeout: Option<Duration>) -> Result<Value> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            for (reply, takes) in [("status", Duration::ZERO), ("rotated", takes)] {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                thread::sleep(takes);
                let reply = format!("{{\"protocol\":1,\"reply\":\"{reply}\",\"files\":[]}}\n");
                // Fails once the client is gone.
                let _ = stream.get_mut().write_all(reply.as_bytes());
            }
        });
        rotate(ControlClient::connect(&path).unwrap(), timeout)
    }

    #[test]
    fn a_rotation_takes_as_long_as_the_disk_unless_there_is_a_timeout() {
        // Longer than any other answer may take.
        assert_eq!(rotated(Duration::from_millis(6_500), None).unwrap()["reply"], "rotated");
        let late = rotated(Duration::from_secs(1), Some(Duration::from_millis(200))).unwrap_err().to_string();
        assert!(late.starts_with("the old file is not complete after 0.2 s"), "{late}");
    }

    #[test]
    fn a_complete_file_is_named_with_the_one_that_follows() {
        let file = CompleteFileRecord { file: "a".into(), packets: 2, next: Some("b".into()) };
        assert_eq!(describe(&file), "a is complete with 2 packets; b follows\n");
        assert_eq!(describe(&CompleteFileRecord { next: None, ..file }), "a is complete with 2 packets\n");
    }
}
