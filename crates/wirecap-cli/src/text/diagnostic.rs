//! Diagnostics of the library in words, each with the flag or the command that helps.
//!
//! Rule: each is worded here and nowhere else, without the name of its port, which the printed line begins
//! with. What is printed at the start, while a capture runs, at its end and in `--json` is the same sentence.

use wirecap::{
    Diagnostic, Timestamp,
    diagnostic::{Advice, KernelRefusal, ModeRefusal, Recovery, TooLong},
    report::{BeyondLimit, LengthLimit},
};

use super::{
    host_use, numbered,
    plural::{counted, is, was},
    report,
};

/// Cells of this size hold any frame of an MTU of 1500, whatever the driver.
const LARGE_CELL_BYTES: u32 = 4096;

/// A diagnostic in words.
pub(crate) fn describe(diagnostic: &Diagnostic) -> String {
    let families = [opening, modes, filter, tags, times, memory, changes, endings];
    let text = families.iter().find_map(|family| family(diagnostic));
    text.unwrap_or_else(|| diagnostic.code().replace('_', " "))
}

/// Of the way in which a port is opened.
fn opening(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::Passive { reason } => {
            format!("captured beside the host, since {}", host_use::reason(reason))
        }
        Diagnostic::XdpProgramFirst { program_id, program } => format!(
            "the XDP program {} (id {program_id}) gets packets first: those that it takes or drops are not captured",
            program.as_deref().unwrap_or("?")
        ),
        Diagnostic::FarMemory { node, cause } => {
            format!("its pools may not be on memory node {node}, the NIC's: {cause}")
        }
        Diagnostic::LinkNotWatched { queues, cause } => {
            let queues = if *queues { ", and receive queues that are added," } else { "" };
            format!("packets that the NIC drops{queues} are not reported: {cause}")
        }
        Diagnostic::QueueDoesNotSend { queue, transmit_queues } => format!(
            "queue {queue} does not send: {} {} in use; `ethtool -L` gives it more",
            counted(*transmit_queues, "transmit queue"),
            is(*transmit_queues)
        ),
        Diagnostic::PacketsTooLong { limit, reason } => too_long(*limit, *reason),
        _ => return None,
    })
}

/// Which packets are too long, why, and the remedy.
fn too_long(LengthLimit { bytes, beyond }: LengthLimit, reason: TooLong) -> String {
    let fate = match beyond {
        BeyondLimit::Cut => "cut",
        BeyondLimit::Lost => "lost (too_long)",
    };
    let reason = match reason {
        TooLong::NotSplit { cell_bytes } => {
            let remedy = match cell_bytes < LARGE_CELL_BYTES {
                true => "--cell-bytes 4096 has room for longer ones",
                false => "a driver with multi-buffer XDP would split them",
            };
            format!("this interface does not split packets over several cells; {remedy}")
        }
        TooLong::SmallChunks { cells_per_chunk, least } => {
            format!(
                "packets of several cells need an M of {least}, and M is {cells_per_chunk}; write -M {least}"
            )
        }
        TooLong::SmallBlocks { cells_per_chunk } => {
            format!("a block of M = {cells_per_chunk} cells holds no more; raise -M")
        }
        TooLong::SmallPool => "M or R is small; -M 256 takes all".into(),
        _ => "the port takes no longer ones".into(),
    };
    format!("packets longer than {bytes} bytes will be {fate}: {reason}")
}

/// Of the modes of AF_XDP.
fn modes(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::ModeUnavailable { mode, several_cells, reason } => {
            let split = if *several_cells { " with packets of several cells" } else { "" };
            format!("{}{split} is not available: {}", mode.as_str(), mode_refusal(reason))
        }
        Diagnostic::SharedXdpMode { wanted, shared } => format!(
            "{wanted} XDP is not available: the processes that share the interface do so in {shared} mode"
        ),
        Diagnostic::SharedWithoutFrames => {
            "frames that the driver would give in several buffers do not come: the process that shared the interface first does \
             not take them"
                .into()
        }
        _ => return None,
    })
}

fn mode_refusal(reason: &ModeRefusal) -> String {
    match reason {
        ModeRefusal::NotOffered => "the driver does not offer it".into(),
        ModeRefusal::ShortCells { driver, cell_bytes, room, longest } => {
            let remedy = match *cell_bytes < LARGE_CELL_BYTES {
                true => "; use cells of 4096 bytes (--cell-bytes 4096)",
                false => "",
            };
            format!(
                "{driver} fills cells of {cell_bytes} bytes with {room} bytes of a frame at most, and frames here have up to \
                 {longest}{remedy}"
            )
        }
        ModeRefusal::NoRxHash => "drivers hand out the NIC's hash in native mode only".into(),
        ModeRefusal::Failed(cause) => cause.to_string(),
        _ => "no reason is known".into(),
    }
}

/// Of where the filter runs, and what it sees.
fn filter(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::FilterNotInKernel { reason, interpreted, drops_unwanted } => {
            let interpreted = interpreted.as_ref().map(|cause| format!("; {cause}")).unwrap_or_default();
            let dropped = match drops_unwanted {
                true => "; packets it does not want are dropped, not left to the host",
                false => "",
            };
            format!("the filter is not in the kernel: {}{interpreted}{dropped}", kernel_refusal(reason))
        }
        Diagnostic::FilterInterpreted { cause } => cause.to_string(),
        Diagnostic::FilterDropsLongPackets => {
            "packets that the filter can judge only by what is behind their first buffer are dropped if it does not want them, \
             not left to the host"
                .into()
        }
        Diagnostic::FilterInboundOnly => {
            "packets that the host sends are not seen over AF_XDP: `inbound` holds for all, `outbound` for none".into()
        }
        _ => return None,
    })
}

