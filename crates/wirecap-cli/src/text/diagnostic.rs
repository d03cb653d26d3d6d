//! The texts of the library's diagnostics, each with the flag or the command that helps.
//!
//! Rule: each diagnostic has its text here and nowhere else, without the name of its port, which begins the
//! printed line. The start, the running capture, the account and `--json` print the same sentence.

use wirecap::{
    Diagnostic, Timestamp,
    config::prefix::PACKET,
    diagnostic::{
        Advice, KernelRefusal, LengthLimitReason, ModeRefusal, PackingRefusal, Recovery, RssRecovery,
        TapRefusal,
    },
    report::{LengthLimit, LengthLimitPolicy},
};

use super::{
    host_use, numbered,
    plural::{counted, is, was},
    refusal, report, rss,
};

/// The largest size of a cell, which holds any frame of an MTU of 1500 with every driver.
pub(super) const LARGEST_CELL_BYTES: u32 = 4096;

/// The text of a diagnostic.
pub(crate) fn describe(diagnostic: &Diagnostic) -> String {
    let families = [opening, modes, filter, tags, times, memory, changes, endings];
    let text = families.iter().find_map(|family| family(diagnostic));
    text.unwrap_or_else(|| diagnostic.code().replace('_', " "))
}

/// How a port is opened.
fn opening(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::Passive { reason } => {
            format!("captured passively, because {}", host_use::reason(reason))
        }
        Diagnostic::NotTapped { reason } => {
            let remedy = match reason {
                TapRefusal::OffloadsOff => Some("tap:NAME taps it all the same"),
                reason => larger_chunks(*reason),
            };
            let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
            format!("captured over AF_PACKET, not tapped: {}{remedy}", refusal::tap(*reason))
        }
        Diagnostic::FewBlocks { blocks, enough } => format!(
            "with {} (R) in a ring, the kernel may lose packets although the pool has room, with {enough} or more only while more than three \
             quarters of it are in use; raise -R or --memory",
            counted(*blocks, "block")
        ),
        Diagnostic::RingWithoutEffect => "--ring has no effect: a passive port has no ring of AF_XDP".into(),
        Diagnostic::XdpProgramFirst { program_id, program } => format!(
            "the XDP program{} (id {program_id}) gets packets first: those that it takes or drops are not captured",
            host_use::spaced(program.as_deref())
        ),
        Diagnostic::FarMemory { node, cause } => {
            format!("its pools may not be on the NIC's memory node {node}: {cause}")
        }
        Diagnostic::LinkNotWatched { queues, cause } => {
            let queues = if *queues { " and receive queues that are added" } else { "" };
            format!("packets that the NIC drops{queues} are not reported: {cause}")
        }
        Diagnostic::QueueDoesNotSend { queue, transmit_queues } => format!(
            "queue {queue} does not send: only {} {} in use; ethtool -L adds more",
            counted(*transmit_queues, "transmit queue"),
            is(*transmit_queues)
        ),
        Diagnostic::PacketsTooLong { limit, reason } => too_long(*limit, *reason),
        _ => return None,
    })
}

/// Which packets are too long, why, and the remedy.
fn too_long(LengthLimit { bytes, beyond }: LengthLimit, reason: LengthLimitReason) -> String {
    let fate = match beyond {
        LengthLimitPolicy::Cut => "cut",
        LengthLimitPolicy::Lost => "lost (too_long)",
    };
    let reason = match reason {
        LengthLimitReason::NotSplit { cell_bytes } => {
            let remedy = match cell_bytes < LARGEST_CELL_BYTES {
                true => "--cell-bytes 4096 has room for longer ones",
                false => "a driver with multi-buffer XDP would split them",
            };
            format!("this interface does not split packets over several cells; {remedy}")
        }
        LengthLimitReason::SmallChunks { cells_per_chunk, least } => {
            format!("packets of several cells need M = {least}, and M is {cells_per_chunk}; write -M {least}")
        }
        LengthLimitReason::SmallBlocks { cells_per_chunk } => {
            format!("a block of M = {cells_per_chunk} cells holds no more; raise -M")
        }
        LengthLimitReason::LongSegments { longest } => format!(
            "a tap copies no more, and the host's segments may have {longest} bytes (gso_max_size, gro_max_size); AF_PACKET keeps \
             them whole: {PACKET}NAME"
        ),
        LengthLimitReason::SmallPool => "M or R is small; -M 256 takes packets of any length".into(),
        _ => "the port accepts no longer ones".into(),
    };
    format!("packets longer than {bytes} bytes will be {fate}: {reason}")
}

