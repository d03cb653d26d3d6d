//! The lines before the first packet.

use wirecap::PassiveReason;
use wirecap_replay::{Replay, Storage, Tally};
use wirecap_send::SendDiagnostic;

use crate::text::{
    numbered,
    plural::counted,
    sending::{Fallback, describe},
    units::{length, size},
};

/// Prints what will be sent, from where, and what will differ from the files.
pub(super) fn start(replay: &Replay, spared: Option<&PassiveReason>, quiet: bool) {
    if !quiet {
        for fact in place(replay, spared).into_iter().chain(held(replay)) {
            note!("{fact}");
        }
    }
    let Some((_, tally, failures)) = replay.pass().filter(|_| !quiet) else { return };
    for warning in warnings(&tally, true, &replay.interface().name) {
        warn!("{warning}");
    }
    for failure in failures {
        warn!("{}", failure.text);
    }
}

/// The queues that send, their mode, and why not a better one.
fn place(replay: &Replay, spared: Option<&PassiveReason>) -> Vec<String> {
    let interface = replay.interface();
    let (name, driver) =
        (&interface.name, interface.driver.as_ref().map_or("no driver", |driver| driver.name.as_str()));
    let queues = replay.queues();
    let mode = queues.first().map_or("", |(_, mode)| *mode);
    let queues = numbered("queue", queues.iter().map(|(queue, _)| *queue));
    let place = format!("{name} ({driver}), transmit {queues}: AF_XDP, {mode}");
    let fallbacks = fallbacks(spared, replay.fallbacks());
    let fallbacks = fallbacks.iter().map(|fallback| format!("{name}: {}", describe(fallback)));
    [place].into_iter().chain(fallbacks).collect()
}

/// Requests that were not met: not tried for the sake of the host, or failed.
pub(super) fn fallbacks(spared: Option<&PassiveReason>, failed: &[SendDiagnostic]) -> Vec<Fallback> {
    let spared = spared.cloned().map(|reason| Fallback::ZeroCopySpared { reason });
    spared.into_iter().chain(failed.iter().cloned().map(Fallback::Sending)).collect()
}

/// Where the trace is kept.
fn held(replay: &Replay) -> Vec<String> {
    match (replay.held(), replay.pass()) {
        (Storage::Preloaded { cells_bytes, copies }, Some((frames, ..))) => {
            let copies = if copies > 1 { format!(", in {copies} copies") } else { String::new() };
            let size = size(cells_bytes);
            let takes = replay.planned().map(|planned| format!("it will take {}", length(planned)));
            let held = format!("{frames} packets per pass, all of them in cells ({size}{copies})");
            [held].into_iter().chain(takes).collect()
        }
        (held, _) => {
            let cells = match held {
                Storage::Preloaded { cells_bytes, .. } | Storage::Streamed { cells_bytes, .. } => cells_bytes,
            };
            vec![format!("read during sending, and copied into cells ({}) ahead of time", size(cells))]
        }
    }
}

/// Warnings about packets that are not sent as they are in the files, and about their times. If `is_whole`,
/// the tally is of the whole files, otherwise of what was read.
pub(super) fn warnings(tally: &Tally, is_whole: bool, interface: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |packets: u64, words: String| {
        if packets > 0 {
            warnings.push(format!("{} {words}", counted(packets, "packet")));
        }
    };
    let (for_mtu, mtu) = (tally.too_long - tally.oversized, tally.mtu_needed);
    warn(
        for_mtu,
        format!("skipped, longer than {interface} sends; ip link set {interface} mtu {mtu} would allow them"),
    );
    warn(tally.oversized, format!("skipped, longer than {interface} can send with any MTU"));
    warn(tally.too_short, "skipped, shorter than an Ethernet header".into());
    warn(tally.cut, "of which the files have only the beginning (snapshot length); see --truncated".into());
    warn(tally.times.untimed, "without a time: sent with the packet before".into());
    warn(
        tally.times.backwards,
        format!("after a later one: sent at once ({} where the clock was set back)", tally.times.clock_steps),
    );
    warn(tally.shortened, "sent sooner, after gaps that were cut to --max-gap".into());
    if is_whole && tally.packets == 0 {
        warnings.push("there are no packets in the files".into());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_from_the_file_are_reported_with_remedies() {
        let fine = Tally { packets: 5, ..Tally::default() };
        assert!(warnings(&fine, true, "eth1").is_empty());
        let tally = Tally {
            too_long: 8,
            oversized: 5,
            mtu_needed: 9_000,
            too_short: 1,
            cut: 2,
            shortened: 4,
            ..fine
        };
        let said = warnings(&tally, true, "eth1").join("\n");
        for words in [
            "3 packets",
            "ip link set eth1 mtu 9000",
            "5 packets skipped, longer than eth1 can send with any MTU",
            "shorter than an Ethernet header",
            "--truncated",
            "--max-gap",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn only_files_read_to_their_end_are_called_empty() {
        assert_eq!(warnings(&Tally::default(), true, "eth1"), ["there are no packets in the files"]);
        assert!(warnings(&Tally::default(), false, "eth1").is_empty());
    }
}
