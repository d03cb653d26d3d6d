//! Reading the counters of a running capture and adding them up to a [`Report`].

use std::sync::atomic::Ordering;

use wirecap_core::{
    Lost, Spread,
    words::{counted, is},
};
use wirecap_sys::clock::BatchClock;

use crate::{
    engine::Shared,
    open_port::{OpenPort, Taken},
    port::{
        QueueCounts, link::LinkWatch, program::ProgramCounts, replay::ReplayPort, rss::SymmetricRss,
        xdp::XdpPort,
    },
    report::{PortReport, QueueMode, QueueReport, Report, WorkerReport},
    reserve::CaptureMemory,
    timestamp::TimestampReport,
};

/// Where the counters are.
pub(crate) struct Books<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) ports: &'a mut [OpenPort],
    pub(crate) ring_entries: u32,
    pub(crate) worker_cores: &'a [Option<usize>],
    /// The capture has ended: what no worker took is lost.
    pub(crate) closed: bool,
}

impl Books<'_> {
    pub(crate) fn report(mut self, seconds: f64, memory: &CaptureMemory) -> Report {
        let mut offloaded_out = vec![0; self.shared.workers.len()];
        let mut ports = Vec::new();
        let open_ports = std::mem::take(&mut self.ports);
        for (port, range) in open_ports.iter_mut().zip(&self.shared.ports) {
            let timestamp = self.timestamp(port, range.clone());
            let sum = |count: fn(&QueueCounts) -> u64| {
                self.shared.queues[range.clone()].iter().map(|queue| count(&queue.lock().counts())).sum()
            };
            let untagged = port.xdp().filter(|xdp| xdp.puts_tags_back).map(|_| sum(|counts| counts.untagged));
            let unhashed = port.xdp().and_then(|xdp| xdp.hash_at).map(|_| sum(|counts| counts.unhashed));
            let queues =
                range.clone().map(|queue| self.queue(queue, port.mode, &mut offloaded_out)).collect();
            ports.push(port_report(port, queues, (timestamp, untagged, unhashed), self.closed));
        }
        let drops = ports.iter_mut().map(|port: &mut PortReport| &mut port.dropped_before_xdp);
        drops_once(open_ports.iter().map(|port| port.ifindex).zip(drops));
        let workers = self.shared.workers.iter().zip(self.worker_cores).zip(offloaded_out);
        let workers = workers.map(|((state, &core), offloaded_out)| WorkerReport {
            packets: state.packets.load(Ordering::Relaxed),
            bytes: state.bytes.load(Ordering::Relaxed),
            offloaded_in: state.offloaded_in.load(Ordering::Relaxed),
            offloaded_out,
            core: core.filter(|_| !state.unbound.load(Ordering::Relaxed)),
        });
        let workers = workers.collect();
        let memory = memory.report(self.ring_entries);
        Report { seconds, ports, workers, memory }
    }

    /// Packets of a queue that workers were given, and of these, those that went to others than its
    /// home worker.
    fn delivered(&self, index: usize) -> (u64, u64) {
        let home = self.shared.queues[index].home;
        let (mut all, mut away) = (0, 0);
        for (worker, state) in self.shared.workers.iter().enumerate() {
            let packets = state.delivered[index].load(Ordering::Relaxed);
            all += packets;
            away += if worker == home { 0 } else { packets };
        }
        (all, away)
    }

    /// How the packets of a port are stamped. Clocks are each queue's own: the worst of them counts.
    fn timestamp(&self, port: &OpenPort, queues: std::ops::Range<usize>) -> TimestampReport {
        let mut report = port.timestamp.clone();
        let (mut uncertainty, mut set_back_ns) = (Spread::new(), 0);
        for queue in &self.shared.queues[queues] {
            let mut owner = queue.lock();
            uncertainty.add(owner.arrivals.uncertainty());
            set_back_ns = owner.arrivals.set_back_ns().max(set_back_ns);
            let report = report.get_or_insert_with(|| TimestampReport::batch(&owner.clock));
            if port.timestamp.is_none() {
                let bound_ns = owner.clock.error_bound_ns();
                report.error_bound_ns = report.error_bound_ns.map(|so_far| so_far.max(bound_ns));
                continue;
            }
            report.unstamped += owner.counts().unstamped;
            owner.stamp_clock().into_iter().for_each(|clock| report.learn(clock));
        }
        let mut report = report.unwrap_or_else(|| TimestampReport::batch(&BatchClock::system()));
        report.measure(&uncertainty, set_back_ns);
        report
    }

    fn queue(&self, index: usize, mode: QueueMode, offloaded_out: &mut [u64]) -> QueueReport {
        let queue = &self.shared.queues[index];
        let (delivered, away) = self.delivered(index);
        offloaded_out[queue.home] += away;
        let mut owner = queue.lock();
        let counts = owner.counts();
        let (captured, refused) = (owner.pool.captured_packets(), owner.pool.refused());
        let foreign = owner.pool.foreign();
        let stopped = self.shared.is_stopping();
        let (gauge, peak) = (owner.gauge(stopped), owner.peak(stopped));
        drop(owner);
        let mut report = QueueReport {
            queue: queue.ring_id,
            mode,
            seen: counts.seen,
            filtered: counts.filtered,
            passed: counts.passed,
            delivered,
            lost: Lost {
                no_free_cell: counts.no_free_cell,
                rx_ring_full: counts.rx_ring_full,
                too_long: counts.too_long,
                left_at_stop: if self.closed { captured.saturating_sub(delivered) } else { 0 },
            },
            unexplained: 0,
            pool_used_percent: gauge.percent(),
            pool_peak_percent: peak.percent(),
            refused,
            fill_ring_empty: counts.fill_ring_empty,
            foreign,
        };
        report.unexplained = report.account().unexplained();
        report
    }
}

