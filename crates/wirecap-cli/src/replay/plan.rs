//! From flags to a plan of the replay: what the command line alone can get wrong, and what depends on the machine.

use std::num::NonZeroU64;

use anyhow::{Result, anyhow};
use wirecap::HostView;
use wirecap_replay::{Cut, Limits, Placement, Plan, Speed, Timing};
use wirecap_sys::{memory::available, netdev, xsk::BindChoice};

use super::{
    flags::{ReplayFlags, TruncatedFlag},
    values::Where,
};
use crate::{exit::Usage, flags::SendModeFlag, text};

/// Memory for cells unless the user says otherwise, and there is less than twice that.
const MEMORY_BYTES: u64 = 1 << 30;
/// Less is not worth the name, and too little to stream.
const LEAST_MEMORY: u64 = 1 << 20;

/// A plan that makes sense.
///
/// # Errors
/// [`Usage`]; and if there is no such interface.
pub(super) fn plan(flags: &ReplayFlags) -> Result<Plan> {
    let speed = speed(flags);
    let recorded = matches!(speed, Speed::Recorded { .. });
    for (given, name) in [(flags.max_gap.is_some(), "--max-gap"), (flags.loop_gap.is_some(), "--loop-gap")] {
        if given && !recorded {
            return Err(
                Usage(format!("{name} is for the recorded times: leave it out, or use --speed")).into()
            );
        }
    }
    if flags.loop_gap.is_some() && flags.loops == 1 {
        return Err(
            Usage("--loop-gap has no effect with one pass: leave it out, or use --loops".into()).into()
        );
    }
    if flags.align && flags.files.len() == 1 {
        return Err(Usage("--align has no effect on one file: leave it out".into()).into());
    }
    let memory_bytes = memory(flags.memory)?;
    let (mode, fallbacks) = mode(flags)?;
    let nanoseconds = |gap: std::time::Duration| u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
    Ok(Plan {
        files: flags.files.clone(),
        timing: Timing { align: flags.align, longest_gap_ns: flags.max_gap.map(nanoseconds) },
        interface: flags.interface.clone(),
        speed,
        placement: placement(flags)?,
        passes: (flags.loops > 0).then_some(flags.loops),
        pass_gap_ns: flags.loop_gap.map(nanoseconds),
        limits: Limits { count: flags.count, duration: flags.limit.duration },
        cut: match flags.truncated {
            TruncatedFlag::Send => Cut::Send,
            TruncatedFlag::Pad => Cut::Pad,
            TruncatedFlag::Skip => Cut::Skip,
        },
        memory_bytes,
        mode,
        fallbacks,
        core: flags.send.core,
    })
}

/// How packets get to the driver, and what was not tried for the host's sake.
fn mode(flags: &ReplayFlags) -> Result<(BindChoice, Vec<String>)> {
    let host_use = match flags.send.tx_mode {
        None => HostView::read()?.choose(&flags.interface)?.against_zero_copy_sending(),
        Some(_) => None,
    };
    let mode = SendModeFlag::bind(flags.send.tx_mode, host_use.is_some());
    let fallback = host_use.map(|reason| {
        format!(
            "copy: the kernel copies each packet; zero-copy is left alone, since {}",
            text::host_use::reason(&reason)
        )
    });
    Ok((mode, Vec::from_iter(fallback)))
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

fn placement(flags: &ReplayFlags) -> Result<Placement> {
    let queues = |set: &Option<wirecap::QueueSet>| match set {
        Some(set) => Ok(set.iter().collect()),
        None => all_queues(&flags.interface),
    };
    Ok(match &flags.queues {
        Where::One(queue) => Placement::One(*queue),
        Where::Flow(set) => Placement::Flow(queues(set)?),
        Where::RoundRobin(set) => Placement::RoundRobin(queues(set)?),
        Where::Side(path) => Placement::Side(path.clone()),
    })
}

fn all_queues(interface: &str) -> Result<Vec<u16>> {
    let interface = netdev::interface(interface)?;
    let queues = netdev::transmit_queues(&interface.name)?.unwrap_or(interface.queues.current);
    Ok((0..u16::try_from(queues).unwrap_or(u16::MAX)).collect())
}

/// What was asked for, if there is so much; else [`MEMORY_BYTES`], or half of what is available.
fn memory(wanted: Option<u64>) -> Result<u64> {
    let available = available().map(|available| available.bytes);
    match (wanted, available) {
        (Some(wanted), _) if wanted < LEAST_MEMORY => {
            Err(Usage("--memory has to be 1M at least".into()).into())
        }
        (Some(wanted), Some(available)) if wanted > available => Err(anyhow!(
            "--memory of {} MiB is more than the {} MiB of memory that are available; ask for less: a trace that needs more is \
             read while it is sent",
            wanted >> 20,
            available >> 20
        )),
        (Some(wanted), _) => Ok(wanted),
        (None, available) => {
            Ok(available.map_or(MEMORY_BYTES, |available| MEMORY_BYTES.min(available / 2)).max(LEAST_MEMORY))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Command, Flags};

    fn planned(arguments: &str) -> Result<Plan, String> {
        let words = format!("wirecap replay a.pcap -i lo {arguments}");
        let flags = Flags::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        match flags.command {
            Command::Replay(flags) => plan(&flags).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn there_is_one_speed() {
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
            ("--pps 5 --max-gap 1s", "--max-gap is for the recorded times"),
            ("--top-speed --loops 2 --loop-gap 1s", "--loop-gap is for the recorded times"),
            ("--loop-gap 1s", "no effect with one pass"),
            ("--align", "no effect on one file"),
            ("--memory 4K", "1M at least"),
            ("--memory 900T", "read while it is sent"),
        ] {
            let error = planned(arguments).expect_err(arguments);
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(planned("--loops 0").unwrap().passes, None);
        assert_eq!(planned("--loops 3 --loop-gap 0").unwrap().pass_gap_ns, Some(0));
    }
}
