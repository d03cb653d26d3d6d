//! What is known of next hops: which have an Ethernet address, which are asked for, which do not answer.
//!
//! ```text
//!            wanted                     found
//!   (none) ─────────► asked for ──────────────────────► known ──► unused for a minute, removed ──► (none)
//!      ▲                  │ does not answer               └─────► does not answer any more ────────► (none)
//!      │ a pause is over  ▼
//!      └─────────────── silent
//! ```
//!
//! Rules: the kernel's events report what was found and what failed, nothing is asked twice. A next hop that
//! does not answer is left alone for a pause, which doubles each time; if an event reports its address, it is
//! known at once. One that was known is asked again with the next packet, as in Linux: it may only have
//! missed a probe, and packets wait for its answer. All tables have a bound, and a full one gives up the
//! oldest entry, or an unused one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use wirecap_headers::MacAddress;
use wirecap_sys::netdev::{AskedNeighbour, Neighbour, NeighbourState};

use super::{
    Hop, UnresolvedHop,
    counts::{NextHopCounts, count},
    hop_requests::{HopRequests, Room},
};

/// Next hops that are kept with their Ethernet addresses.
const MAX_KNOWN: usize = 4096;
/// Next hops that are remembered as silent.
const MAX_SILENT: usize = 4096;
/// How often the known ones are checked for use.
pub(crate) const REFRESH: Duration = Duration::from_secs(5);
/// Refreshes after which an unused one is forgotten.
const REFRESHES_UNUSED: u32 = 12;
/// How long one that did not answer is left alone, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// How long a silent one is remembered after its pause.
const MEMORY: Duration = Duration::from_secs(30);

/// The kernel's table of neighbours.
pub(crate) trait Kernel {
    /// Has it find out a neighbour, or ask anew if that is stale; gives the entry.
    fn ask(&mut self, hop: Hop) -> Result<AskedNeighbour, Refusal>;

    /// The entry of a neighbour, if there is one.
    fn get(&mut self, hop: Hop) -> Option<Neighbour>;

    /// Stops asking for one that does not answer. Only for an entry that [`Kernel::ask`] made: packets of the
    /// host may wait for others.
    fn forget(&mut self, hop: Hop);
}

/// Why the kernel does not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its table has no room.
    TableFull,
    /// The interface is down or gone, for instance, which the next packet finds out as well.
    Other,
}

/// What workers know of a next hop.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Known(Arc<ReachableHop>),
    /// It did not answer, and is left alone until then.
    Silent(Instant),
}

/// A next hop that packets can be sent to.
#[derive(Debug)]
pub(crate) struct ReachableHop {
    pub(crate) mac: MacAddress,
    /// Set by workers, cleared by the resolver; pairs with nothing, since it guards no other memory.
    pub(crate) used: AtomicBool,
}

/// What workers look up.
pub(crate) type Table = HashMap<Hop, Entry>;

#[derive(Debug)]
struct KnownHop {
    reached: Arc<ReachableHop>,
    /// The kernel has to verify it when it is used.
    is_stale: bool,
    /// For how many refreshes it was not used.
    unused: u32,
}

#[derive(Debug)]
struct SilentHop {
    until: Instant,
    pause: Duration,
}

/// All next hops that were wanted recently.
#[derive(Debug)]
pub(crate) struct NextHops {
    known: HashMap<Hop, KnownHop>,
    asked: HopRequests,
    silent: HashMap<Hop, SilentHop>,
    counts: Arc<NextHopCounts>,
    refreshed: Instant,
    /// The table that workers have is not up to date.
    has_changed: bool,
}

impl NextHops {
    pub(crate) fn new(counts: Arc<NextHopCounts>, now: Instant) -> Self {
        Self {
            known: HashMap::new(),
            asked: HopRequests::default(),
            silent: HashMap::new(),
            counts,
            refreshed: now,
            has_changed: false,
        }
    }

    /// A packet of this source goes to a next hop that no worker knows.
    pub(crate) fn want(
        &mut self,
        kernel: &mut impl Kernel,
        UnresolvedHop { hop, source }: UnresolvedHop,
        now: Instant,
    ) {
        let is_left_alone = self.silent.get(&hop).is_some_and(|silence| now < silence.until);
        if is_left_alone || self.known.contains_key(&hop) || self.asked.contains(hop) {
            return;
        }
        match self.asked.room(source, now) {
            Room::Free => {}
            Room::InsteadOf(other) => {
                if self.asked.has_made(other) {
                    kernel.forget(other);
                }
                self.asked.remove(other);
                count(&self.counts.crowded_out);
            }
            Room::None => return count(&self.counts.crowded_out),
        }
        match kernel.ask(hop) {
            Ok(AskedNeighbour { entry: Some(neighbour), is_new }) => {
                count(&self.counts.asked);
                self.asked.insert(hop, source, is_new, now);
                self.look_at(hop, neighbour, now);
            }
            // It was removed at once: the next packet tries again.
            Ok(AskedNeighbour { entry: None, .. }) | Err(Refusal::Other) => {}
            Err(Refusal::TableFull) => count(&self.counts.table_full),
        }
    }

    /// The kernel says that an entry has changed.
    pub(crate) fn changed(&mut self, hop: Hop, neighbour: Neighbour, now: Instant) {
        if neighbour.state == NeighbourState::Failed && self.asked.remove(hop) {
            self.silence(hop, now);
        } else {
            self.look_at(hop, neighbour, now);
        }
    }

    /// The kernel says that an entry is gone.
    pub(crate) fn removed(&mut self, hop: Hop) {
        self.forget(hop);
    }

    /// The link of a port has come up: what did not answer may do so now.
    pub(crate) fn link_is_up(&mut self, port: usize) {
        let before = self.silent.len();
        self.silent.retain(|hop, _| hop.port != port);
        self.has_changed |= self.silent.len() != before;
    }

