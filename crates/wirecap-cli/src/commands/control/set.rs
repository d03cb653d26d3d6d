//! `wirecap set`: changes settings of a capture that runs.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde_json::Map;

use super::TargetFlags;
use crate::{
    control::{
        desk::{DURATION, THRESHOLD},
        protocol::{Change, Request},
    },
    exit::Exit,
    print::stdio::print_stdout,
    values::{duration, number},
};

/// What to change.
#[derive(Debug, Args)]
pub(crate) struct SetFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// T: how full, in percent, a worker's pools are when its buddies begin to help.
    #[arg(short = 'T', value_name = "PERCENT", value_parser = number::<u32>(0..=100, "-T 60"))]
    threshold_percent: Option<u32>,
    /// Stop this long after the start of the capture; at once if that time has passed.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
}

/// Changes the settings, and prints what they were.
///
/// # Errors
/// There is no such capture, it cannot be changed like this, or the user may not do it.
pub(crate) fn run(flags: &SetFlags) -> Result<Exit> {
    let mut settings = Map::new();
    settings.extend(flags.threshold_percent.map(|percent| (THRESHOLD.to_owned(), percent.into())));
    let ms = flags.duration.map(|duration| duration.as_millis() as u64);
    settings.extend(ms.map(|ms| (DURATION.to_owned(), ms.into())));
    ensure!(
        !settings.is_empty(),
        usage!("set changes -T PERCENT or --duration TIME: write at least one of them")
    );
    let answer = flags.target.connect()?.ask(&Request::Set { settings })?;
    let changes: Vec<Change> = serde_json::from_value(answer["changes"].clone())
        .map_err(|cause| anyhow!("cannot parse the answer of the capture: {cause}"))?;
    print_stdout("the changes", &changes.iter().map(describe).collect::<String>())?;
    Ok(Exit::Fine)
}

fn describe(change: &Change) -> String {
    let before = change.before.map_or_else(|| "not set".into(), |before| before.to_string());
    format!("{} is {}; it was {before}\n", change.setting, change.after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_printed_with_the_value_before() {
        let change =
            Change { seconds: 1.0, setting: THRESHOLD.into(), before: Some(60), after: 40, uid: 0, pid: 1 };
        assert_eq!(describe(&change), "threshold_percent is 40; it was 60\n");
        assert_eq!(describe(&Change { before: None, ..change }), "threshold_percent is 40; it was not set\n");
    }
}
