//! Ethernet addresses of next hops: wanted by workers, found out by the kernel, kept by a thread of their own.
//!
//! ```text
//!   worker ── not known ──► wish ──► resolver thread ──► the kernel's ARP and neighbour discovery
//!      │                                    ▲                         │
//!      │                                    └──── its events ◄────────┘
//!      └─ known, silent ◄── a new table ◄───┘
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what is known, asked for, silent | [`next_hops`] |
//! | who is asked for when many are wanted | [`asked`], [`source`] |
//! | the thread, and its way to the kernel | [`resolver`] |
//!
//! Rules: a worker never waits for it. It reads a table of its own, and takes a new one when there is one. And what one source
//! of packets wants costs the others little, whatever it wants: a scan of addresses that no host has is one source that wants much.

mod asked;
mod next_hops;
mod resolver;
mod source;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use nix::sys::eventfd::{EfdFlags, EventFd};
use wirecap_headers::MacAddress;

pub(super) use self::{next_hops::NextHopReport, source::Source};
use self::{
    next_hops::{Entry, NextHopCounts, Table},
    resolver::Resolver,
};
use crate::idle_thread::no_thread;

/// Next hops that may be wanted before the resolver has looked.
const WANTED_AT_ONCE: usize = 1024;
/// How often a worker asks for the same one.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Wishes of which a worker remembers when it had them.
const REMEMBERED: usize = 1024;
/// Groups of sources, each of which may have a number of wishes in a while.
const GROUPS: usize = 256;
const WHILE: Duration = Duration::from_millis(10);
const WISHES_IN_A_WHILE: u32 = 32;

/// A next hop: a port, and an address on its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    pub(super) port: usize,
    pub(super) address: IpAddr,
}

/// A next hop that packets of a source go to, and that no worker knows.
#[derive(Debug, Clone, Copy)]
struct Wish {
    hop: Hop,
    source: Source,
}

/// What resolver and workers share.
#[derive(Debug)]
struct Shared {
    /// Written by the resolver.
    table: Mutex<Arc<Table>>,
    /// Grows with each new table. Written by the resolver; pairs with the load in [`Hops::refresh`].
    generation: AtomicU64,
    /// Wishes on their way. Grows before one is sent, and shrinks after it was received.
    wishes: AtomicUsize,
    /// Set by the resolver before it sleeps, taken back by who wakes it.
    sleeps: AtomicBool,
    /// Wakes the resolver.
    alarm: EventFd,
    counts: Arc<NextHopCounts>,
}

impl Shared {
    /// Wakes the resolver, if it sleeps: one system call however many wishes there are while it is awake.
    fn wake(&self) {
        // Pairs with the fence of `Resolver::sleep`.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            // It cannot overflow: it is read whenever it has woken the resolver.
            let _ = self.alarm.write(1);
        }
    }
}

/// What is known of a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Mac(MacAddress),
    /// It is asked for.
    NotYet,
    /// It did not answer a moment ago.
    Silent,
}

/// A worker's view of the next hops.
#[derive(Debug, Clone)]
pub(super) struct Hops {
    shared: Arc<Shared>,
    table: Arc<Table>,
    generation: u64,
    wanted: SyncSender<Wish>,
    restraint: Restraint,
    /// Read once per batch.
    now: Instant,
}

impl Hops {
    /// Starts the resolver for these ports, by their interface indexes, in the network namespace of the calling thread. It
    /// ends with the last clone of what it gives.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn start(ports: Vec<u32>) -> Result<Self> {
        let alarm = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(|cause| {
            anyhow!("cannot make what wakes the thread that finds out next hops: {cause}")
        })?;
        let shared = Arc::new(Shared {
            table: Mutex::default(),
            generation: AtomicU64::new(0),
            wishes: AtomicUsize::new(0),
            sleeps: AtomicBool::new(false),
            alarm,
            counts: Arc::default(),
        });
        let resolver = Resolver::open(ports, Arc::clone(&shared))?;
        let (wanted, wishes) = sync_channel(WANTED_AT_ONCE);
        thread::Builder::new()
            .name("wirecap-hops".into())
            .spawn(move || resolver.run(&wishes))
            .map_err(|cause| no_thread("wirecap-hops", &cause))?;
        let now = Instant::now();
        Ok(Self { shared, table: Arc::default(), generation: 0, wanted, restraint: Restraint::new(), now })
    }

    /// Takes the newest table. Returns whether it is another one.
    pub(super) fn refresh(&mut self) -> bool {
        self.now = Instant::now();
        let generation = self.shared.generation.load(Ordering::Acquire);
        let is_new = generation != self.generation;
        if is_new {
            self.table = Arc::clone(&self.shared.table.lock().unwrap_or_else(PoisonError::into_inner));
            self.generation = generation;
        }
        is_new
    }

    /// When it was refreshed.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// What is known of the next hop of a packet; what is not known is asked for.
    pub(super) fn look_up(&mut self, hop: Hop, source: Source) -> Found {
        match self.table.get(&hop) {
            Some(Entry::Known(reached)) => {
                if !reached.used.load(Ordering::Relaxed) {
                    reached.used.store(true, Ordering::Relaxed);
                }
                Found::Mac(reached.mac)
            }
            Some(Entry::Silent(until)) if self.now < *until => Found::Silent,
            _ => {
                self.wish(Wish { hop, source });
                Found::NotYet
            }
        }
    }

    /// What became of the next hops that were wanted.
    pub(super) fn counts(&self) -> NextHopCountsReader {
        NextHopCountsReader(Arc::clone(&self.shared.counts))
    }

    #[cold]
    fn wish(&mut self, wish: Wish) {
        match self.restraint.of(wish, self.now) {
            Restrained::AskedAlready => {}
            Restrained::TooMany => self.shared.counts.count_crowded_out(),
            Restrained::Not => {
                self.shared.wishes.fetch_add(1, Ordering::Relaxed);
                match self.wanted.try_send(wish) {
                    Ok(()) => self.restraint.remember(wish.hop, self.now),
                    Err(_) => {
                        self.shared.wishes.fetch_sub(1, Ordering::Relaxed);
                        self.shared.counts.count_crowded_out();
                    }
                }
                self.shared.wake();
            }
        }
    }
}

