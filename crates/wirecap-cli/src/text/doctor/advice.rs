//! What a finding costs, and what helps. Each rule has both in one place; the book is generated from here.

use wirecap_doctor::{Evidence, Rule, snapshot::CaptureMode};

/// Up to this T, in percent, other workers help early.
const EARLY_PERCENT: u8 = 20;

/// What a finding of a rule costs, and what helps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advice {
    pub(crate) cost: &'static str,
    pub(crate) remedy: &'static str,
}

/// The advice of a rule.
pub(crate) fn of(rule: Rule) -> Advice {
    let (cost, remedy) = match rule {
        Rule::QueuesBeyondCores => (
            "workers of several queues take turns on a core, so a burst waits longer in each queue",
            "as many queues as cores (ethtool -L); it restarts the interface",
        ),
        Rule::SingleQueue => (
            "one core takes all packets, however many there are",
            "more queues (ethtool -L), at most one per core unless a veth needs more for native XDP; it restarts the interface",
        ),
        Rule::RssTable => (
            "some queues have more flows than others, and their cores more work",
            "an even table (ethtool -X IFACE equal QUEUES)",
        ),
        Rule::RssDirections => (
            "request and reply reach different workers, which intrusion detection cannot use",
            "wirecap capture --rss symmetric, or a hash that is the same both ways (ethtool -X)",
        ),
        Rule::RssPorts => (
            "all flows between two hosts share a queue, so a busy pair of hosts loads one core",
            "hash by ports as well: ethtool -N IFACE rx-flow-hash udp4 sdfn",
        ),
        Rule::RssKey => (
            "every packet has the same hash, so all come in by one queue",
            "a key that is not zero: ethtool -X IFACE hkey 6d:5a:… (repeated: the same both ways)",
        ),
        Rule::Lro | Rule::HardwareGro => (
            "a passive capture gets packets that the NIC made up, with other lengths and times; XDP needs it off, and some drivers refuse programs",
            "switch it off; the host's own TCP then costs more CPU time",
        ),
        Rule::VlanStripping => {
            ("packets are captured without their VLAN tags", "switch it off; the host's VLANs still work")
        }
        Rule::PauseFrames => (
            "under load the switch or tap is slowed down and drops packets itself, where no account counts them",
            "no pause frames on a monitoring port; the link is negotiated again",
        ),
        Rule::RingSize => (
            "a short burst, or a core that is away for a moment, overflows the ring: dropped_before_xdp",
            "a larger ring; most drivers restart the interface",
        ),
        Rule::AdaptiveCoalescing => {
            ("when traffic rises, interrupts come late until the driver has noticed", "a fixed delay")
        }
        Rule::LongCoalescing => (
            "at the speed of the link, a queue overflows before its interrupt comes: dropped_before_xdp",
            "a shorter delay, or a larger ring",
        ),
        Rule::NapiDefer => (
            "the deferral has no effect: without gro_flush_timeout nothing would poll again",
            "set both, or neither",
        ),
        Rule::GroFlushTimeout => (
            "at the speed of the link, a queue overflows between two polls: dropped_before_xdp",
            "a shorter timeout, or a larger ring",
        ),
        Rule::ThreadedNapi => (
            "the scheduler decides when a queue is polled, like any other thread, so workers delay it",
            "switch it off, or pin the threads (napi/IFACE-N) to cores without workers",
        ),
        Rule::Rps => (
            "packets that the host keeps wait for another processor in the backlog; taps see them later",
            "switch it off while there are as many queues as cores",
        ),
        Rule::BusyPoll => (
            "sockets of other programs use CPU time that workers need",
            "0; programs that need it can ask for it themselves (SO_BUSY_POLL)",
        ),
        Rule::MtuBeyondXdp => (
            "the driver refuses XDP programs; what is left, generic XDP, is several times slower",
            "a smaller MTU, if the link allows: ip link set IFACE mtu 1500",
        ),
        Rule::MtuBeyondCell => (
            "longer packets do not fit: wirecap falls back to a slower mode, or they are lost (too_long)",
            "wirecap capture --cell-bytes 4096, or a smaller MTU",
        ),
        Rule::GenericXdp => (
            "packets are captured after the kernel has made its own copy: several times slower",
            "a NIC whose driver has native XDP; the list is in the chapter on interfaces",
        ),
        Rule::VethQueues => (
            "native XDP is off: packets are captured after the kernel has made its own copy, several times slower",
            "as many receive queues as the other end has transmit queues: ethtool -L IFACE rx N; or ethtool -L with fewer tx there",
        ),
        Rule::ZeroCopyKernel => ("each packet is copied once", "a newer kernel"),
        Rule::ZeroCopyCells => (
            "wirecap falls back to copying, since the rest of longer frames would come as packets of their own",
            "wirecap capture --cell-bytes 4096",
        ),
        Rule::VirtioZeroCopy => (
            "the kernel refuses zero-copy (invalid argument), and packets are copied",
            "iommu_platform=on on the device (QEMU); or --xdp-mode packed, which packs them",
        ),
        Rule::DriverDefect => (
            "the link may be lost when a capture starts or ends",
            "the kernel that has the fix; until then, start captures before the traffic, or --xdp-mode copy",
        ),
        Rule::OtherXdpProgram => (
            "an interface has one XDP program: wirecap cannot take it, or takes nothing from it",
            "stop what has attached it, or capture beside it: tap:IFACE",
        ),
        Rule::InterruptSharing => (
            "one core serves several queues while others are idle",
            "one processor for each interrupt (smp_affinity)",
        ),
        Rule::InterruptNode => (
            "each packet crosses between memory nodes before it is seen",
            "processors near the NIC (smp_affinity)",
        ),
        Rule::Irqbalance => (
            "interrupts move between cores during a capture, also onto those of workers, and undo what is set here",
            "systemctl stop irqbalance, or leave these interrupts out (IRQBALANCE_BANNED_CPULIST, --banirq)",
        ),
        Rule::IsolatedCores => (
            "workers that are pinned there read every packet from the memory of another node",
            "isolate cores near the NIC (isolcpus=), or move the NIC to another slot",
        ),
        Rule::Governor => (
            "after a quiet moment the core is slow when a burst begins",
            "the governor performance; costs power",
        ),
        Rule::IdleStates => (
            "a worker that sleeps wakes up late, and its queue fills until then",
            "no deep states (cpuidle/stateN/disable), or wirecap capture --wait busy; costs power",
        ),
        Rule::StealTime => (
            "the machine stops now and then, and the NIC's ring overflows",
            "virtual processors of its own on the host (pinning), or fewer guests",
        ),
        Rule::LockedMemory => (
            "cells cannot be registered for zero-copy: the capture does not start",
            "ulimit -l unlimited, LimitMEMLOCK=infinity, or CAP_IPC_LOCK; else a smaller -R",
        ),
        Rule::CgroupMemory => (
            "the pools do not fit: the kernel refuses them, or kills the capture",
            "a higher limit (MemoryMax=), or --memory",
        ),
        Rule::MemoryNode => (
            "pools are in the memory of another node than the NIC, and each packet crosses over",
            "start it with the node of the NIC (numactl, AllowedMemoryNodes=)",
        ),
        Rule::BpfInterpreted => {
            ("the XDP program takes several times as long for each packet", "machine code")
        }
        Rule::BpfHardening => (
            "programs are longer and slower, and hardware timestamps, hashes and, except on veth, VLAN tags are not available",
            "1, which hides the constants of unprivileged users' programs only",
        ),
        Rule::BpfStatistics => ("two clock readings for each packet", "switch it off after measuring"),
        Rule::SoftirqBudget => (
            "packets wait for the next round, behind other work",
            "larger budgets (net.core.netdev_budget, netdev_budget_usecs)",
        ),
        Rule::Backlog => (
            "the kernel drops packets of devices without queues of their own, and of RPS, before a tap sees them",
            "a larger backlog (net.core.netdev_max_backlog)",
        ),
        Rule::ClockSource => (
            "reading the time takes about a microsecond instead of some 20 ns",
            "clocksource=tsc on the kernel's command line, if its counter is stable; on a hypervisor, its own clock",
        ),
        Rule::ClockSynchronisation => {
            ("times of packets drift from those of other machines", "chrony, systemd-timesyncd or ptp4l")
        }
        Rule::DiskFileSystem => (
            "writing depends on a network, on another file system, or on the memory that pools need",
            "a directory on a local disk (ext4, xfs)",
        ),
        Rule::DiskDirectIo => (
            "--direct-io is not possible: long captures compete with other programs for the page cache",
            "a file system that takes O_DIRECT (ext4, xfs)",
        ),
        Rule::DiskSpace => (
            "a capture of full links soon ends with a full disk",
            "a ring of files (-C, -W), a filter, or --snaplen",
        ),
        Rule::DiskSpeed => (
            "at full links the pool fills up, and packets are lost: no_free_block, no_free_cell",
            "a faster disk, --snaplen, a filter, or a pool (-R) that is as large as the bursts",
        ),
        Rule::NicMissed => (
            "these packets are in no capture",
            "a larger ring, more queues, or faster workers; the other findings say which",
        ),
        Rule::ProcessStood => (
            "workers may not have emptied the pools in that time",
            "find what stopped it (kill -STOP, a debugger, a frozen control group), a machine without time for it, or a full pipe or terminal \
             that nothing read",
        ),
        Rule::LostNoBuffer => (
            "workers, or the disk or pipe behind them, were slower than the packets",
            "-R or --memory for bursts; more workers, --snaplen or a faster disk for a steady load",
        ),
        Rule::LostRingFull => (
            "nothing emptied the ring in time: threads had to wait for a core",
            "leave --ring out, and give each worker a core (--cores)",
        ),
        Rule::LostTooLong => {
            ("longer packets are missing", "wirecap capture --cell-bytes 4096, or Linux 6.6 or newer")
        }
        Rule::LostBeforeXdp => (
            "these packets were lost before wirecap could see them",
            "a larger ring (ethtool -G), -R, more queues; the other findings say which",
        ),
        Rule::SkewedQueues => (
            "one pool had to hold most of the packets, and one worker had most of the work",
            "against bursts, larger pools (-R); against lasting skew, in basic mode, advanced mode (-T 60), so that other workers help, and in \
             advanced mode, a lower -T, so that they help earlier; on a NIC, a hash over more fields (ethtool -N)",
        ),
    };
    Advice { cost, remedy }
}

