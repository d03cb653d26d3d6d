//! Packets that were lost: how many, why, and what helps.
//!
//! Rule: a cause is a value until it is printed; its name, its reason and its remedy are only here.

use std::time::Duration;

use wirecap::{
    Diagnostic, LossCounts, Report,
    diagnostic::LengthLimitReason,
    report::{PortReport, QueueMode},
};

use wirecap_doctor::LossCause;

use crate::text::{diagnostic::LARGEST_CELL_BYTES, plural::was};

/// What the workers wait for, besides their own work, which decides what helps against a pool that is used
/// up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nothing: packets are only counted, or the output does not delay them.
    #[default]
    None,
    /// A file on a disk.
    File,
    /// A pipe, and the program that reads it.
    Pipe,
}

/// Packets that forwarding lost after they were captured, in the words of its table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForwardLosses {
    /// Dropped by wirecap, for a cause that is a loss.
    pub(crate) dropped: u64,
    /// Accepted by an interface that did not send them.
    pub(crate) unsent: u64,
}

impl ForwardLosses {
    pub(crate) fn total(self) -> u64 {
        self.dropped + self.unsent
    }

    /// Each count, and the lines of the account that have its details.
    fn describe(self) -> String {
        let counts = [
            (self.dropped, "dropped", "\"dropped from\" have the causes"),
            (self.unsent, "unsent", "\"did not send\" have the interfaces"),
        ];
        let counts = counts.into_iter().filter(|(packets, ..)| *packets > 0);
        let words = counts.map(|(packets, name, lines)| format!("{name} {packets} (the lines {lines})"));
        format!("after capture, {}", words.collect::<Vec<_>>().join(" and "))
    }
}

/// Packets that were lost, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// In the ports.
    lost: LossCounts,
    /// In the NIC or its driver, before the XDP program.
    dropped_before_xdp: u64,
    /// What packets that were too long did not fit into.
    bound: LengthBound,
}

/// What a packet has to fit into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LengthBound {
    /// A cell, which might be larger.
    #[default]
    Cell,
    /// A cell of the largest size.
    LargestCell,
    /// A chunk: packets of trace files.
    Chunk,
}

impl LengthBound {
    fn of(port: &PortReport) -> Self {
        let is_largest = |fallback: &Diagnostic| match fallback {
            Diagnostic::PacketsTooLong { reason: LengthLimitReason::NotSplit { cell_bytes }, .. } => {
                *cell_bytes >= LARGEST_CELL_BYTES
            }
            _ => false,
        };
        if port.queues.iter().all(|queue| queue.mode == QueueMode::Trace) {
            Self::Chunk
        } else if port.fallbacks.iter().any(is_largest) {
            Self::LargestCell
        } else {
            Self::Cell
        }
    }

    /// What a packet was that is too long, and the remedy.
    fn describe(self) -> &'static str {
        match self {
            Self::Cell => "longer than a cell: --cell-bytes 4096, or Linux 6.6 or newer",
            Self::LargestCell => {
                "longer than a cell: Linux 6.6 or newer and a driver with multi-buffer XDP, or a smaller MTU"
            }
            Self::Chunk => "longer than M cells: raise -M",
        }
    }
}

impl Losses {
    /// What a port has lost since the start.
    pub(crate) fn of_port(port: &PortReport) -> Self {
        Self {
            lost: port.total().lost,
            dropped_before_xdp: port.dropped_before_xdp,
            bound: LengthBound::of(port),
        }
    }

    /// What all ports have lost since the start.
    pub(crate) fn of(report: &Report) -> Self {
        let mut sum = Self::default();
        for losses in report.ports.iter().map(Self::of_port).filter(|losses| losses.total() > 0) {
            // If ports differ, the remedy is that for the first one.
            if sum.lost.too_long == 0 {
                sum.bound = losses.bound;
            }
            sum.lost += losses.lost;
            sum.dropped_before_xdp += losses.dropped_before_xdp;
        }
        sum
    }

