//! A capture that runs, as its handle sees it.

use std::{
    cell::{Cell, RefCell, UnsafeCell},
    io,
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicI32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use wirecap::Interrupter;

use super::{
    account::AccountedCapture,
    changes::Changes,
    held::{Held, now_ns},
    inject::Injector,
    last_stat::LastStat,
    sieve::Sieve,
    workers::{Waiting, Workers},
};
use crate::abi::PacketHeader;

/// Batches without a wanted packet that are skipped before the descriptor is made readable.
const BATCHES_TO_SKIP: u32 = 8;

/// No descriptor has this number.
const NO_DESCRIPTOR: RawFd = -1;

/// How often the ports are looked after: links that went down, programs that were detached.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// A running capture. As with libpcap's handles, one thread at a time reads packets. While it does, other
/// threads may change the filter and the direction, ask for the descriptor and the statistics, send, and
/// break the loop.
pub(crate) struct Running {
    pub(super) capture: Arc<AccountedCapture>,
    /// `None` once the handle is being closed.
    workers: RefCell<Option<Workers>>,
    /// The packets that are being delivered. They are taken out while a callback runs.
    pub(super) held: Cell<Option<Held>>,
    /// The batch after it, which was found when the descriptor was brought up to date.
    pub(super) waiting: Cell<Option<Held>>,
    pub(super) sieve: RefCell<Sieve>,
    /// Changes of the sieve that the reader has not made yet.
    pub(super) changes: Changes,
    pub(super) is_nonblocking: AtomicBool,
    pub(super) format: Format,
    /// When the ports are looked after next.
    pub(super) next_look: Cell<Instant>,
    /// When the latest account is written next.
    pub(super) next_account: Cell<Instant>,
    /// The descriptor for programs that wait by themselves; negative until there is one.
    descriptor: AtomicI32,
    /// The program has asked for it.
    is_selectable: AtomicBool,
    /// A call is delivering packets, or its callback runs.
    is_reading: AtomicBool,
    /// The program has closed the handle while packets were being delivered.
    is_closing: AtomicBool,
    pub(super) last_stat: LastStat,
    injector: Injector,
    /// What `pcap_next_ex` points to.
    pub(super) header: UnsafeCell<PacketHeader>,
    /// A packet that lies in several cells, put together.
    pub(super) whole: UnsafeCell<Vec<u8>>,
}

/// How packets are handed over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    /// Times have nanoseconds instead of microseconds.
    pub(super) has_nanoseconds: bool,
    pub(super) is_nonblocking: bool,
    /// Receive queues whose packets are merged by time; 0: they are not.
    pub(super) merged_queues: usize,
    /// How old merged packets are when they are delivered.
    pub(super) settled: Duration,
}

/// While packets are being delivered.
pub(crate) struct Reading<'r>(&'r Running);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.is_reading.store(false, Release);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // In this order: packets are part of what was delivered, and what no worker took is left.
        let left = [self.held.take(), self.waiting.take()];
        drop(left);
        self.workers.take();
        self.capture.close();
    }
}

impl Running {
    /// For a capture whose packets `sieve` decides on.
    pub(super) fn new(
        (capture, mut workers): (Arc<AccountedCapture>, Workers),
        injector: Injector,
        format: Format,
        sieve: Sieve,
    ) -> Self {
        let changes = Changes::new(sieve.selection(), workers.filter_notice());
        // Made now, since a thread may ask for it while another reads. `selectable_fd` tries again on
        // failure.
        let descriptor = workers.descriptor().unwrap_or(NO_DESCRIPTOR);
        Self {
            capture,
            workers: RefCell::new(Some(workers)),
            held: Cell::new(None),
            waiting: Cell::new(None),
            sieve: RefCell::new(sieve),
            changes,
            is_nonblocking: AtomicBool::new(format.is_nonblocking),
            format,
            // Not at once: netlink can be held up for a second, and the first packets would wait for it.
            next_look: Cell::new(Instant::now() + LOOK),
            next_account: Cell::new(Instant::now()),
            descriptor: AtomicI32::new(descriptor),
            is_selectable: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            last_stat: LastStat::default(),
            injector,
            header: UnsafeCell::new(PacketHeader::EMPTY),
            whole: UnsafeCell::default(),
        }
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        self.with_workers(|workers| workers.interrupter())
    }