/// What helps against what a rule saw: the advice of its rule, or more precise words.
pub(crate) fn remedy(evidence: &Evidence) -> String {
    match evidence {
        Evidence::SkewedQueues { mode: Some(mode), threshold_percent, chunks_per_pool, .. } => {
            let present = chunks_per_pool.map_or(String::new(), |chunks| format!(" of {chunks}"));
            let helpers = match mode {
                CaptureMode::Basic => "; against lasting skew, advanced mode (-T 60)".into(),
                CaptureMode::Advanced => lower_threshold(*threshold_percent),
            };
            format!(
                "against bursts, larger pools: twice the -R{present}, and again as memory allows{helpers}; on a NIC, \
                 a hash over more fields (ethtool -N)"
            )
        }
        evidence => of(evidence.rule()).remedy.into(),
    }
}

/// Advice for advanced mode; empty if workers help early already.
fn lower_threshold(threshold: Option<u8>) -> String {
    match threshold {
        Some(percent) if percent <= EARLY_PERCENT => String::new(),
        Some(percent) => format!("; against lasting skew, a lower -T than {percent}"),
        None => "; against lasting skew, a lower -T".into(),
    }
}

#[cfg(test)]
mod tests {
    use wirecap_core::Choice;

    use super::{super::evidence::tests::skewed, *};
    use crate::commands::Flags;
    use clap::CommandFactory;