/// Reads what became of next hops, without keeping the resolver.
#[derive(Debug)]
pub(super) struct NextHopCountsReader(Arc<NextHopCounts>);

impl NextHopCountsReader {
    pub(super) fn report(&self) -> NextHopReport {
        self.0.report()
    }
}

/// Whether a wish is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restrained {
    Not,
    AskedAlready,
    TooMany,
}

/// Keeps a worker from wishing too much, in memory that is bounded: a flood of packets to unknown next hops is no flood of
/// wishes.
#[derive(Debug, Clone)]
struct Restraint {
    /// Hashes are not to be guessed by who sends packets.
    hasher: RandomState,
    /// Which next hop was asked for, and when: the last of those that have the same place.
    asked: Box<[Option<(Hop, Instant)>]>,
    /// How many wishes each group of sources had in the while that began then.
    groups: Box<[(Instant, u32)]>,
}

impl Restraint {
    fn new() -> Self {
        let never = Instant::now();
        let (asked, groups) = (vec![None; REMEMBERED], vec![(never, 0); GROUPS]);
        Self { hasher: RandomState::new(), asked: asked.into(), groups: groups.into() }
    }

    fn place(&self, what: impl Hash, places: usize) -> usize {
        self.hasher.hash_one(what) as usize % places
    }

    fn of(&mut self, wish: Wish, now: Instant) -> Restrained {
        let asked = self.asked[self.place(wish.hop, REMEMBERED)];
        if asked.is_some_and(|(hop, then)| hop == wish.hop && now.duration_since(then) < ASK_AGAIN) {
            return Restrained::AskedAlready;
        }
        let place = self.place(wish.source, GROUPS);
        let (begun, wishes) = &mut self.groups[place];
        if now.duration_since(*begun) >= WHILE {
            (*begun, *wishes) = (now, 0);
        }
        *wishes += 1;
        if *wishes > WISHES_IN_A_WHILE { Restrained::TooMany } else { Restrained::Not }
    }

    fn remember(&mut self, hop: Hop, now: Instant) {
        let place = self.place(hop, REMEMBERED);
        self.asked[place] = Some((hop, now));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn wish(hop: u32, source: u32) -> Wish {
        let hop = Hop { port: 1, address: Ipv4Addr::from_bits(hop).into() };
        Wish { hop, source: Source::new(0, Ipv4Addr::from_bits(source).into()) }
    }

    #[test]
    fn the_same_next_hop_is_asked_for_now_and_then() {
        let (mut restraint, now) = (Restraint::new(), Instant::now());
        assert_eq!(restraint.of(wish(1, 1), now), Restrained::Not);
        restraint.remember(wish(1, 1).hop, now);
        assert_eq!(restraint.of(wish(1, 2), now + ASK_AGAIN / 2), Restrained::AskedAlready);
        assert_eq!(restraint.of(wish(1, 1), now + ASK_AGAIN), Restrained::Not);
    }

    #[test]
    fn a_flood_of_one_source_is_no_flood_of_wishes_and_leaves_others_theirs() {
        let (mut restraint, now) = (Restraint::new(), Instant::now());
        let heard = |restraint: &mut Restraint, source, now| {
            (0..10_000).filter(|&hop| restraint.of(wish(hop, source), now) == Restrained::Not).count()
        };
        let share = WISHES_IN_A_WHILE as usize;
        assert_eq!(heard(&mut restraint, 1, now), share);
        assert_eq!(heard(&mut restraint, 1, now + WHILE / 2), 0);
        assert_eq!(heard(&mut restraint, 1, now + WHILE), share);
        // Of the many groups that there are, few are the flood's.
        let others =
            (100..200).filter(|&source| restraint.of(wish(7, source), now + WHILE) == Restrained::Not);
        assert!(others.count() > 90);
    }
}