/// Modes of AF_XDP.
fn modes(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::ModeUnavailable { mode, several_cells, reason } => {
            let split = if *several_cells { " with packets of several cells" } else { "" };
            format!("{}{split} is not available: {}", mode.as_str(), mode_refusal(reason))
        }
        Diagnostic::SharedXdpMode { wanted, shared } => format!(
            "{wanted} XDP is not available: the processes that share the interface use {shared} mode"
        ),
        Diagnostic::SharedWithoutFrames => {
            "frames that take several of the driver's buffers are not captured: the process that shared the interface first does \
             not accept them"
                .into()
        }
        _ => return None,
    })
}

/// Why a mode is not used, with the flag that helps.
fn mode_refusal(reason: &ModeRefusal) -> String {
    match reason {
        ModeRefusal::ShortCells { cell_bytes, .. } if *cell_bytes < LARGEST_CELL_BYTES => {
            refusal::mode(reason) + "; use cells of 4096 bytes (--cell-bytes 4096)"
        }
        ModeRefusal::NotPacked(reason) => packing_refusal(reason),
        reason => refusal::mode(reason),
    }
}

/// Why packets are not packed, with the flag that helps.
fn packing_refusal(reason: &PackingRefusal) -> String {
    let remedy = match reason {
        PackingRefusal::SmallBlocks { .. } => "; raise -M",
        PackingRefusal::FewBlocks { .. } => "; raise -R or --memory",
        PackingRefusal::ZeroCopyNotKnown | PackingRefusal::ZeroCopyOffered => {
            "; --xdp-mode packed packs them all the same"
        }
        _ => "",
    };
    refusal::packing(reason) + remedy
}

/// The flag that makes chunks large enough for a tap, or enough of them.
pub(super) fn larger_chunks(reason: TapRefusal) -> Option<&'static str> {
    match reason {
        TapRefusal::SmallChunks { .. } => Some("raise -M"),
        TapRefusal::FewChunks => Some("raise -R or --memory"),
        _ => None,
    }
}

/// Where the filter runs, and what it sees.
fn filter(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::FilterNotInKernel { reason, interpreted, drops_unwanted } => {
            let interpreted = interpreted.as_ref().map(|cause| format!("; {cause}")).unwrap_or_default();
            let dropped = match drops_unwanted {
                true => "; packets that do not match are dropped, not left to the host",
                false => "",
            };
            format!("the filter is not in the kernel: {}{interpreted}{dropped}", kernel_refusal(reason))
        }
        Diagnostic::FilterInterpreted { cause } => cause.to_string(),
        Diagnostic::FilterDropsLongPackets => {
            "if the filter needs more than the first buffer of a packet and the packet does not match, it is dropped, not left to \
             the host"
                .into()
        }
        Diagnostic::FilterInboundOnly => {
            "packets that the host sends are not captured, because the interface is taken from it: `inbound` matches all packets, \
             `outbound` none"
                .into()
        }
        _ => return None,
    })
}

fn kernel_refusal(reason: &KernelRefusal) -> String {
    match reason {
        KernelRefusal::OffsetTooFar { end, limit } => {
            format!("it reads byte {end} of a packet, and the kernel's instructions reach {limit}")
        }
        KernelRefusal::Loops => {
            "the filter loops (protochain), and the kernel's verifier accepts no loops".into()
        }
        KernelRefusal::NotPermitted => "this process lacks CAP_PERFMON".into(),
        KernelRefusal::Rejected(cause) => format!("the verifier refuses it ({cause})"),
        KernelRefusal::Failed(cause) => cause.to_string(),
        _ => "the reason is unknown".into(),
    }
}

/// VLAN tags that are not in the packets.
fn tags(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::VlanTagsNotPutBack { cause } => {
            format!("VLAN tags that come beside the packets cannot be put back into them: {cause}")
        }
        Diagnostic::VlanTagsMissing { interface } => format!(
            "VLAN tags are missing from packets: the NIC strips them before XDP sees the packets; to keep them: ethtool -K \
             {interface} rxvlan off"
        ),
        Diagnostic::Untagged { packets } => format!(
            "{} arrived without the VLAN tag that the NIC had stripped: it could not be put back",
            counted(*packets, "packet")
        ),
        _ => return None,
    })
}