    /// What was lost after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let (now, then) = (self.lost, before.lost);
        let lost = LossCounts {
            no_free_cell: now.no_free_cell.saturating_sub(then.no_free_cell),
            no_free_block: now.no_free_block.saturating_sub(then.no_free_block),
            rx_ring_full: now.rx_ring_full.saturating_sub(then.rx_ring_full),
            too_long: now.too_long.saturating_sub(then.too_long),
            left_at_stop: now.left_at_stop.saturating_sub(then.left_at_stop),
        };
        let dropped_before_xdp = self.dropped_before_xdp.saturating_sub(before.dropped_before_xdp);
        Self { lost, dropped_before_xdp, bound: self.bound }
    }

    pub(crate) fn total(&self) -> u64 {
        self.lost.total() + self.dropped_before_xdp
    }

    /// The causes: each with its name in the account, its packets, what happened, and the remedy. The process
    /// hardly ran for the time that it `stood`.
    fn causes(&self, output: Output, stood: Duration) -> [(&'static str, u64, String); 6] {
        let LossCounts { no_free_cell, no_free_block, rx_ring_full, too_long, left_at_stop } = self.lost;
        let helps = match output {
            Output::None => "raise -R, or have more workers",
            Output::File => "raise -R, or have more workers or a faster disk",
            Output::Pipe => "raise -R, or have more workers or a faster reader",
        };
        let used_up = match stood.is_zero() {
            true => format!("the pool was used up: {helps}"),
            false => format!(
                "the pool was used up, perhaps because the process hardly ran: see to that first, then {helps}"
            ),
        };
        let no_room = "the NIC or its driver had no room: raise -R, and its ring by ethtool -G";
        [
            ("no_free_cell", no_free_cell, used_up.clone()),
            ("no_free_block", no_free_block, used_up),
            ("rx_ring_full", rx_ring_full, "the kernel's ring was full: leave --ring out".into()),
            ("too_long", too_long, self.bound.describe().into()),
            ("left_at_stop", left_at_stop, "no worker took them before the end".into()),
            ("dropped_before_xdp", self.dropped_before_xdp, no_room.into()),
        ]
    }

    /// The causes that occurred and that settings of the machine may have.
    pub(crate) fn causes_on_machine(&self) -> Vec<LossCause> {
        let LossCounts { no_free_cell, no_free_block, rx_ring_full, too_long, .. } = self.lost;
        let causes = [
            (no_free_cell + no_free_block, LossCause::NoBuffer),
            (rx_ring_full, LossCause::RingFull),
            (too_long, LossCause::TooLong),
            (self.dropped_before_xdp, LossCause::BeforeXdp),
        ];
        causes.into_iter().filter(|(packets, _)| *packets > 0).map(|(_, cause)| cause).collect()
    }

    /// The causes that occurred, each with its packets, its reason and its remedy.
    pub(crate) fn describe(&self, output: Output, stood: Duration) -> String {
        let occurred = self.causes(output, stood).into_iter().filter(|(_, packets, _)| *packets > 0);
        let words = occurred.map(|(name, packets, reason)| format!("{name} {packets} ({reason})"));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The line on losses at the end; `None` without any. The process hardly ran for the time that it `stood`.
pub(crate) fn verdict(
    report: &Report,
    output: Output,
    stood: Duration,
    unforwarded: ForwardLosses,
) -> Option<String> {
    let losses = Losses::of(report);
    let lost = losses.total() + unforwarded.total();
    let early: u64 = report.ports.iter().map(|port| port.dropped_before_xdp).sum();
    let came = report.total().seen + early;
    let percent = 100.0 * lost as f64 / came.max(1) as f64;
    let mut words = losses.describe(output, stood);
    if unforwarded.total() > 0 {
        let separator = if words.is_empty() { "" } else { "; " };
        words += &format!("{separator}{}", unforwarded.describe());
    }
    let were = was(lost);
    (lost > 0).then(|| format!("{lost} of {came} packets {were} lost ({percent:.2} %): {words}"))
}

#[cfg(test)]
mod tests {
    use wirecap::{
        Capture,
        port::null::NullPort,
        report::{LengthLimit, LengthLimitPolicy},
    };

    use super::*;

    fn report(lost: LossCounts, dropped_before_xdp: u64) -> Report {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        report.ports[0].queues[1].account.lost = lost;
        report.ports[0].queues[0].account.seen = 1_000;
        report.ports[0].dropped_before_xdp = dropped_before_xdp;
        report
    }

    fn verdict(report: Report, stood: Duration) -> String {
        super::verdict(&report, Output::None, stood, ForwardLosses::default()).unwrap_or_default()
    }

    #[test]
    fn a_process_that_hardly_ran_is_told_before_the_remedy() {
        let lost = LossCounts { no_free_block: 3, too_long: 1, ..LossCounts::default() };
        let words = verdict(report(lost, 0), Duration::from_millis(13_400));
        let expected = "no_free_block 3 (the pool was used up, perhaps because the process hardly ran: see to that first, then \
                        raise -R, or have more workers), too_long 1 (longer";
        assert!(words.contains(expected), "{words}");
    }

    #[test]
    fn each_cause_has_its_reason_and_remedy() {
        let lost =
            LossCounts { no_free_cell: 30, no_free_block: 20, rx_ring_full: 2, too_long: 3, left_at_stop: 4 };
        let words = verdict(report(lost, 11), Duration::ZERO);
        for expected in [
            "70 of 1011 packets were lost (6.92 %)",
            "no_free_cell 30 (the pool was used up: raise -R",
            "no_free_block 20 (the pool was used up: raise -R",
            "rx_ring_full 2 (",
            "too_long 3 (longer than a cell: --cell-bytes 4096",
            "left_at_stop 4 (",
            "dropped_before_xdp 11 (",
        ] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
        // Each cause of the account has a reason and a remedy.
        let causes = Losses::default().causes(Output::None, Duration::ZERO).map(|(name, ..)| name);
        assert_eq!(LossCounts::default().causes().map(|(name, _)| name), *causes.first_chunk().unwrap());
    }

    #[test]
    fn a_trace_has_another_remedy() {
        let mut report = report(LossCounts { too_long: 1, ..LossCounts::default() }, 0);
        report.ports[0].queues.iter_mut().for_each(|queue| queue.mode = QueueMode::Trace);
        assert!(verdict(report, Duration::ZERO).contains("raise -M"));
    }

    #[test]
    fn cells_of_the_largest_size_are_not_advised_to_be_larger() {
        let mut report = report(LossCounts { too_long: 1, ..LossCounts::default() }, 0);
        let limit = LengthLimit { bytes: 3_840, beyond: LengthLimitPolicy::Lost };
        let with = |cell_bytes, report: &mut Report| {
            let reason = LengthLimitReason::NotSplit { cell_bytes };
            report.ports[0].fallbacks = vec![Diagnostic::PacketsTooLong { limit, reason }];
            verdict(report.clone(), Duration::ZERO)
        };
        assert!(with(2_048, &mut report).contains("--cell-bytes 4096"));
        let largest = with(4_096, &mut report);
        assert!(largest.contains("multi-buffer XDP") && !largest.contains("--cell-bytes"), "{largest}");
    }

    #[test]
    fn without_a_loss_there_is_no_line() {
        assert_eq!(verdict(report(LossCounts::default(), 0), Duration::from_secs(9)), "");
    }

    #[test]
    fn losses_of_forwarding_use_the_words_of_its_account() {
        let of = |dropped, unsent| {
            let lost = LossCounts { left_at_stop: 1, ..LossCounts::default() };
            let lost = report(lost, 0);
            super::verdict(&lost, Output::None, Duration::ZERO, ForwardLosses { dropped, unsent }).unwrap()
        };
        let both = "(no worker took them before the end); after capture, dropped 7 (the lines \"dropped from\" have the \
                    causes) and unsent 2 (the lines \"did not send\" have the interfaces)";
        assert!(of(7, 2).ends_with(both), "{}", of(7, 2));
        assert!(
            of(0, 2).ends_with("; after capture, unsent 2 (the lines \"did not send\" have the interfaces)")
        );
    }

    #[test]
    fn the_remedy_names_the_output_that_is_too_slow() {
        let losses = Losses::of(&report(LossCounts { no_free_cell: 1, ..LossCounts::default() }, 0));
        for (output, end) in [
            (Output::None, "or have more workers)"),
            (Output::File, "or have more workers or a faster disk)"),
            (Output::Pipe, "or have more workers or a faster reader)"),
        ] {
            assert!(losses.describe(output, Duration::ZERO).ends_with(end), "{output:?}");
        }
    }

    #[test]
    fn causes_that_the_machine_may_have_are_those_that_occurred() {
        let causes = |lost, before_xdp| Losses::of(&report(lost, before_xdp)).causes_on_machine();
        let lost = LossCounts { no_free_block: 2, too_long: 1, left_at_stop: 9, ..LossCounts::default() };
        assert_eq!(causes(lost, 0), [LossCause::NoBuffer, LossCause::TooLong]);
        assert_eq!(
            causes(LossCounts { rx_ring_full: 1, ..LossCounts::default() }, 3),
            [LossCause::RingFull, LossCause::BeforeXdp]
        );
        assert_eq!(causes(LossCounts { left_at_stop: 9, ..LossCounts::default() }, 0), []);
    }

    #[test]
    fn losses_are_counted_since_the_last_time() {
        let before = Losses::of(&report(LossCounts { no_free_cell: 5, ..LossCounts::default() }, 1));
        let now = Losses::of(&report(LossCounts { no_free_cell: 8, ..LossCounts::default() }, 1));
        assert_eq!(
            (now.since(&before).total(), before.since(&before).describe(Output::None, Duration::ZERO)),
            (3, String::new())
        );
    }
}