    #[test]
    fn skewed_queues_get_advice_for_the_mode_of_the_capture() {
        let remedy = |mode, threshold_percent, chunks_per_pool| {
            remedy(&skewed(mode, threshold_percent, chunks_per_pool))
        };
        let advanced = Some(CaptureMode::Advanced);
        assert_eq!(
            remedy(advanced, Some(60), Some(4)),
            "against bursts, larger pools: twice the -R of 4, and again as memory allows; against lasting skew, a lower -T \
             than 60; on a NIC, a hash over more fields (ethtool -N)"
        );
        assert_eq!(
            remedy(advanced, Some(EARLY_PERCENT), Some(4)),
            "against bursts, larger pools: twice the -R of 4, and again as memory allows; on a NIC, a hash over more fields (ethtool -N)"
        );
        assert_eq!(
            remedy(Some(CaptureMode::Basic), None, Some(4)),
            "against bursts, larger pools: twice the -R of 4, and again as memory allows; against lasting skew, advanced \
             mode (-T 60); on a NIC, a hash over more fields (ethtool -N)"
        );
        let unknown = remedy(None, None, None);
        assert!(unknown.contains("in basic mode, advanced") && unknown.contains("in advanced mode, a lower"));
    }

    #[test]
    fn the_flags_that_are_named_exist() {
        let flags = Flags::command();
        let capture = flags.find_subcommand("capture").unwrap();
        let known: Vec<_> = capture.get_arguments().filter_map(clap::Arg::get_long).collect();
        for rule in Rule::ALL {
            let Advice { cost, remedy } = of(rule.value);
            for word in
                format!("{cost} {remedy}").split(|letter: char| !letter.is_alphanumeric() && letter != '-')
            {
                let Some(flag) = word.strip_prefix("--") else { continue };
                // Of irqbalance.
                assert!(known.contains(&flag) || flag == "banirq", "--{flag} of {}", rule.name);
            }
        }
    }
}