fn port_report(
    port: &mut OpenPort,
    mut queues: Vec<QueueReport>,
    (timestamp, untagged, unhashed): (TimestampReport, Option<u64>, Option<u64>),
    closed: bool,
) -> PortReport {
    let captured = queues.len() as u32;
    queues.extend(
        port.xdp().into_iter().flat_map(XdpPort::uncaptured).map(|(queue, counts)| host_queue(queue, counts)),
    );
    let now = port.link.as_mut().and_then(|link| link.uncaptured(closed));
    let mut warnings = Vec::from_iter(now.map(|now| uncaptured_in_words(&port.name, captured, now)));
    let missing = port.link.as_mut().and_then(|link| link.missing(closed));
    warnings.extend(missing.map(|now| missing_in_words(&port.name, now)));
    if let Taken::Xdp(xdp) = &mut port.taken {
        port.upkeep.look(xdp);
    }
    warnings.extend(port.upkeep.warnings(&port.name));
    warnings.extend(unstamped_in_words(&port.name, &timestamp));
    warnings.extend(untagged_in_words(&port.name, untagged.unwrap_or(0)));
    let was_set = port.timestamp.as_ref().is_some_and(|start| start.clock != timestamp.clock);
    warnings.extend(
        was_set.then(|| format!("{}: the clock that stamps was set: {}", port.name, timestamp.clock)),
    );
    let left_on = port.xdp().and_then(|xdp| xdp.stamping.as_ref()?.left_on.as_ref());
    warnings.extend(left_on.map(|left_on| format!("{}: {left_on}", port.name)));
    let replay = port.replay();
    let too_long = queues.iter().map(|queue| queue.lost.too_long).sum();
    warnings.extend(replay.and_then(|replay| replay.warning(&port.name, too_long)));
    PortReport {
        name: port.name.clone(),
        driver: port.driver.clone(),
        fallbacks: port.fallbacks.clone(),
        host_use: port.host_use.iter().chain(port.upkeep.begun()).cloned().collect(),
        timestamp,
        untagged,
        unhashed,
        filter: port.filter.clone(),
        multi_buffer: port.multi_buffer,
        length_limit: port.length_limit,
        rss: port.xdp().and_then(|xdp| xdp.rss.as_ref()).map(SymmetricRss::in_words),
        link_type: port.link_type,
        numa_node: port.numa_node,
        removed: port.removed,
        read_percent: replay.and_then(ReplayPort::read_percent),
        error: replay.and_then(ReplayPort::error).map(String::from),
        dropped_before_xdp: port.link.as_mut().map_or(0, LinkWatch::dropped),
        warnings,
        queues,
        unsent: if port.sent.is_empty() { None } else { port.link.as_mut().map(LinkWatch::unsent) },
        transmitted: port.sent.iter().map(|sent| sent.report()).collect(),
    }
}

/// What the NIC drops is of the whole interface: of several ports of one, the first tells it, so that a sum is right.
fn drops_once<'r>(ports: impl Iterator<Item = (Option<u32>, &'r mut u64)>) {
    let mut told = Vec::new();
    for (ifindex, dropped) in ports {
        if ifindex.is_some() && told.contains(&ifindex) {
            *dropped = 0;
        }
        told.push(ifindex);
    }
}

/// A queue without a socket: the program leaves all its packets to the host.
fn host_queue(queue: u32, counts: ProgramCounts) -> QueueReport {
    let ProgramCounts { seen, filtered, passed, too_long, .. } = counts;
    let mut report = QueueReport {
        queue: queue.try_into().unwrap_or(u16::MAX),
        mode: QueueMode::Host,
        seen,
        filtered,
        passed,
        delivered: 0,
        lost: Lost { too_long, ..Lost::default() },
        unexplained: 0,
        pool_used_percent: 0.0,
        pool_peak_percent: 0.0,
        refused: 0,
        fill_ring_empty: 0,
        foreign: 0,
    };
    report.unexplained = report.account().unexplained();
    report
}

fn missing_in_words(port: &str, now: u32) -> String {
    format!(
        "{port}: the interface has {} by now, and nothing comes from those that were taken away",
        counted(now, "receive queue")
    )
}

fn unstamped_in_words(port: &str, timestamp: &TimestampReport) -> Option<String> {
    let TimestampReport { source, unstamped, .. } = timestamp;
    (*unstamped > 0).then(|| {
        let source = source.as_str();
        let packets = counted(*unstamped, "packet");
        format!("{port}: {packets} had no {source} time, but the one at which the batch was taken")
    })
}

fn untagged_in_words(port: &str, untagged: u64) -> Option<String> {
    (untagged > 0).then(|| {
        let packets = counted(untagged, "packet");
        format!(
            "{port}: {packets} came without the VLAN tag that the NIC had taken off: it could not be put back"
        )
    })
}

fn uncaptured_in_words(port: &str, captured: u32, now: u32) -> String {
    let which = if now - captured == 1 {
        format!("queue {captured}")
    } else {
        format!("queues {captured}-{}", now - 1)
    };
    format!(
        "{port} has {now} receive queues by now, of which {captured} {} captured: packets of {which} go to the host; \
         start the capture anew to have them, or take the queues away (ethtool -L)",
        is(captured)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_nic_drops_is_told_once_for_each_interface() {
        // Three ports of one interface, one of another, two traces.
        let interfaces = [Some(2), None, Some(2), Some(3), None, Some(2)];
        let mut drops = [10, 1, 11, 5, 1, 12];
        drops_once(interfaces.into_iter().zip(&mut drops));
        assert_eq!(drops, [10, 1, 0, 5, 1, 0]);
    }
}
