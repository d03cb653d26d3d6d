//! How messages are written on standard error.
//!
//! ```text
//!   Message ──┬─► wirecap: WARNING: eth1 lost 3 packets, 3 so far: …                a terminal, a file
//!             ├─► <4>wirecap: WARNING: eth1 lost 3 packets, 3 so far: …             the journal
//!             └─► {"time":"…","level":"warning","code":"lost","text":"eth1 lost …   --log json
//! ```

use std::{
    env, fs,
    os::linux::fs::MetadataExt,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use serde::Serialize;
use wirecap_core::choices;

use super::{
    head::rfc3339,
    layout::wrapped,
    printable::{json, printable},
};
use crate::message::{Level, Message, PREFIX_LEN};

choices! {
    /// How messages are written.
    pub(crate) enum LogFormat = Text {
        /// A line of text; in the journal, with its level.
        Text = "text",
        /// A JSON object on one line: time, level, code and text.
        Json = "json",
    }
}

/// A message as `--log json` writes it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MessageRecord<'a> {
    /// When it was written: UTC, in the format of RFC 3339.
    time: String,
    /// How serious it is.
    level: Level,
    /// What it is about: a topic, or the code of a diagnostic; null for other messages.
    code: Option<&'a str>,
    /// The message, for people; the wording may change.
    text: &'a str,
}

/// Whether messages are JSON. Process-wide, like standard error.
static JSON: AtomicBool = AtomicBool::new(false);
/// Whether standard error is connected to the journal, which says so in this variable (systemd.exec(5)).
static JOURNAL: LazyLock<bool> =
    LazyLock::new(|| env::var("JOURNAL_STREAM").is_ok_and(|stream| is_stderr(&stream)));

/// Chooses how messages are written from now on. Call it before the sandbox restricts access to files.
pub(crate) fn set_format(format: LogFormat) {
    JSON.store(format == LogFormat::Json, Ordering::Relaxed);
    LazyLock::force(&JOURNAL);
}

/// Whether messages are JSON.
pub(super) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// A message in the form for standard error, with its line break. `columns`: the width of its terminal;
/// `None` without one.
pub(super) fn shaped(message: &Message, columns: Option<usize>) -> String {
    match columns {
        _ if is_json() => as_json(message, SystemTime::now()),
        // Continuation lines are indented to the text behind the prefix.
        Some(columns) => wrapped(&printable(&message.to_string()), columns, PREFIX_LEN) + "\n",
        None if *JOURNAL => with_priority(message),
        None => format!("{}\n", printable(&message.to_string())),
    }
}

fn with_priority(message: &Message) -> String {
    format!("<{}>{}\n", message.level().priority(), printable(&message.to_string()))
}

fn as_json(message: &Message, now: SystemTime) -> String {
    let (level, code, text) = (message.level(), message.code(), message.text());
    json(&MessageRecord { time: rfc3339(now), level, code, text })
}

/// Whether standard error is the stream with this device and inode: `8:1234`.
fn is_stderr(stream: &str) -> bool {
    let Ok(stderr) = fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", stderr.st_dev(), stderr.st_ino())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::message::Topic;

    #[test]
    fn a_message_has_its_level_in_every_format() {
        let lost = Message::warning("eth1 lost 3 packets").about(Topic::Lost);
        assert_eq!(with_priority(&lost), "<4>wirecap: WARNING: eth1 lost 3 packets\n");
        assert_eq!(
            as_json(&lost, UNIX_EPOCH + Duration::from_secs(1)),
            "{\"time\":\"1970-01-01T00:00:01.000Z\",\"level\":\"warning\",\"code\":\"lost\",\"text\":\"eth1 lost 3 packets\"}\n"
        );
        assert_eq!(with_priority(&Message::note("x")), "<6>wirecap: x\n");
        assert_eq!(with_priority(&Message::error("x")), "<3>wirecap: x\n");
        assert!(as_json(&Message::error("x"), UNIX_EPOCH).contains("\"level\":\"error\",\"code\":null"));
    }

    #[test]
    fn foreign_text_begins_no_line_of_its_own() {
        let message = Message::note("a\n<0>b\u{1b}[31m");
        assert_eq!(with_priority(&message), "<6>wirecap: a\\n<0>b\\u{1b}[31m\n");
        let json = as_json(&message, UNIX_EPOCH);
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        assert!(!json.contains('\u{1b}'), "{json}");
        let narrow = shaped(&message, Some(8));
        assert!(narrow.lines().skip(1).all(|line| line.starts_with("         ")), "{narrow}");
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let stderr = fs::metadata("/proc/self/fd/2").unwrap();
        let (device, inode) = (stderr.st_dev(), stderr.st_ino());
        assert!(is_stderr(&format!("{device}:{inode}")));
        for other in [format!("{device}:{}", inode + 1), String::new(), "x".into()] {
            assert!(!is_stderr(&other), "{other}");
        }
    }
}