fn kernel_refusal(reason: &KernelRefusal) -> String {
    match reason {
        KernelRefusal::OffsetTooFar { end, limit } => {
            format!("it looks at byte {end} of a packet, and the kernel's instructions reach {limit}")
        }
        KernelRefusal::Loops => {
            "the filter loops (protochain), and the kernel's verifier takes no loops".into()
        }
        KernelRefusal::NotPermitted => "that takes CAP_PERFMON, which this process lacks".into(),
        KernelRefusal::Rejected(cause) => format!("the verifier refuses it ({cause})"),
        KernelRefusal::Failed(cause) => cause.to_string(),
        _ => "no reason is known".into(),
    }
}

/// Of VLAN tags that the NIC takes off.
fn tags(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::VlanTagsNotPutBack { cause } => {
            format!("VLAN tags that are beside the packets cannot be put back into them: {cause}")
        }
        Diagnostic::VlanTagsMissing { interface } => format!(
            "VLAN tags are missing from packets: the NIC takes them off before XDP sees them; to have them: ethtool -K {interface} \
             rxvlan off"
        ),
        Diagnostic::Untagged { packets } => format!(
            "{} came without the VLAN tag that the NIC had taken off: it could not be put back",
            counted(*packets, "packet")
        ),
        _ => return None,
    })
}

/// Of the times of packets.
fn times(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::OtherTimestamps { wanted, used: Timestamp::File } => {
            format!("the file's timestamps, not {} ones", wanted.as_str())
        }
        Diagnostic::OtherTimestamps { wanted, used } => format!(
            "{} timestamps instead of {}: beside the host each packet has its own anyway",
            used.as_str(),
            wanted.as_str()
        ),
        Diagnostic::LeapSecondsExpired { until } => {
            format!("leap seconds are known until {until} only: update the package tzdata")
        }
        Diagnostic::Unstamped { source, packets } => format!(
            "{} had no {} time and {} the time at which the batch was seen",
            counted(*packets, "packet"),
            source.as_str(),
            if *packets == 1 { "bears" } else { "bear" }
        ),
        Diagnostic::ClockSet { clock } => format!("the clock that stamps was set: {}", report::clock(clock)),
        Diagnostic::StampingLeftOn { cause } => format!("its NIC goes on stamping every packet: {cause}"),
        _ => return None,
    })
}

/// Of the packet memory.
fn memory(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::HugePagesShort { needed, reserved, free } => format!(
            "{needed} huge pages are needed, and {free} of the {reserved} that are reserved (vm.nr_hugepages) are free"
        ),
        Diagnostic::ControlGroupUnseen { group } => format!(
            "whether the control group {} limits memory cannot be seen: the files of control groups are not mounted here",
            group.display()
        ),
        Diagnostic::MemoryAdviceRefused { advice, cause } => match advice {
            Advice::HugePages => format!("transparent huge pages are not available: {cause}"),
            Advice::NotInChildren => format!("keeping the memory out of child processes failed: {cause}"),
            Advice::NotInCoreDumps => format!("keeping the packets out of core dumps failed: {cause}"),
        },
        _ => return None,
    })
}

/// Of what others do while a capture runs.
fn changes(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::QueuesNotCaptured { captured, queues } => {
            format!(
                "the interface has {} now, of which {captured} {} captured: packets of {} go to the host; start the capture anew \
                 to have them, or take the queues away (ethtool -L)",
                counted(*queues, "receive queue"),
                is(*captured),
                numbered("queue", *captured..*queues)
            )
        }
        Diagnostic::QueuesGone { queues } => format!(
            "the interface has {} now, and nothing comes from those that were taken away",
            counted(*queues, "receive queue")
        ),
        Diagnostic::Detached { recovery } => format!(
            "the XDP program was taken off by force; packets went to the host, uncounted, {}",
            until(recovery, "attached again")
        ),
        Diagnostic::QueuesLost { queues, recovery } => format!(
            "the program was taken out of the table of the processes that share the interface; packets of {} went to the host, \
             uncounted, {}",
            numbered("queue", queues.iter()),
            until(recovery, "put back")
        ),
        Diagnostic::RssChanged { recovery: Recovery::Failed(cause) } => format!(
            "RSS is not symmetric any more, since another program has changed it ({cause}): both directions of a connection may \
             come in by different queues"
        ),
        Diagnostic::RssChanged { .. } => {
            "another program has put RSS back: for about a second, until it was set again, both directions of a connection may \
             have come in by different queues"
                .into()
        }
        _ => return None,
    })
}

/// How long a loss lasted that ends once a thing is `again`.
fn until(recovery: &Recovery, again: &str) -> String {
    match recovery {
        Recovery::Restored => format!("until it was {again} about a second later"),
        Recovery::Failed(cause) => format!("since then, as it cannot be {again}: {cause}"),
        _ => "from then to the end".into(),
    }
}

/// Of packets that are missing at the end.
fn endings(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::EndNotAwaited => {
            "the end is not exact: this kernel cannot wait for packets on their way (membarrier, not with nohz_full)".into()
        }
        Diagnostic::LastBlockKept => {
            "the end is not exact: the kernel has kept its last block of packets".into()
        }
        Diagnostic::TracePacketsLost { packets, longest } => format!(
            "{} {} longer than {longest} bytes and {} lost; raise -M (and -R to 2 or more)",
            counted(*packets, "packet"),
            is(*packets),
            was(*packets)
        ),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "diagnostic_tests.rs"]
mod tests;
