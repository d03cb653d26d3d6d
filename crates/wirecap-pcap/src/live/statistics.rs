//! The account, as libpcap words it.

use wirecap::Capture;

use super::running::Running;
use crate::abi::Stat;

impl Running {
    /// `ps_recv`: packets that passed the filter so far, with those that wait or were lost, which no filter
    /// has seen; `ps_drop`: those that were lost here; `ps_ifdrop`: those that the NIC or its driver dropped.
    pub(crate) fn statistics(&self) -> Stat {
        let report = self.capture.lock().as_ref().map(Capture::report);
        let Some(report) = report else { return Stat::default() };
        let total = report.total();
        let received = total.seen.saturating_sub(total.filtered + total.passed + self.capture.refused());
        let by_interface: u64 = report.ports.iter().map(|port| port.dropped_before_xdp).sum();
        // Counters of libpcap wrap.
        Stat {
            received: received as u32,
            dropped: total.lost.total() as u32,
            dropped_by_interface: by_interface as u32,
        }
    }
}
