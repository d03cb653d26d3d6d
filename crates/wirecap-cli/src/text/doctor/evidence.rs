//! What a rule saw, as a sentence.

use wirecap_doctor::{Evidence, finding::DriverDefect, snapshot::FileSystem};

use crate::text::{
    numbered,
    plural::{counted, is},
    units::size,
};

const NS_PER_US: u64 = 1000;
const MB: u64 = 1_000_000;

/// What the rule saw.
pub(crate) fn describe(evidence: &Evidence) -> String {
    match evidence {
        Evidence::QueuesBeyondCores { queues, cores } => {
            format!("{} for {}", counted(*queues, "receive queue"), counted(*cores, "core"))
        }
        Evidence::SingleQueue { possible, cores } => {
            format!("1 receive queue, of {possible} that are possible, for {}", counted(*cores, "core"))
        }
        Evidence::RssTable { unused, fewest, most } if unused.is_empty() => {
            format!("the RSS table gives {fewest} entries to one queue and {most} to another")
        }
        Evidence::RssTable { unused, .. } => {
            format!("the RSS table gives nothing to {}", numbered("queue", unused.iter().copied()))
        }
        Evidence::RssDirections { lopsided_flows } if lopsided_flows.is_empty() => {
            "the RSS hash differs between the two directions of a connection".into()
        }
        Evidence::RssDirections { lopsided_flows } => {
            format!("{} are hashed by one end only", lopsided_flows.join(", "))
        }
        Evidence::RssPorts { flows } => {
            format!("{} are hashed by addresses, without ports", flows.join(", "))
        }
        Evidence::RssKey { key_bytes } => format!("the RSS key is {key_bytes} bytes of zeros"),
        Evidence::Lro { offload } | Evidence::HardwareGro { offload } => {
            format!("the NIC joins packets into longer ones ({offload} is on)")
        }
        Evidence::VlanStripping { offload } => {
            format!("the NIC takes VLAN tags off, and its driver does not hand them to XDP ({offload} is on)")
        }
        Evidence::PauseFrames { negotiated } => {
            let how = if *negotiated { ", if the other end agrees" } else { "" };
            format!("the NIC sends pause frames when it has no room{how}")
        }
        Evidence::RingSize { descriptors, possible } => {
            format!("each receive ring has {descriptors} descriptors, of {possible} that are possible")
        }
        Evidence::AdaptiveCoalescing { rx_usecs } => {
            format!("the driver adapts the delay of interrupts to the traffic, {rx_usecs} µs now")
        }
        Evidence::LongCoalescing { rx_usecs, frames, descriptors } => format!(
            "interrupts wait up to {rx_usecs} µs, in which {frames} frames can come into {descriptors} descriptors"
        ),
        Evidence::NapiDefer { polls } => {
            format!(
                "interrupts are deferred by {} (napi_defer_hard_irqs) without a timer",
                counted(*polls, "poll")
            )
        }
        Evidence::GroFlushTimeout { timeout_ns, frames, descriptors } => format!(
            "with interrupts deferred, the kernel polls every {} µs (gro_flush_timeout), in which {frames} frames can \
             come into {descriptors} descriptors",
            timeout_ns / NS_PER_US
        ),
        Evidence::ThreadedNapi { queues } => {
            format!("kernel threads poll its {} (threaded)", counted(*queues, "queue"))
        }
        Evidence::Rps { queues } => {
            format!(
                "other processors handle the packets of {} (RPS)",
                numbered("queue", queues.iter().copied())
            )
        }
        Evidence::BusyPoll { sysctl, usecs } => format!("every socket polls for {usecs} µs ({sysctl})"),
        Evidence::MtuBeyondXdp { mtu, limit } => {
            format!("the MTU is {mtu}, and the driver takes XDP programs up to about {limit}")
        }
        Evidence::MtuBeyondCell { mtu, cell_bytes, room } => format!(
            "the MTU is {mtu}, a cell of {cell_bytes} bytes takes frames of up to {room}, and in zero-copy a packet has \
             one cell"
        ),
        Evidence::VethQueues { queues, .. } => format!(
            "{}, fewer than the other end of the veth pair has transmit queues",
            counted(*queues, "receive queue")
        ),
        Evidence::GenericXdp { driver } if matches!(driver.as_str(), "bonding" | "hv_netvsc") => {
            format!("the driver {driver} runs XDP programs on its members only; capture those, or tap:NAME")
        }
        Evidence::GenericXdp { driver } => format!("the driver {driver} runs no XDP programs here"),
        Evidence::ZeroCopyKernel { driver, since, running } => {
            format!("{driver} has zero-copy since Linux {since}; this is Linux {running}")
        }
        Evidence::ZeroCopyCells { driver, cell_bytes, room, longest } => format!(
            "in zero-copy, {driver} puts at most {room} bytes of a frame into a cell of {cell_bytes}, and frames here \
             have up to {longest}"
        ),
        Evidence::VirtioZeroCopy { driver } => {
            format!("{driver} offers zero-copy, but the device does not let the host translate addresses")
        }
        Evidence::DriverDefect { driver, defect, fixed_in, running } => format!(
            "{driver} of Linux {running}: {}; fixed in Linux {fixed_in}, and perhaps by the distribution",
            defect_of(*defect)
        ),
        Evidence::OtherXdpProgram { id, name, processes } => {
            let name = name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            let by =
                if processes.is_empty() { String::new() } else { format!(" by {}", processes.join(", ")) };
            format!("the XDP program{name} (id {id}) is attached{by}")
        }
        Evidence::InterruptSharing { cpu, interrupts, idle_cpus } => format!(
            "processor {cpu} serves {} of receive queues, {} none",
            numbered("interrupt", interrupts.iter().copied()),
            numbered("processor", idle_cpus.iter().copied())
        ),
        Evidence::InterruptNode { node, interrupts } => format!(
            "{} {} served by processors of another memory node than the NIC's, {node}",
            numbered("interrupt", interrupts.iter().copied()),
            is(interrupts.len() as u64)
        ),
        Evidence::Irqbalance { interrupts } => {
            format!("irqbalance runs, and can move {} of receive queues", counted(*interrupts, "interrupt"))
        }
        Evidence::IsolatedCores { node, isolated } => format!(
            "the isolated {} {} on another memory node than the NIC, which is on node {node}",
            numbered("core", isolated.iter().copied()),
            is(isolated.len() as u64)
        ),
        Evidence::Governor { governor, cpus } => format!(
            "the clock of {} follows the load (governor {governor})",
            numbered("processor", cpus.iter().copied())
        ),
        Evidence::IdleStates { name, latency_us, cpus } => format!(
            "idle, {} may take {latency_us} µs to wake up (state {name})",
            numbered("processor", cpus.iter().copied())
        ),
        Evidence::StealTime { percent } => {
            format!("the hypervisor gave {percent:.1} % of the time since the start to others")
        }
        Evidence::LockedMemory { limit_bytes, needed_bytes } => format!(
            "this process may lock {} of memory; the cells of all queues take {} by default",
            size(*limit_bytes),
            size(*needed_bytes)
        ),
        Evidence::CgroupMemory { limit_bytes, used_bytes, needed_bytes } => format!(
            "the control group has {} of {} left; the pools of all queues take {} by default",
            size(limit_bytes.saturating_sub(*used_bytes)),
            size(*limit_bytes),
            size(*needed_bytes)
        ),
        Evidence::MemoryNode { node, allowed } => format!(
            "the NIC is on memory node {node}, and this process may use only {}",
            numbered("node", allowed.iter().copied())
        ),
        Evidence::BpfInterpreted { sysctl } => format!("the kernel interprets BPF programs ({sysctl} is 0)"),
        Evidence::BpfHardening { sysctl } => {
            format!("the kernel hides the constants of all BPF programs ({sysctl} is 2)")
        }
        Evidence::BpfStatistics { sysctl } => {
            format!("the kernel times each run of a BPF program ({sysctl})")
        }
        Evidence::SoftirqBudget { squeezed, processed, budget } => format!(
            "{} of polling ended with packets left, in {processed} packets{}",
            counted(*squeezed, "round"),
            budget.map(|budget| format!(" (net.core.netdev_budget is {budget})")).unwrap_or_default()
        ),
        Evidence::Backlog { dropped, processed, limit } => format!(
            "the kernel's backlog had no room for {dropped} of {processed} packets{}",
            limit.map(|limit| format!(" (net.core.netdev_max_backlog is {limit})")).unwrap_or_default()
        ),
        Evidence::ClockSource { source, faster } => {
            let faster =
                faster.as_ref().map(|faster| format!(", though there is {faster}")).unwrap_or_default();
            format!("the kernel reads the time from {source}{faster}")
        }
        Evidence::ClockSynchronisation { .. } => "nothing keeps the system clock right".into(),
        Evidence::DiskFileSystem { path, type_name, kind } => {
            format!("{path} is on a file system {} ({type_name})", place_of(*kind))
        }
        Evidence::DiskDirectIo { path, type_name } => {
            format!("the file system of {path} ({type_name}) takes no writes past the page cache")
        }
        Evidence::DiskSpace { path, free_bytes, seconds } => {
            format!(
                "{} are free in {path}: {} at the speed of the links",
                size(*free_bytes),
                counted(*seconds, "second")
            )
        }
        Evidence::DiskSpeed { path, measured, needed } => format!(
            "{path} took {} MB/s in a test, and the links bring up to {} MB/s",
            measured / MB,
            needed / MB
        ),
        Evidence::NicMissed { missed, received } => format!(
            "the NIC had no buffer for {}, and received {received}, since its driver was loaded",
            counted(*missed, "packet")
        ),
        Evidence::ProcessStood { seconds } => {
            format!("the process of the capture hardly ran for {seconds:.1} s, and packets were lost")
        }
        Evidence::LostNoBuffer { port, lost, seen } => {
            lost_packets(port, *lost, *seen, "the pool was used up")
        }
        Evidence::LostRingFull { port, lost, seen } => {
            lost_packets(port, *lost, *seen, "the kernel's ring was full")
        }
        Evidence::LostTooLong { port, lost, seen } => {
            lost_packets(port, *lost, *seen, "they were longer than a cell")
        }
        Evidence::LostBeforeXdp { port, lost, seen } => {
            lost_packets(port, *lost, *seen, "the NIC or its driver had no room")
        }
        Evidence::SkewedQueues { port, queue, percent, queues, mode, threshold_percent, chunks_per_pool } => {
            let settings = [
                mode.map(|mode| format!("{mode} mode")),
                threshold_percent.map(|percent| format!("T = {percent}")),
                chunks_per_pool.map(|chunks| format!("R = {chunks}")),
            ];
            let settings = settings.into_iter().flatten().collect::<Vec<_>>().join(", ");
            format!(
                "{port} lost packets in queue {queue}, which had {percent} % of all, of {}{}",
                counted(*queues, "queue"),
                if settings.is_empty() { settings } else { format!(" ({settings})") }
            )
        }
    }
}

