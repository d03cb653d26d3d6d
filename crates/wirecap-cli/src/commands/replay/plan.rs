//! From flags to a plan: checks the command line, then what depends on the machine.

use std::num::NonZeroU64;

use anyhow::{Result, anyhow, ensure};
use wirecap::{HostView, PassiveReason};
use wirecap_replay::{Limits, Plan, Speed, Timing};
use wirecap_sys::memory::available;

use super::flags::ReplayFlags;
use crate::flags::SendMode;

/// Default memory for cells, if twice that is available.
const MEMORY_BYTES: u64 = 1 << 30;
/// The least memory for cells, enough for streaming.
const MIN_MEMORY: u64 = 1 << 20;

/// A checked plan.
#[derive(Debug)]
pub(super) struct ReplayPlan {
    pub(super) plan: Plan,
    /// Why zero-copy is not tried; `None` if it is.
    pub(super) spared: Option<PassiveReason>,
}

/// # Errors
/// [`Usage`](crate::exit::Usage); and if there is no such interface.
pub(super) fn plan(flags: &ReplayFlags) -> Result<ReplayPlan> {
    let (files, interface) = flags.files_and_interface()?;
    let speed = speed(flags);
    let recorded = matches!(speed, Speed::Recorded { .. });
    for (given, name) in [(flags.max_gap.is_some(), "--max-gap"), (flags.loop_gap.is_some(), "--loop-gap")] {
        ensure!(recorded || !given, usage!("{name} is for recorded times: leave it out, or use --speed"));
    }
    ensure!(
        flags.loop_gap.is_none() || flags.loops != 1,
        usage!("--loop-gap has no effect with one pass: leave it out, or use --loops")
    );
    ensure!(!flags.align || files.len() != 1, usage!("--align has no effect on one file: leave it out"));
    let memory_bytes = memory(flags.memory)?;
    let spared = spared(flags, interface)?;
    let nanoseconds = |gap: std::time::Duration| u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
    let plan = Plan {
        files: files.to_vec(),
        timing: Timing { align: flags.align, longest_gap_ns: flags.max_gap.map(nanoseconds) },
        interface: interface.to_owned(),
        speed,
        placement: flags.queues.clone(),
        passes: (flags.loops > 0).then_some(flags.loops),
        pass_gap_ns: flags.loop_gap.map(nanoseconds),
        limits: Limits { count: flags.count, duration: flags.limit.duration },
        cut: flags.truncated,
        memory_bytes,
        mode: SendMode::bind(flags.send.tx_mode, spared.is_some()),
        core: flags.send.core,
    };
    Ok(ReplayPlan { plan, spared })
}

/// Why zero-copy is not tried, for the sake of the host.
fn spared(flags: &ReplayFlags, interface: &str) -> Result<Option<PassiveReason>> {
    Ok(match flags.send.tx_mode {
        None => HostView::read()?.choose(interface)?.against_zero_copy_sending(),
        Some(_) => None,
    })
}

fn speed(flags: &ReplayFlags) -> Speed {
    let number = |value: Option<u64>| value.and_then(NonZeroU64::new);
    match (number(flags.speed), number(flags.pps), number(flags.bps), flags.top_speed) {
        (Some(millionths), ..) => Speed::Recorded { millionths },
        (None, Some(per_second), ..) => Speed::Packets { per_second },
        (None, None, Some(per_second), _) => Speed::Bits { per_second },
        (None, None, None, true) => Speed::Top,
        (None, None, None, false) => Speed::recorded(),
    }
}

/// The requested memory, if it is available; by default [`MEMORY_BYTES`], or half of the available memory.
fn memory(wanted: Option<u64>) -> Result<u64> {
    let available = available().map(|available| available.bytes);
    match (wanted, available) {
        (Some(wanted), _) if wanted < MIN_MEMORY => Err(usage!("--memory must be at least 1M").into()),
        (Some(wanted), Some(available)) if wanted > available => Err(anyhow!(
            "--memory of {} MiB is more than the {} MiB of available memory; give less: a trace that needs more is read while \
             it is sent",
            wanted >> 20,
            available >> 20
        )),
        (Some(wanted), _) => Ok(wanted),
        (None, available) => {
            Ok(available.map_or(MEMORY_BYTES, |available| MEMORY_BYTES.min(available / 2)).max(MIN_MEMORY))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{Command, Flags};

    fn planned(arguments: &str) -> Result<Plan, String> {
        planned_of(&format!("a.pcap -i lo {arguments}"))
    }

    fn planned_of(words: &str) -> Result<Plan, String> {
        let words = format!("wirecap replay {words}");
        let flags = Flags::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        match flags.command {
            Command::Replay(flags) => {
                plan(&flags).map(|planned| planned.plan).map_err(|error| error.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_interface_is_that_of_the_flag_or_the_last_word() {
        let of = |words| planned_of(words).map(|plan| (plan.files.len(), plan.interface));
        for words in
            ["a.pcap b.pcap -i lo", "a.pcap b.pcap lo", "a.pcap -i lo b.pcap", "- a.pcap lo --loops 2"]
        {
            assert_eq!(of(words), Ok((2, "lo".into())), "{words}");
        }
        for words in ["a.pcap", "a.pcap b.pcap", "a.pcap -", "lo"] {
            let refused = of(words).unwrap_err();
            assert!(refused.contains("name it after the files, or with -i"), "{words}: {refused}");
        }
    }

    #[test]
    fn only_one_speed_can_be_given() {
        let speed = |arguments| planned(arguments).map(|plan| plan.speed);
        let number = |number| NonZeroU64::new(number).unwrap();
        assert_eq!(speed(""), Ok(Speed::recorded()));
        assert_eq!(speed("--speed 10"), Ok(Speed::Recorded { millionths: number(10_000_000) }));
        assert_eq!(speed("--pps 10k"), Ok(Speed::Packets { per_second: number(10_000) }));
        assert_eq!(speed("--bps 1.5G"), Ok(Speed::Bits { per_second: number(1_500_000_000) }));
        assert_eq!(speed("--top-speed"), Ok(Speed::Top));
        for two in ["--speed 2 --pps 3", "--pps 1 --bps 2", "--bps 2 --top-speed"] {
            assert!(speed(two).is_err(), "{two}");
        }
    }

    #[test]
    fn flags_without_effect_are_refused() {
        for (arguments, words) in [
            ("--pps 5 --max-gap 1s", "--max-gap is for recorded times"),
            ("--top-speed --loops 2 --loop-gap 1s", "--loop-gap is for recorded times"),
            ("--loop-gap 1s", "no effect with one pass"),
            ("--align", "no effect on one file"),
            ("--memory 4K", "at least 1M"),
            ("--memory 900T", "read while it is sent"),
        ] {
            let error = planned(arguments).expect_err(arguments);
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(planned("--loops 0").unwrap().passes, None);
        assert_eq!(planned("--loops 3 --loop-gap 0").unwrap().pass_gap_ns, Some(0));
    }
}
