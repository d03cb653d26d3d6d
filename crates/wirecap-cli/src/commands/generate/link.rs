//! Watches the link while frames are sent: an engine notices late that it is lost, or never, as live frames go on being made.

use std::time::Duration;

use anyhow::Result;
use wirecap_sys::netdev::{self, Interface, LinkChanges, LinkFault};
use wirecap_traffic::Error;

/// How often it is looked.
const TICK: Duration = Duration::from_millis(20);

/// The link of the interface that is sent from.
#[derive(Debug)]
pub(super) struct Link {
    changes: LinkChanges,
    interface: String,
    ifindex: u32,
    looked: Duration,
    /// Whether it may be lost.
    is_doubtful: bool,
}

impl Link {
    /// From now on, in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn watch(interface: &Interface) -> Result<Self> {
        let (name, ifindex) = (interface.name.clone(), interface.ifindex);
        let changes = netdev::changes()?;
        // What became of it between when it was opened and now, no change will tell.
        let is_doubtful = LinkFault::now(ifindex).is_some();
        Ok(Self { changes, interface: name, ifindex, looked: Duration::ZERO, is_doubtful })
    }

    /// Why nothing can be sent any more, if that is so; `elapsed` is the time since the start.
    pub(super) fn lost(&mut self, elapsed: Duration) -> Option<Error> {
        if elapsed < self.looked + TICK {
            return None;
        }
        self.looked = elapsed;
        // An error of reading is no news of the link.
        while let Ok(Some(event)) = self.changes.next_event() {
            self.is_doubtful |= LinkFault::told_by(&event, self.ifindex).is_some();
        }
        if !std::mem::take(&mut self.is_doubtful) {
            return None;
        }
        let fault = LinkFault::settled(self.ifindex)?;
        Some(Error::Link { interface: self.interface.clone(), fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_before_it_was_watched_is_lost() {
        let mut interface = netdev::interface("lo").unwrap();
        // As one that was deleted since it was looked up.
        interface.ifindex = i32::MAX as u32;
        let mut link = Link::watch(&interface).unwrap();
        assert!(link.lost(Duration::ZERO).is_none(), "not looked at before its time");
        let lost = link.lost(Duration::from_secs(1)).unwrap();
        assert!(lost.to_string().contains("lo was removed"), "{lost}");
        assert!(link.lost(Duration::from_secs(2)).is_none(), "it is told once");
    }
}
