//! `wirecap rotate`: the next file of a series begins now.

use anyhow::{Result, anyhow};
use clap::Args;

use super::TargetFlags;
use crate::{
    control::protocol::{CompleteFileRecord, Request},
    exit::Exit,
    print::stdio::print_stdout,
    text::plural::counted,
};

/// What to rotate.
#[derive(Debug, Args)]
pub(crate) struct RotateFlags {
    #[command(flatten)]
    target: TargetFlags,
}

/// Has the next file begin now, and prints the name of the complete one.
///
/// # Errors
/// There is no such capture, it writes no series of files, or the user may not change it.
pub(crate) fn run(flags: &RotateFlags) -> Result<Exit> {
    let answer = flags.target.connect()?.ask(&Request::Rotate)?;
    let files: Vec<CompleteFileRecord> = serde_json::from_value(answer["files"].clone())
        .map_err(|cause| anyhow!("cannot parse the answer of the capture: {cause}"))?;
    print_stdout("the complete files", &files.iter().map(describe).collect::<String>())?;
    Ok(Exit::Fine)
}

fn describe(complete: &CompleteFileRecord) -> String {
    let next = complete.next.as_ref().map(|next| format!("; {next} follows")).unwrap_or_default();
    format!("{} is complete with {}{next}\n", complete.file, counted(complete.packets, "packet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_file_is_named_with_the_one_that_follows() {
        let file = CompleteFileRecord { file: "a".into(), packets: 2, next: Some("b".into()) };
        assert_eq!(describe(&file), "a is complete with 2 packets; b follows\n");
        assert_eq!(describe(&CompleteFileRecord { next: None, ..file }), "a is complete with 2 packets\n");
    }
}
