//! The account, as libpcap words it.

use wirecap::{QueueAccount, Report};

use super::running::Running;
use crate::abi::Stat;

impl Running {
    /// `ps_recv`: packets that passed the filter so far, with those that wait or were lost, which no filter
    /// has seen; `ps_drop`: those that were lost here; `ps_ifdrop`: those that the NIC or its driver dropped.
    ///
    /// Programs call it in signal handlers, tcpdump for instance. So it allocates nothing and waits for no
    /// lock. What the NIC dropped is as of the last look, a second ago at most while the handle is read, or
    /// of the break that ended the loop. The rest is, too, where the function that was interrupted has a
    /// lock.
    pub(crate) fn statistics(&self) -> Stat {
        if let Some(account) = self.capture.try_total() {
            let by_interface = self.last_stat.get().dropped_by_interface;
            self.last_stat.set(self.stat(&account, by_interface));
        }
        self.last_stat.get()
    }

    /// Not for signal handlers.
    pub(super) fn refresh_statistics(&self) {
        if let Some(report) = self.capture.report() {
            self.last_stat.set(self.stat(&report.total(), dropped_by_interface(&report)));
        }
    }

    fn stat(&self, account: &QueueAccount, dropped_by_interface: u32) -> Stat {
        let unwanted = account.filtered + account.passed + self.capture.refused();
        // Counters of libpcap wrap.
        let received = account.seen.saturating_sub(unwanted) as u32;
        Stat { received, dropped: account.lost.total() as u32, dropped_by_interface }
    }
}

fn dropped_by_interface(report: &Report) -> u32 {
    report.ports.iter().map(|port| port.dropped_before_xdp).sum::<u64>() as u32
}