    pub(super) fn with_workers<T>(&self, work: impl FnOnce(&mut Workers) -> T) -> T {
        work(self.workers.borrow_mut().as_mut().expect("they are there until the handle is closed"))
    }

    pub(super) fn ifindex(&self) -> u32 {
        self.injector.ifindex()
    }

    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<usize> {
        self.injector.send(packet, &self.capture)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, wanted: bool) {
        self.is_nonblocking.store(wanted, Relaxed);
    }

    /// A descriptor for select(2), poll(2) and epoll(7), which stays the handle's.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(crate) fn selectable_fd(&self) -> io::Result<RawFd> {
        if self.descriptor.load(Relaxed) == NO_DESCRIPTOR {
            if self.is_reading() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            self.descriptor.store(self.with_workers(Workers::descriptor)?, Relaxed);
        }
        // It is readable from the start; the call that follows brings it up to date at its end.
        self.is_selectable.store(true, Relaxed);
        Ok(self.descriptor.load(Relaxed))
    }

    /// Brings the descriptor up to date, if the program has asked for it. After each call that takes packets.
    /// `has_delivered`: the program takes what is left before it waits.
    pub(super) fn update_selectable(&self, has_delivered: bool) {
        if self.is_selectable.load(Relaxed) {
            let due = self.time_to_wait();
            self.with_workers(|workers| workers.set_due(due, has_delivered));
        }
    }

    /// Whether the program may have been woken by its descriptor.
    pub(super) fn is_readable(&self) -> bool {
        self.is_selectable.load(Relaxed) && self.with_workers(|workers| workers.is_readable())
    }

    /// When a call has something to do: now, or unless the descriptor becomes readable, after this time.
    fn time_to_wait(&self) -> Duration {
        for _ in 0..BATCHES_TO_SKIP {
            if self.has_held_packet(&self.held) {
                return self.time_to_due();
            }
            if self.has_held_packet(&self.waiting) {
                break;
            }
            match self.with_workers(Workers::arm) {
                Waiting::For(time) => return time,
                Waiting::Batch(batch) => self.waiting.set(Some(Held::new(batch))),
                Waiting::Not => break,
            }
        }
        Duration::ZERO
    }

    /// When a packet that is held can be delivered.
    fn time_to_due(&self) -> Duration {
        let Some(mut held) = self.held.take() else { return Duration::ZERO };
        let time = held.time_to_due(now_ns(), self.format.settled);
        self.held.set(Some(held));
        if self.format.merged_queues == 0 { Duration::ZERO } else { time }
    }

    /// Begins to deliver packets. `None` if that goes on already: a callback, or a signal handler, has called
    /// for packets.
    pub(crate) fn begin_reading(&self) -> Option<Reading<'_>> {
        (!self.is_reading.swap(true, Acquire)).then(|| Reading(self))
    }

    /// Whether packets are being delivered: then the caller is a callback, or a signal handler that has
    /// interrupted anything.
    pub(crate) fn is_reading(&self) -> bool {
        self.is_reading.load(Relaxed)
    }

    /// The handle is to be closed once packets are no longer being delivered.
    pub(crate) fn close_later(&self) {
        self.is_closing.store(true, Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Skips refused packets; returns whether a wanted one follows.
    fn has_held_packet(&self, place: &Cell<Option<Held>>) -> bool {
        let Some(mut held) = place.take() else { return false };
        // Not `whole`, which may hold the packet that the program reads now.
        let mut room = Vec::new();
        let is_refused =
            |packet: &wirecap::Packet<'_>| self.sieve().bytes(packet, packet.contiguous(&mut room)) == 0;
        let refused = held.skip(is_refused);
        held.counts().settle(refused, refused);
        let finds = !held.is_empty();
        place.set(Some(held));
        finds
    }
}
