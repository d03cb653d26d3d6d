//! The texts of events: what happens to ports while a capture opens or runs.

use wirecap::{HostUse, PortEvent, QueueWait};

use super::diagnostic;
use crate::{
    message::{Message, Topic},
    text::host_use,
};

/// What events mean for a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consequences<'a> {
    /// What stops without a link.
    pub(crate) without_link: &'a str,
    /// What becomes of it when a port is removed.
    pub(crate) of_removal: &'a str,
}

/// The message about an event; `None` if it does not matter, because no user of the interface `is_deprived`
/// of packets.
pub(crate) fn describe(
    event: &PortEvent,
    Consequences { without_link: activity, of_removal }: Consequences<'_>,
    is_deprived: impl Fn(&HostUse) -> bool,
) -> Option<Message> {
    let note = |topic, text| Message::note(text).about(topic);
    Some(match event {
        PortEvent::Down(port) => {
            note(Topic::Down, format!("{port} is down; {activity} resumes when it comes back up"))
        }
        PortEvent::NoCarrier(port) => note(
            Topic::NoCarrier,
            format!("{port} has no carrier; {activity} resumes when the other end is connected and up again"),
        ),
        PortEvent::Up(port) => note(Topic::Up, format!("{port} is up")),
        PortEvent::Removed(port) => {
            let text = format!("{port} was removed, or moved to another network namespace; {of_removal}");
            Message::warning(text).about(Topic::Removed)
        }
        PortEvent::Read(port) => {
            note(Topic::Read, format!("{port} is read; the capture continues with the other ports"))
        }
        PortEvent::InUse { port, uses } => {
            Message::warning(host_use::begun(port, uses, is_deprived)?).about(Topic::InUse)
        }
        PortEvent::Warning { port, warning } => {
            Message::warning(format!("{port}: {}", diagnostic::describe(warning))).with_code(warning.code())
        }
    })
}

/// The text of a wait for a receive queue.
pub(crate) fn wait(QueueWait { interface, queue, timeout }: &QueueWait) -> String {
    format!(
        "another process has a socket on receive queue {queue} of {interface} but no XDP program there, so its capture is starting \
         or ending; waiting up to {} s for it",
        timeout.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wirecap::Diagnostic;

    use super::*;

    #[test]
    fn an_event_names_its_port_and_a_warning_is_the_diagnostic() {
        let consequences = |without_link| Consequences { without_link, of_removal: "all is lost" };
        let words = |event| describe(&event, consequences("capture"), |_| true).unwrap().to_string();
        assert_eq!(
            words(PortEvent::Down("in0".into())),
            "wirecap: in0 is down; capture resumes when it comes back up"
        );
        let no_carrier = PortEvent::NoCarrier("m1".into());
        assert_eq!(
            describe(&no_carrier, consequences("forwarding"), |_| true).unwrap().to_string(),
            "wirecap: m1 has no carrier; forwarding resumes when the other end is connected and up again"
        );
        assert_eq!(
            words(PortEvent::Removed("m1".into())),
            "wirecap: WARNING: m1 was removed, or moved to another network namespace; all is lost"
        );
        let warning = Diagnostic::QueuesGone { queues: 1 };
        let text = format!("wirecap: WARNING: in0: {}", diagnostic::describe(&warning));
        assert_eq!(words(PortEvent::Warning { port: "in0".into(), warning }), text);
    }

    #[test]
    fn a_wait_names_the_queue_and_the_longest_time() {
        let text = wait(&QueueWait { interface: "in0".into(), queue: 1, timeout: Duration::from_secs(3) });
        assert!(
            text.starts_with("another process has a socket on receive queue 1 of in0 but")
                && text.ends_with("waiting up to 3 s for it"),
            "{text}"
        );
    }
}
