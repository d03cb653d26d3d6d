//! Ethernet addresses of next hops: wanted by workers, found out by the kernel, kept by a thread of their own.
//!
//! ```text
//!   worker ── not known ──► wanted ──► resolver thread ──► the kernel's ARP and neighbour discovery
//!      └────── known ◄── a new table, now and then ◄──┘
//! ```
//!
//! Rule: a worker never waits for it. It reads a table of its own, and takes a new one when there is one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use wirecap_headers::MacAddress;
use wirecap_sys::netdev::Neighbours;

use crate::idle_thread::no_thread;

/// Next hops that may be wanted before the resolver has looked.
const WANTED_AT_ONCE: usize = 1024;
/// Next hops that are kept, as many as the kernel keeps by default.
const MOST: usize = 1024;
/// How often the kernel is asked for those that it has not found yet.
const TICK: Duration = Duration::from_millis(2);
/// How long it has for one.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often those that are known are tried anew.
const REFRESH: Duration = Duration::from_secs(5);
/// Refreshes after which one that nobody uses is forgotten.
const REFRESHES_UNUSED: u32 = 12;
/// How often a worker asks for the same one.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A next hop: a port, and an address on its link.
pub(super) type Hop = (usize, IpAddr);

#[derive(Debug)]
struct Known {
    mac: MacAddress,
    used: AtomicBool,
}

type Table = HashMap<Hop, Arc<Known>>;

/// What resolver and workers share.
#[derive(Debug)]
struct Shared {
    table: Mutex<Arc<Table>>,
    /// Grows with each new table.
    generation: AtomicU64,
}

/// A worker's view of the next hops.
#[derive(Debug, Clone)]
pub(super) struct Hops {
    shared: Arc<Shared>,
    table: Arc<Table>,
    generation: u64,
    wanted: SyncSender<Hop>,
    asked: HashMap<Hop, Instant>,
}

impl Hops {
    /// Starts the resolver for these ports, by their interface indexes, in the network namespace of the calling thread. It
    /// ends with the last clone of what it gives.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn start(ports: Vec<u32>) -> Result<Self> {
        let neighbours = Neighbours::open()?;
        let (wanted, wishes) = sync_channel(WANTED_AT_ONCE);
        let shared = Arc::new(Shared { table: Mutex::default(), generation: AtomicU64::new(0) });
        let resolver = Resolver {
            ports,
            neighbours,
            shared: Arc::clone(&shared),
            known: Table::new(),
            unknown: HashMap::new(),
            unused: HashMap::new(),
            refreshed: Instant::now(),
        };
        thread::Builder::new()
            .name("wirecap-hops".into())
            .spawn(move || resolver.run(&wishes))
            .map_err(|cause| no_thread("wirecap-hops", &cause))?;
        Ok(Self { shared, table: Arc::default(), generation: 0, wanted, asked: HashMap::new() })
    }

    /// Takes the newest table. Returns whether it is another one.
    pub(super) fn refresh(&mut self) -> bool {
        let generation = self.shared.generation.load(Ordering::Acquire);
        let is_new = generation != self.generation;
        if is_new {
            self.table = Arc::clone(&self.shared.table.lock().unwrap_or_else(PoisonError::into_inner));
            self.generation = generation;
            self.asked.retain(|_, asked| asked.elapsed() < ASK_AGAIN);
        }
        is_new
    }

    /// The Ethernet address of a next hop; if it is not known, it is asked for.
    pub(super) fn look_up(&mut self, hop: Hop) -> Option<MacAddress> {
        if let Some(known) = self.table.get(&hop) {
            if !known.used.load(Ordering::Relaxed) {
                known.used.store(true, Ordering::Relaxed);
            }
            return Some(known.mac);
        }
        if self.asked.len() == MOST {
            // Many that do not answer must not keep others from being asked for.
            self.asked.retain(|_, asked| asked.elapsed() < ASK_AGAIN);
        }
        let asked = self.asked.get(&hop).is_some_and(|asked| asked.elapsed() < ASK_AGAIN);
        if !asked && self.asked.len() < MOST && self.wanted.try_send(hop).is_ok() {
            self.asked.insert(hop, Instant::now());
        }
        None
    }
}

struct Resolver {
    ports: Vec<u32>,
    neighbours: Neighbours,
    shared: Arc<Shared>,
    known: Table,
    /// Since when they are asked for.
    unknown: HashMap<Hop, Instant>,
    /// For how many refreshes nobody has used them.
    unused: HashMap<Hop, u32>,
    refreshed: Instant,
}

impl Resolver {
    fn run(mut self, wishes: &Receiver<Hop>) {
        loop {
            let patience = if self.unknown.is_empty() { REFRESH } else { TICK };
            match wishes.recv_timeout(patience) {
                Ok(hop) => self.want(hop),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            wishes.try_iter().for_each(|hop| self.want(hop));
            let mut changed = self.look();
            if self.refreshed.elapsed() >= REFRESH {
                self.refreshed = Instant::now();
                changed |= self.refresh();
            }
            if changed {
                *self.shared.table.lock().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(self.known.clone());
                self.shared.generation.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn want(&mut self, hop: Hop) {
        if !self.known.contains_key(&hop) && self.known.len() + self.unknown.len() < MOST {
            let ifindex = self.ports[hop.0];
            // An interface that is down or gone cannot be asked by: the next packet tries again.
            if self.neighbours.ask(ifindex, hop.1).is_ok() {
                self.unknown.entry(hop).or_insert_with(Instant::now);
            }
        }
    }

    fn find(&mut self, hop: Hop) -> Option<MacAddress> {
        self.neighbours.address(self.ports[hop.0], hop.1).ok().flatten()
    }

    /// Whether any of those that are asked for has been found, or was given up.
    fn look(&mut self) -> bool {
        let before = self.known.len();
        for (hop, since) in std::mem::take(&mut self.unknown) {
            if let Some(mac) = self.find(hop) {
                self.known.insert(hop, Arc::new(Known { mac, used: AtomicBool::new(true) }));
            } else if since.elapsed() < PATIENCE {
                self.unknown.insert(hop, since);
            }
        }
        self.known.len() != before
    }

    /// Tries all that are known anew, and forgets those that are not there any more, or that nobody uses.
    fn refresh(&mut self) -> bool {
        let mut changed = false;
        for (hop, known) in self.known.clone() {
            let unused = self.unused.entry(hop).or_default();
            *unused = if known.used.swap(false, Ordering::Relaxed) { 0 } else { *unused + 1 };
            let is_used = *unused < REFRESHES_UNUSED;
            if is_used {
                // What is stale is probed; what does not answer is gone at the next look.
                let _ = self.neighbours.ask(self.ports[hop.0], hop.1);
            }
            match self.find(hop).filter(|_| is_used) {
                Some(mac) if mac == known.mac => {}
                Some(mac) => {
                    self.known.insert(hop, Arc::new(Known { mac, used: AtomicBool::new(true) }));
                    changed = true;
                }
                None => {
                    self.known.remove(&hop);
                    self.unused.remove(&hop);
                    changed = true;
                }
            }
        }
        changed
    }
}
