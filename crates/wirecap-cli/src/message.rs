//! Messages about what happens: a text, a level and a topic.
//!
//! Rule: the level of a message is a separate field, never only part of its text. The account is a result,
//! not a message.

use std::fmt;

use wirecap_core::choices;

const PREFIX: &str = "wirecap: ";
/// The columns of what every message begins with.
pub(crate) const PREFIX_LEN: usize = PREFIX.len();

choices! {
    /// How serious a message is.
    pub(crate) enum Level {
        /// The command fails.
        Error = "error",
        /// Packets are or may be lost, or something is not as it should be.
        Warning = "warning",
        /// What happens.
        Note = "info",
    }
}

impl Level {
    /// The priority of syslog(3), as the journal takes it.
    pub(crate) fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Note => 6,
        }
    }
}

choices! {
    /// What a message is about, for programs; the codes of diagnostics come on top.
    pub(crate) enum Topic {
        /// A port lost packets.
        Lost = "lost",
        /// An interface is down.
        Down = "down",
        /// An interface has no carrier.
        NoCarrier = "no_carrier",
        /// An interface is up again.
        Up = "up",
        /// An interface is gone.
        Removed = "removed",
        /// A trace file is read.
        Read = "read",
        /// The host has begun to use an interface that is taken.
        InUse = "in_use",
        /// A setting was changed by `wirecap set`.
        Changed = "changed",
        /// `wirecap stop` ends the capture.
        Stopped = "stopped",
        /// The times of packets jumped: back, or far ahead.
        TimesJump = "times_jump",
        /// The figures of `--stats`, and how much is still to be written.
        Progress = "progress",
        /// The end waits for an output or a program that does nothing.
        Stalled = "stalled",
        /// A packet was not forwarded.
        Dropped = "dropped",
        /// An interface did not send what it was given.
        Unsent = "unsent",
        /// The output of `wirecap forward` did not take packets in time.
        NotTaken = "not_taken",
        /// A file was deleted while it was being written.
        Deleted = "deleted",
        /// The kernel's neighbour table is full.
        NeighbourTableFull = "neighbour_table_full",
    }
}

/// A message about what happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    level: Level,
    /// What it is about, for programs; `None` for messages without a code.
    code: Option<&'static str>,
    text: String,
}

impl Message {
    pub(crate) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, code: None, text: text.into() }
    }

    pub(crate) fn is_warning(&self) -> bool {
        self.level == Level::Warning
    }

    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self::new(Level::Note, text)
    }

    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self::new(Level::Warning, text)
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::new(Level::Error, text)
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same with its topic as code.
    pub(crate) fn about(self, topic: Topic) -> Self {
        self.with_code(topic.as_str())
    }

    /// The same with the code of a diagnostic.
    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn code(&self) -> Option<&'static str> {
        self.code
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PREFIX)?;
        if self.level == Level::Warning {
            formatter.write_str("WARNING: ")?;
        }
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use wirecap_core::Choice;

    use super::*;

    #[test]
    fn the_book_has_every_topic_and_level() {
        let book = include_str!("../../../docs/book/metrics.md");
        let names =
            Topic::ALL.iter().map(|topic| topic.name).chain(Level::ALL.iter().map(|level| level.name));
        for name in names {
            assert!(book.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn a_warning_is_marked() {
        assert_eq!(Message::warning("x").to_string(), "wirecap: WARNING: x");
        assert_eq!(Message::error("x").to_string(), "wirecap: x");
    }
}