fn lost_packets(port: &str, lost: u64, seen: u64, why: &str) -> String {
    format!("{port} lost {} of {seen} that came: {why}", counted(lost, "packet"))
}

fn defect_of(defect: DriverDefect) -> &'static str {
    match defect {
        DriverDefect::IceQueueRestart => {
            "opening or closing AF_XDP sockets under load can stop the NIC until the machine is restarted"
        }
    }
}

fn place_of(kind: FileSystem) -> &'static str {
    match kind {
        FileSystem::Local => "on a disk",
        FileSystem::Network => "on another machine",
        FileSystem::Memory => "in memory",
        FileSystem::Overlay => "over another one",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wirecap_doctor::snapshot::CaptureMode;

    use super::*;

    /// A skew after a capture with these settings.
    pub(crate) fn skewed(
        mode: Option<CaptureMode>,
        threshold_percent: Option<u8>,
        chunks_per_pool: Option<u32>,
    ) -> Evidence {
        Evidence::SkewedQueues {
            port: "m1".into(),
            queue: 0,
            percent: 90,
            queues: 2,
            mode,
            threshold_percent,
            chunks_per_pool,
        }
    }

    #[test]
    fn sentences_have_their_figures() {
        let cases = [
            (
                Evidence::RingSize { descriptors: 512, possible: 4096 },
                "each receive ring has 512 descriptors, of 4096 that are possible",
            ),
            (
                Evidence::RssTable { unused: vec![4, 5, 6], fewest: 0, most: 32 },
                "the RSS table gives nothing to queues 4-6",
            ),
            (
                Evidence::LostNoBuffer { port: "eth1".into(), lost: 1, seen: 9 },
                "eth1 lost 1 packet of 9 that came: the pool was used up",
            ),
            (
                Evidence::OtherXdpProgram { id: 7, name: None, processes: vec!["xdpd (pid 3)".into()] },
                "the XDP program (id 7) is attached by xdpd (pid 3)",
            ),
            (
                Evidence::DiskSpeed { path: "/a".into(), measured: 90_000_000, needed: 1_250_000_000 },
                "/a took 90 MB/s in a test, and the links bring up to 1250 MB/s",
            ),
            (
                skewed(Some(CaptureMode::Advanced), Some(60), Some(4)),
                "m1 lost packets in queue 0, which had 90 % of all, of 2 queues (advanced mode, T = 60, R = 4)",
            ),
            (skewed(None, None, None), "m1 lost packets in queue 0, which had 90 % of all, of 2 queues"),
        ];
        for (evidence, sentence) in cases {
            assert_eq!(describe(&evidence), sentence);
        }
    }
}
