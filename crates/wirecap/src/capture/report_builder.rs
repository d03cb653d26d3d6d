//! Adds the counters of a running capture up to a [`Report`].

use std::{
    ops::Range,
    sync::{PoisonError, atomic::Ordering},
};

use wirecap_core::Spread;

use super::Capture;
use crate::{
    Diagnostic, Timestamp,
    nic::link::LinkWatch,
    port::{open_port::OpenPort, queue::QueueCounts},
    report::{PortReport, QueueMode, QueueReport, Report, TimestampReport, WorkerReport},
};

impl Capture {
    /// The report so far; what no worker took is lost if the capture is `closed`.
    pub(super) fn report_with(&self, closed: bool) -> Report {
        let mut open_ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offloaded_out = vec![0; self.shared.workers.len()];
        let mut ports = Vec::new();
        for (index, (port, queues)) in open_ports.iter_mut().zip(&self.shared.ports).enumerate() {
            ports.push(self.port(index, port, queues.clone(), &mut offloaded_out, closed));
        }
        let drops = ports.iter_mut().map(|port: &mut PortReport| &mut port.dropped_before_xdp);
        drops_once(open_ports.iter().map(|port| port.ifindex).zip(drops));
        let workers = self.shared.workers.iter().zip(&self.worker_cores).zip(offloaded_out);
        let workers = workers.map(|((state, &core), offloaded_out)| WorkerReport {
            packets: state.packets.load(Ordering::Relaxed),
            bytes: state.bytes.load(Ordering::Relaxed),
            offloaded_in: state.offloaded_in.load(Ordering::Relaxed),
            offloaded_out,
            core: core.filter(|_| !state.unbound.load(Ordering::Relaxed)),
        });
        let seconds = self.started.elapsed().as_secs_f64();
        let threshold_percent = self.threshold_percent();
        let (workers, memory) = (workers.collect(), self.memory.clone());
        Report { seconds, threshold_percent, ports, workers, memory }
    }

    fn port(
        &self,
        index: usize,
        port: &mut OpenPort,
        range: Range<usize>,
        offloaded_out: &mut [u64],
        closed: bool,
    ) -> PortReport {
        let sum = |count: fn(&QueueCounts) -> u64| -> u64 {
            self.shared.queues[range.clone()].iter().map(|queue| count(&queue.lock().source.counts())).sum()
        };
        let mut report = port.report.clone();
        self.measure(&mut report.timestamp, range.clone());
        report.untagged = report.untagged.map(|_| sum(|counts| counts.untagged));
        report.unhashed = report.unhashed.map(|_| sum(|counts| counts.unhashed));
        report.cut = report.cut.map(|_| sum(|counts| counts.cut));
        report.queues =
            range.clone().map(|queue| self.queue(queue, port.mode, offloaded_out, closed)).collect();
        let sent = self.sent.iter().filter(|sent| sent.port == index);
        report.transmitted = sent.map(|sent| sent.report()).collect();
        report.dropped_before_xdp = port.link.as_mut().map_or(0, LinkWatch::dropped);
        let is_sending = !report.transmitted.is_empty();
        report.unsent = port.link.as_mut().filter(|_| is_sending).map(LinkWatch::unsent);
        report.warnings = warnings(port, &report, closed);
        port.backend.iter_mut().for_each(|backend| backend.report(&mut report));
        report
    }

    /// How many packets of a queue went to workers, and how many of these to other workers than its home.
    pub(super) fn delivered(&self, index: usize) -> (u64, u64) {
        let home = self.shared.queues[index].home;
        let (mut all, mut away) = (0, 0);
        for (worker, state) in self.shared.workers.iter().enumerate() {
            let packets = state.delivered[index].load(Ordering::Relaxed);
            all += packets;
            away += if worker == home { 0 } else { packets };
        }
        (all, away)
    }

    /// Adds how the packets of these queues of a port were stamped. Each queue has clocks of its own: the
    /// worst of them counts.
    fn measure(&self, report: &mut TimestampReport, queues: Range<usize>) {
        let (mut uncertainty, mut set_back_ns) = (Spread::new(), 0);
        for queue in &self.shared.queues[queues] {
            let mut owner = queue.lock();
            uncertainty.add(&owner.arrivals.uncertainty);
            set_back_ns = owner.arrivals.set_back_ns.max(set_back_ns);
            if report.source == Timestamp::Batch {
                let of_queue = TimestampReport::batch(&owner.clock);
                let error_bound_ns = report.error_bound_ns.max(of_queue.error_bound_ns);
                *report = TimestampReport { error_bound_ns, ..of_queue };
                continue;
            }
            report.unstamped += owner.source.counts().unstamped;
            owner.source.stamp_clock().into_iter().for_each(|clock| report.learn(clock));
        }
        report.measure(&uncertainty, set_back_ns);
    }

    fn queue(&self, index: usize, mode: QueueMode, offloaded_out: &mut [u64], closed: bool) -> QueueReport {
        let queue = &self.shared.queues[index];
        let (delivered, away) = self.delivered(index);
        offloaded_out[queue.home] += away;
        let mut owner = queue.lock();
        let counts = owner.source.counts();
        let (captured, refused) = (owner.pool.captured_packets(), owner.pool.refused());
        let foreign = owner.pool.foreign();
        let stopped = self.shared.stopping.is_stopping();
        let (gauge, peak) = (owner.gauge(stopped), owner.peak(stopped));
        drop(owner);
        let mut report = QueueReport {
            pool_used_percent: gauge.percent(),
            pool_peak_percent: peak.percent(),
            refused,
            foreign,
            ..counts.report(queue.ring_id, mode)
        };
        report.account.delivered = delivered;
        report.account.lost.left_at_stop = if closed { captured.saturating_sub(delivered) } else { 0 };
        report.unexplained = report.account.unexplained();
        report
    }
}

/// The NIC counts drops for the whole interface: of several ports of one interface, only the first reports
/// them, so that their sum is right.
fn drops_once<'r>(ports: impl Iterator<Item = (Option<u32>, &'r mut u64)>) {
    let mut counted = Vec::new();
    for (ifindex, dropped) in ports {
        if ifindex.is_some() && counted.contains(&ifindex) {
            *dropped = 0;
        }
        counted.push(ifindex);
    }
}

/// What a user should know of a port.
fn warnings(port: &mut OpenPort, report: &PortReport, closed: bool) -> Vec<Diagnostic> {
    let of_queues = port.link.as_mut().and_then(|link| link.warning(closed));
    let mut warnings = Vec::from_iter(of_queues);
    let &TimestampReport { source, unstamped, ref clock, .. } = &report.timestamp;
    warnings.extend((unstamped > 0).then_some(Diagnostic::Unstamped { source, packets: unstamped }));
    let untagged = report.untagged.filter(|&packets| packets > 0);
    warnings.extend(untagged.map(|packets| Diagnostic::Untagged { packets }));
    let cut = report.cut.filter(|&packets| packets > 0);
    warnings.extend(cut.map(|packets| Diagnostic::PacketsCut { packets }));
    let was_set = source != Timestamp::Batch && port.report.timestamp.clock != *clock;
    warnings.extend(was_set.then(|| Diagnostic::ClockSet { clock: clock.clone() }));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_nic_are_reported_once_for_each_interface() {
        // Three ports of one interface, one of another, two traces.
        let interfaces = [Some(2), None, Some(2), Some(3), None, Some(2)];
        let mut drops = [10, 1, 11, 5, 1, 12];
        drops_once(interfaces.into_iter().zip(&mut drops));
        assert_eq!(drops, [10, 1, 0, 5, 1, 0]);
    }
}
