//! `wirecap status`: the captures that run, or the account of one of them.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::TargetFlags;
use crate::{
    control::{
        client::{FoundCapture, find},
        place::{REMEDY_FOR_HIDDEN, hidden_directories},
        protocol::{Request, Status},
    },
    exit::Exit,
    print::{printable::json, stdio::print_stdout, table::Table},
};

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Print JSON: the account as the capture prints it with --json, or without CAPTURE an array of all
    /// captures.
    #[arg(long)]
    json: bool,
}

/// A capture that runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunningCapture {
    #[serde(flatten)]
    status: Status,
    /// Its control socket.
    socket: String,
}

/// Prints the captures, or the account of one.
///
/// # Errors
/// There is no such capture, or it does not answer.
pub(crate) fn run(flags: &StatusFlags) -> Result<Exit> {
    match &flags.target.target {
        Some(_) => account(flags),
        None => list(flags.json),
    }
}

fn account(flags: &StatusFlags) -> Result<Exit> {
    let answer = flags.target.connect()?.ask(&Request::Account)?;
    let text = match flags.json {
        true => json(&answer["account"]),
        false => answer["text"].as_str().unwrap_or_default().to_owned() + "\n",
    };
    print_stdout("the account", &text)?;
    Ok(Exit::Fine)
}

fn list(as_json: bool) -> Result<Exit> {
    let all_visible = warn_of_hidden();
    let (mut running, mut silent) = (Vec::new(), false);
    for FoundCapture { socket, status } in find() {
        let socket = socket.display().to_string();
        match status {
            Ok(status) => running.push(RunningCapture { status, socket }),
            Err(cause) => {
                fail!("{cause:#}");
                silent = true;
            }
        }
    }
    let text = match (as_json, running.as_slice()) {
        (true, _) => json(&running),
        (false, []) => none(silent, all_visible).to_owned() + "\n",
        (false, running) => table(running).to_string(),
    };
    print_stdout("the list", &text)?;
    Ok(if silent { Exit::Failed } else { Exit::Fine })
}

/// That no capture is listed; some may be `silent`.
fn none(silent: bool, all_visible: bool) -> &'static str {
    match (silent, all_visible) {
        (true, _) => "no capture answers",
        (false, false) => "no capture runs that this user can reach",
        (false, true) => {
            "no capture of root, of a service or of this user was found; wirecap status PATH shows one that was started with --control PATH"
        }
    }
}

/// Says where there may be captures that this user cannot see. Returns whether there is no such place.
pub(crate) fn warn_of_hidden() -> bool {
    let hidden = hidden_directories();
    for directory in &hidden {
        note!("the captures in {} are hidden from this user: {REMEDY_FOR_HIDDEN}", directory.display());
    }
    hidden.is_empty()
}

fn table(running: &[RunningCapture]) -> Table {
    let mut table =
        Table::new(&["pid", "name", "command", "interfaces", "since", "state", "packets", "lost"]);
    for RunningCapture { status, .. } in running {
        table.row(vec![
            status.pid.to_string(),
            status.name.clone().unwrap_or_else(|| "-".into()),
            status.command.clone(),
            status.ports.join(","),
            // Without milliseconds.
            status.started.split('.').next().unwrap_or_default().to_owned() + "Z",
            status.state.to_string(),
            status.delivered.to_string(),
            status.lost.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(
            none(false, true),
            "no capture of root, of a service or of this user was found; wirecap status PATH shows one that was started with \
             --control PATH"
        );
        assert_eq!(none(false, false), "no capture runs that this user can reach");
        assert_eq!((none(true, true), none(true, false)), ("no capture answers", "no capture answers"));
    }
}
