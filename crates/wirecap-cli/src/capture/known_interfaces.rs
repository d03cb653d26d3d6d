//! Interfaces that were looked up, so that the kernel is asked once about each between the command line and
//! the capture.

use std::time::{Duration, Instant};

use wirecap_sys::netdev::{self, Interface};

/// How long the answer of the kernel is used: addresses, programs and queues of an interface change.
const FRESH: Duration = Duration::from_secs(1);

/// What the kernel said about interfaces, and when.
#[derive(Debug, Default)]
pub(crate) struct KnownInterfaces(Vec<(Instant, Interface)>);

impl KnownInterfaces {
    /// Finds an interface by one of its names; asks the kernel only about an unknown one.
    ///
    /// # Errors
    /// Why there is no such interface.
    pub(crate) fn look_up(&mut self, name: &str) -> Result<Interface, wirecap::Error> {
        if let Some((_, known)) = self.0.iter().find(|(_, known)| known.is_called(name)) {
            return Ok(known.clone());
        }
        let interface = netdev::interface(name)?;
        self.0.push((Instant::now(), interface.clone()));
        Ok(interface)
    }

    /// The interfaces that may be handed on. Older ones may have changed, for instance while a pipe had no
    /// reader.
    pub(crate) fn fresh(&self) -> Vec<Interface> {
        let fresh = self.0.iter().filter(|(looked_up, _)| looked_up.elapsed() < FRESH);
        fresh.map(|(_, interface)| interface.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_looked_up_once_and_reused_while_it_is_fresh() {
        let mut known = KnownInterfaces::default();
        assert!(known.look_up("no0such").is_err() && known.fresh().is_empty());
        assert_eq!(known.look_up("lo").unwrap().name, "lo");
        // A known interface is not queried again: the kernel would report another MTU.
        known.0[0].1.mtu = 7;
        assert_eq!((known.look_up("lo").unwrap().mtu, known.fresh()[0].mtu), (7, 7));
        let Some(long_ago) = Instant::now().checked_sub(FRESH) else { return };
        known.0[0].0 = long_ago;
        assert_eq!(known.fresh(), []);
    }
}