/// The times of packets.
fn times(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::OtherTimestamps { wanted, used: Timestamp::File } => {
            format!("the file's timestamps, not {} ones", wanted.as_str())
        }
        Diagnostic::OtherTimestamps { wanted, used } => format!(
            "{} timestamps instead of {}: on a passive port each packet has its own",
            used.as_str(),
            wanted.as_str()
        ),
        Diagnostic::LeapSecondsExpired { until } => {
            format!("leap seconds are known only until {until}: update the package tzdata")
        }
        Diagnostic::Unstamped { source, packets } => format!(
            "{} had no {} timestamp and {} the time at which the batch was first seen",
            counted(*packets, "packet"),
            source.as_str(),
            if *packets == 1 { "has" } else { "have" }
        ),
        Diagnostic::ClockSet { clock } => {
            format!("the clock of the timestamps was set: {}", report::clock(clock))
        }
        Diagnostic::StampingLeftOn { cause } => format!("the NIC still stamps every packet: {cause}"),
        _ => return None,
    })
}

/// The packet memory.
fn memory(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::HugePagesShort { needed, reserved, free } => format!(
            "{needed} huge pages are needed, but only {free} of the {reserved} reserved ones (vm.nr_hugepages) are free"
        ),
        Diagnostic::ControlGroupUnseen { group } => format!(
            "whether the control group {} limits memory is unknown: the cgroup file system is not mounted here",
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

/// What other programs do while a capture runs.
fn changes(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::QueuesNotCaptured { captured, queues } => {
            format!(
                "the interface has {} now, of which {captured} {} captured: packets of {} go to the host; restart the capture to \
                 include them, or remove the queues (ethtool -L)",
                counted(*queues, "receive queue"),
                is(*captured),
                numbered("queue", *captured..*queues)
            )
        }
        Diagnostic::QueuesGone { queues } => format!(
            "the interface has {} now, and nothing arrives from those that were removed",
            counted(*queues, "receive queue")
        ),
        Diagnostic::Detached { recovery } => format!(
            "another program detached the XDP program; packets went to the host, uncounted, {}",
            until(recovery, "attached again")
        ),
        Diagnostic::TapDetached { recovery } => format!(
            "another program detached a program of the tap; packets were not captured, {}",
            until(recovery, "attached again")
        ),
        Diagnostic::XdpProgramAttached { program_id, program } => {
            // A process in the sandbox cannot find out the name.
            let unnamed = match program {
                Some(_) => String::new(),
                None => format!(
                    "; `bpftool prog show id {program_id}` names it; a tap of wirecap (wirecap_tap) takes and drops none"
                ),
            };
            format!(
                "another process attached the XDP program{} (id {program_id}), which gets packets first: since then, those that it \
                 takes or drops are not captured{unnamed}",
                host_use::spaced(program.as_deref())
            )
        }
        Diagnostic::QueuesLost { queues, recovery } => format!(
            "another program removed this capture from the table of the processes that share the interface; packets of {} went to \
             the host, uncounted, {}",
            numbered("queue", queues.iter()),
            until(recovery, "put back")
        ),
        Diagnostic::RssChanged { recovery: RssRecovery::Failed(loss) } => format!(
            "RSS is no longer symmetric, because another program changed it ({}): the two directions of a connection may arrive on \
             different queues",
            rss::loss(loss)
        ),
        Diagnostic::RssChanged { .. } => {
            "another program reset RSS: for about a second, until it was set again, the two directions of a connection may have \
             arrived on different queues"
                .into()
        }
        _ => return None,
    })
}

/// How long a loss lasted: until something was `again` as it should be.
fn until(recovery: &Recovery, again: &str) -> String {
    match recovery {
        Recovery::Restored => format!("until it was {again} about a second later"),
        Recovery::Failed(cause) => format!("since then, because it cannot be {again}: {cause}"),
        _ => "from then to the end".into(),
    }
}

/// Packets that are missing at the end.
fn endings(diagnostic: &Diagnostic) -> Option<String> {
    Some(match diagnostic {
        Diagnostic::EndNotAwaited => {
            "the end is not exact: this kernel cannot wait for packets in flight (membarrier fails with nohz_full)".into()
        }
        Diagnostic::PacketsCut { packets } => format!(
            "{} {} longer than the port can capture and {} cut",
            counted(*packets, "packet"),
            was(*packets),
            was(*packets)
        ),
        Diagnostic::LastBlockKept => {
            "the end is not exact: the kernel kept its last block of packets".into()
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
mod tests;
