//! What the end of a capture waits for, and how long the service manager is asked to wait with it.

use std::time::Duration;

use crate::message::{Message, Topic};

/// The limit while packets are still to be written, handled or printed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The limit while a file is closed, which an NFS server writes only then, or the command of `-z` runs, which
/// may compress a large file.
const FILE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// What the end of a capture waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited<'a> {
    /// That these outputs accept bytes.
    Output(&'a str),
    /// That they are closed, now that everything is written.
    Close(&'a str),
    /// That workers handle packets.
    Handling,
    /// That workers end, whose progress nothing shows.
    Workers,
    /// That tcpdump prints (`--print`).
    Printer,
    /// That the command of `-z` ends.
    Command,
}

impl Awaited<'_> {
    /// How long the service manager is asked to wait while nothing is done.
    pub(super) fn timeout(self) -> Duration {
        match self {
            Self::Output(_) | Self::Handling | Self::Printer => TIMEOUT,
            Self::Close(_) | Self::Command | Self::Workers => FILE_TIMEOUT,
        }
    }

    /// That it takes longer than the timeout; `grace` is the time until the service manager acts.
    pub(super) fn warning(self, grace: Duration) -> Message {
        let what = match self {
            Self::Output(name) => format!("{name} has accepted nothing"),
            Self::Close(name) => format!("{name} was not closed"),
            Self::Handling => "no packet was handled".into(),
            Self::Workers => "the workers have not ended".into(),
            Self::Printer => "tcpdump, which prints the packets, has not ended".into(),
            Self::Command => "the command of -z has not ended".into(),
        };
        let lost = match self {
            Self::Output(_) => "what is not written then is lost",
            Self::Close(_) => "the file then counts as incomplete",
            Self::Handling | Self::Workers => "what is not handled then is lost",
            Self::Printer => "what is not printed then is not shown",
            Self::Command => "then it has not run with all files, which are complete",
        };
        let (seconds, grace) = (self.timeout().as_secs(), grace.as_secs());
        let text = format!(
            "{what} for {seconds} s: the service manager is not asked to wait any more, and may end wirecap in \
             {grace} s; {lost}"
        );
        Message::warning(text).about(Topic::Stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_what_hangs_and_what_becomes_of_it() {
        let text = |awaited: Awaited| awaited.warning(Duration::from_secs(30)).to_string();
        assert_eq!(
            text(Awaited::Output("x.pcapng")),
            "wirecap: WARNING: x.pcapng has accepted nothing for 60 s: the service manager is not asked to wait any \
             more, and may end wirecap in 30 s; what is not written then is lost"
        );
        assert!(
            text(Awaited::Close("x.pcapng"))
                .starts_with("wirecap: WARNING: x.pcapng was not closed for 900 s")
        );
        assert!(text(Awaited::Printer).contains("has not ended for 60 s"));
        assert!(text(Awaited::Command).contains("the command of -z has not ended for 900 s"));
        assert!(text(Awaited::Handling).ends_with("what is not handled then is lost"));
    }
}