    /// Events were lost: looks at everything.
    pub(crate) fn look_again(&mut self, kernel: &mut impl Kernel, now: Instant) {
        let hops: Vec<_> = self.known.keys().copied().chain(self.asked.since(now)).collect();
        for hop in hops {
            self.look_at_anew(kernel, hop, now);
        }
    }

    /// Periodic upkeep of all next hops.
    pub(crate) fn refresh(&mut self, kernel: &mut impl Kernel, now: Instant) {
        if now.duration_since(self.refreshed) < REFRESH {
            return;
        }
        self.refreshed = now;
        let mut stale = Vec::new();
        let before = self.known.len();
        self.known.retain(|hop, known| {
            let is_used = known.reached.used.swap(false, Ordering::Relaxed);
            known.unused = if is_used { 0 } else { known.unused + 1 };
            if is_used && known.is_stale {
                stale.push(*hop);
            }
            known.unused < REFRESHES_UNUSED
        });
        self.has_changed |= self.known.len() != before;
        // The kernel probes a stale one, and announces a failure as an event.
        for hop in stale {
            let _ = kernel.ask(hop);
        }
        // The kernel gives up after three seconds: an event was missed, or it asks more often than by
        // default.
        let long = now.checked_sub(REFRESH).map(|then| self.asked.since(then).collect::<Vec<_>>());
        for hop in long.unwrap_or_default() {
            self.look_at_anew(kernel, hop, now);
        }
        self.silent.retain(|_, silence| now < silence.until + MEMORY);
    }

    /// The table for workers, if it is another one than the last.
    pub(crate) fn take_table(&mut self) -> Option<Table> {
        std::mem::take(&mut self.has_changed).then(|| {
            let known =
                self.known.iter().map(|(&hop, known)| (hop, Entry::Known(Arc::clone(&known.reached))));
            let silent = self.silent.iter().map(|(&hop, silence)| (hop, Entry::Silent(silence.until)));
            // None is among both.
            known.chain(silent).collect()
        })
    }

    fn look_at_anew(&mut self, kernel: &mut impl Kernel, hop: Hop, now: Instant) {
        match kernel.get(hop) {
            Some(neighbour) => self.changed(hop, neighbour, now),
            None => self.removed(hop),
        }
    }

    /// Applies a kernel entry that has not failed.
    fn look_at(&mut self, hop: Hop, neighbour: Neighbour, now: Instant) {
        match neighbour.usable_mac() {
            Some(mac) => self.found(hop, mac, &neighbour),
            // Not the kernel's to change, and unusable: the address of a group, for instance. No answer will
            // change it.
            None if !neighbour.is_kernels_own || neighbour.state == NeighbourState::Valid => {
                if self.forget(hop) {
                    self.silence(hop, now);
                }
            }
            // Not known any more, if it was; or still asked for.
            None => self.has_changed |= self.known.remove(&hop).is_some(),
        }
    }

    /// Takes out what is known or asked for. Returns whether it was.
    fn forget(&mut self, hop: Hop) -> bool {
        let was_known = self.known.remove(&hop).is_some();
        self.has_changed |= was_known;
        self.asked.remove(hop) || was_known
    }

    /// A next hop has this Ethernet address. Those that were not wanted are ignored.
    fn found(&mut self, hop: Hop, mac: MacAddress, neighbour: &Neighbour) {
        let is_stale = neighbour.is_kernels_own && neighbour.state == NeighbourState::Stale;
        if let Some(known) = self.known.get_mut(&hop).filter(|known| known.reached.mac == mac) {
            known.is_stale = is_stale;
            return;
        }
        let was_asked = self.asked.remove(hop);
        let was_silent = self.silent.remove(&hop).is_some();
        let was_known = self.known.contains_key(&hop);
        if !was_asked && !was_silent && !was_known {
            return;
        }
        if !was_known {
            count(&self.counts.found);
            self.make_room();
        }
        let reached = Arc::new(ReachableHop { mac, used: AtomicBool::new(true) });
        self.known.insert(hop, KnownHop { reached, is_stale, unused: 0 });
        self.has_changed = true;
    }

    /// Makes room for one more that is known, in place of the one that was unused for longest.
    fn make_room(&mut self) {
        if self.known.len() == MAX_KNOWN {
            let is_used = |known: &KnownHop| known.reached.used.load(Ordering::Relaxed);
            let least = self.known.iter().max_by_key(|(_, known)| (!is_used(known), known.unused));
            let hop = least.map(|(hop, _)| *hop);
            hop.and_then(|hop| self.known.remove(&hop));
        }
    }

    /// Notes that a next hop does not answer.
    fn silence(&mut self, hop: Hop, now: Instant) {
        count(&self.counts.silent);
        let before = self.silent.remove(&hop);
        if self.silent.len() == MAX_SILENT {
            let oldest = self.silent.iter().min_by_key(|(_, silence)| silence.until).map(|(hop, _)| *hop);
            oldest.and_then(|hop| self.silent.remove(&hop));
        }
        let pause = before.map_or(FIRST_PAUSE, |silence| (silence.pause * 2).min(MAX_PAUSE));
        self.silent.insert(hop, SilentHop { until: now + pause, pause });
        self.has_changed = true;
    }
}

/// The next hop that an entry of the kernel's is about, if it is on one of these interfaces, in the order of
/// the ports.
pub(crate) fn hop_of(ports: &[u32], ifindex: u32, address: IpAddr) -> Option<Hop> {
    let port = ports.iter().position(|&port| port == ifindex)?;
    Some(Hop { port, address })
}

#[cfg(test)]
pub(crate) mod tests;
