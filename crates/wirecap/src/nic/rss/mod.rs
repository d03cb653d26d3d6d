//! Symmetric RSS: both directions of a connection come in by one receive queue.
//!
//! ```text
//!   how the NIC hashes now ──┬─ symmetric already ─► nothing to do, and nothing to rely on
//!                            └─ try: the driver's own transforms ─► a key that makes Toeplitz symmetric
//!                                 └─ read back: kept? ─► at the end, what was before is put back
//!   while it runs: not symmetric any more ──┬─ what was before is back, or it was not ours ─► set again, now by us
//!                                           └─ another program has set it ─► left alone, and reported
//! ```
//!
//! Of several processes that want it, the first sets it, and puts it back when it ends. The others then set
//! it anew: each has what it asked for until its own end, and the last puts back what was there before the
//! first.
//!
//! Toeplitz hashes by sliding a window over the key, one bit to the right for each bit of addresses and
//! ports. With a key that repeats every 16 bits, two fields that are a multiple of 16 bits apart can change
//! places. (Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012.)

mod change;
mod parts;

use self::{
    change::{Change, RssDevice},
    parts::{Part, Parts, Place},
};
use wirecap_sys::netdev::{Interface, RssHash, RssReader};

use crate::{
    Error,
    diagnostic::{Cause, RssRefusal},
};

impl RssDevice for RssReader {
    fn get(&mut self) -> Result<RssHash, Cause> {
        Ok(RssReader::get(self)?)
    }

    fn set(&mut self, before: &RssHash, wanted: &RssHash) -> Result<(), Cause> {
        Ok(RssReader::set(self, before, wanted)?)
    }
}

/// What this process has set.
static PARTS: Parts<RssReader> = Parts::new();

/// Symmetric RSS for as long as it, or that of another port of the interface, lives.
pub(crate) type SymmetricRss = Part<RssReader>;

/// Makes the interface hash symmetrically.
pub(crate) fn set(interface: &Interface) -> Result<SymmetricRss, Error> {
    PARTS.take(Place::of(interface.ifindex), || make(interface))
}

fn make(interface: &Interface) -> Result<Change<RssReader>, Error> {
    let name = interface.name.clone();
    let mut device = RssReader::open(interface.ifindex)?;
    let lopsided = device.lopsided_flows()?;
    if !lopsided.is_empty() {
        let reason = RssRefusal::OneEnd { interface: name.clone(), flows: lopsided };
        return Err(Error::Rss { name, reason });
    }
    Change::symmetric(device, &name).map_err(|reason| Error::Rss { name, reason })
}

#[cfg(test)]
mod tests;
