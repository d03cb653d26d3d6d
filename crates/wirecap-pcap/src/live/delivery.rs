//! Packets on their way to the program.
//!
//! ```text
//!   worker ── batch ──► Held ── packet ──► sieve ── wanted ──► callback(header, pointer into the cell)
//! ```
//!
//! As in libpcap on Linux, a call blocks until a packet comes, then delivers the packets of one batch, or of
//! one round through several queues; it ends early when the loop is broken. Only packets that lie in several
//! cells are copied.

use std::{
    cell::Ref,
    ffi::c_int,
    ptr,
    time::{Duration, Instant},
};

use wirecap::Packet;
use wirecap_filter::Insn;

use super::{
    Breaker,
    changes::Change,
    held::{Held, SETTLED, now_ns},
    running::{LOOK, Running},
    sieve::{NewFilter, Sieve},
    workers::NextBatch,
};
use crate::{
    abi::{ERROR, ERROR_BREAK, PacketHeader},
    text::ErrorText,
};

/// libpcap's text for an interface that was removed.
const GONE: &str = "The interface disappeared";

/// The program has closed all descriptors, for instance to become a daemon.
const CUT_OFF: &str = "the program has closed the descriptors of this capture";

/// A round takes this number of batches at most: the worker may never run out of them.
const MAX_BATCHES_OF_ROUND: u32 = 4096;

/// How long a call that must not wait looks for packets that the sieve lets pass.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// How often the latest account is written.
const ACCOUNT: Duration = Duration::from_millis(250);

/// How long the last packets of an interface that is gone are awaited: as long as they may be held back for
/// others.
const LAST: Duration = SETTLED;

/// How long a call waits before it returns to the edge, where the thread may be cancelled.
const SLICE: Duration = Duration::from_millis(250);

/// What becomes of a batch whose packets are all delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterDelivery {
    /// Its cells go home at once.
    Release,
    /// It stays until the next call, since the program has a pointer into it.
    Keep,
}

/// What became of a call that delivers packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The number of packets, or a negative status with an error text.
    Status(c_int),
    /// Nothing has come yet, and the handle blocks: the call is to be made again.
    Waits,
}

impl Running {
    /// Delivers packets to `sink`, at most `limit`.
    pub(crate) fn deliver(
        &self,
        breaker: &Breaker,
        error: &ErrorText,
        limit: Option<u32>,
        after: AfterDelivery,
        sink: impl FnMut(&PacketHeader, *const u8),
    ) -> Delivery {
        let delivery = self.deliver_what_comes(breaker, error, limit, after, sink);
        if !self.is_closing() {
            // A program that gets nothing goes back to wait, perhaps for an edge.
            self.update_selectable(matches!(delivery, Delivery::Status(1..)));
        }
        if matches!(delivery, Delivery::Status(..0)) {
            // The program has had enough, and asks for the statistics next.
            self.refresh_statistics();
        }
        delivery
    }

    fn deliver_what_comes(
        &self,
        breaker: &Breaker,
        error: &ErrorText,
        limit: Option<u32>,
        after: AfterDelivery,
        mut sink: impl FnMut(&PacketHeader, *const u8),
    ) -> Delivery {
        let limit = limit.unwrap_or(c_int::MAX as u32);
        let mut only_looks = self.is_nonblocking();
        let mut refusing_since = None;
        loop {
            if breaker.take() {
                return Delivery::Status(ERROR_BREAK);
            }
            let undelivered = self.held.take().filter(|held| !held.is_empty());
            let mut held = match undelivered {
                Some(held) => held,
                None => {
                    // A program that its descriptor has woken goes back to its event loop if there is
                    // nothing, or if the sieve refuses all of it.
                    let waiting = self.waiting.take().filter(|waiting| !waiting.is_empty());
                    only_looks = only_looks || waiting.is_none() && self.is_readable();
                    match self.next_held(waiting, only_looks) {
                        Ok(Some(held)) => held,
                        Ok(None) if breaker.is_broken() => continue,
                        Ok(None) if only_looks => return Delivery::Status(0),
                        Ok(None) => return Delivery::Waits,
                        Err(text) => {
                            error.set(text);
                            return Delivery::Status(ERROR);
                        }
                    }
                }
            };
            let unsettled = self.merge(&mut held);
            if !unsettled.is_zero() {
                if only_looks {
                    self.held.set(Some(held));
                    return Delivery::Status(0);
                }
                self.add_next(&mut held, unsettled);
                self.held.set(Some(held));
                continue;
            }
            let (delivered, is_broken) = self.deliver_held(&mut held, breaker, limit, &mut sink);
            if after == AfterDelivery::Keep || !held.is_empty() {
                self.held.set(Some(held));
            }
            // An event loop has other work.
            let patience = if only_looks { LONGEST_LOOK } else { SLICE };
            match (is_broken, delivered) {
                (true, _) => return Delivery::Status(ERROR_BREAK),
                // The sieve has refused all of them. Other work must not wait for ever for a wanted one.
                (false, 0) if refusing_since.get_or_insert_with(Instant::now).elapsed() < patience => {}
                (false, 0) if only_looks => return Delivery::Status(0),
                (false, 0) => return Delivery::Waits,
                (false, delivered) => return Delivery::Status(delivered as c_int),
            }
        }
    }

    /// With several queues: begins a round that takes what waits in all of them, unless packets of the last
    /// one are left. Returns how long it takes until a packet can be delivered.
    fn merge(&self, held: &mut Held) -> Duration {
        if self.format.merged_queues == 0 || held.has_round() && held.is_due() {
            return Duration::ZERO;
        }
        // Where packets never run out, this is the only place for it.
        let _ = self.upkeep();
        let now_ns = now_ns();
        let round_ns = now_ns.saturating_sub(self.format.settled.as_nanos() as u64);
        // A queue whose packets are younger than the round has no others. The worker looks at its queues in
        // turns, so that after as many of these as there are queues, none has any.
        let (mut younger_in_row, mut batches) = (0, 0);
        while younger_in_row < self.format.merged_queues && batches < MAX_BATCHES_OF_ROUND {
            match self.add_next(held, Duration::ZERO) {
                Some(first_ns) if first_ns > round_ns => younger_in_row += 1,
                Some(_) => younger_in_row = 0,
                None => break,
            }
            batches += 1;
        }
        held.begin_round(round_ns, now_ns);
        held.time_to_due(now_ns, self.format.settled)
    }

    /// Waits for a batch and adds it; returns the time of its first packet. The end of the capture is found
    /// once nothing is held.
    fn add_next(&self, held: &mut Held, limit: Duration) -> Option<u64> {
        let next = self.with_workers(|workers| workers.next_batch(limit));
        let NextBatch::Batch(batch) = next else { return None };
        let first_ns = batch.batch.packets().next().map(|packet| packet.timestamp_ns());
        held.push(batch);
        first_ns
    }

    /// Delivers packets, at most `limit`. Returns their number, and whether the loop was broken.
    fn deliver_held(
        &self,
        held: &mut Held,
        breaker: &Breaker,
        limit: u32,
        sink: &mut impl FnMut(&PacketHeader, *const u8),
    ) -> (u32, bool) {
        let (mut delivered, mut refused): (u32, u32) = (0, 0);
        let mut is_broken = false;
        while delivered < limit && !is_broken {
            let Some(packet) = held.next() else { break };
            let data = self.contiguous(&packet);
            // A callback, or another thread, may have changed it since the last packet.
            let bytes = self.sieve().bytes(&packet, data);
            if bytes == 0 {
                refused += 1;
                continue;
            }
            let (header, data) = (self.header(&packet, data, bytes), data.as_ptr());
            delivered += 1;
            held.counts().note_progress(delivered + refused);
            sink(&header, data);
            is_broken = breaker.take() || self.is_closing();
        }
        held.counts().settle(u64::from(delivered) + u64::from(refused), refused.into());
        (delivered, is_broken)
    }

    /// The bytes of a packet in one piece: where they lie, or put together.
    #[inline]
    fn contiguous<'p>(&'p self, packet: &Packet<'p>) -> &'p [u8] {
        // SAFETY: one thread uses the handle, and the slice that was returned before is not used any more: it
        // was for the packet before.
        packet.contiguous(unsafe { &mut *self.whole.get() })
    }

    #[inline]
    fn header(&self, packet: &Packet<'_>, data: &[u8], wanted: u32) -> PacketHeader {
        let (seconds, nanoseconds) =
            (packet.timestamp_ns() / 1_000_000_000, packet.timestamp_ns() % 1_000_000_000);
        let fraction = if self.format.has_nanoseconds { nanoseconds } else { nanoseconds / 1_000 };
        PacketHeader {
            ts: libc::timeval { tv_sec: seconds as libc::time_t, tv_usec: fraction as libc::suseconds_t },
            caplen: wanted.min(data.len() as u32),
            len: packet.original_len() as u32,
        }
    }

    /// `waiting`, or what comes; the call may only look for some. `None` if there are none, or the wait was
    /// interrupted.
    fn next_held(&self, waiting: Option<Held>, only_looks: bool) -> Result<Option<Held>, &'static str> {
        let upkeep = self.upkeep();
        if waiting.is_some() {
            return Ok(waiting);
        }
        if let Err(gone) = upkeep {
            // What was captured before comes first, and this is asked again behind it.
            let NextBatch::Batch(batch) = self.with_workers(|workers| workers.next_batch(LAST)) else {
                return Err(gone);
            };
            self.next_look.set(Instant::now());
            return Ok(Some(Held::new(batch)));
        }
        let wait = if only_looks { Duration::ZERO } else { SLICE };
        match self.with_workers(|workers| workers.next_batch(wait)) {
            NextBatch::Batch(batch) => Ok(Some(Held::new(batch))),
            NextBatch::Nothing if self.with_workers(|workers| workers.is_cut_off()) => Err(CUT_OFF),
            NextBatch::Nothing => {
                self.sieve.borrow_mut().forget_replaced();
                // Behind it: another thread may have added these after the look for packets.
                self.changes.make(&self.sieve);
                Ok(None)
            }
            NextBatch::End => Err(GONE),
        }
    }

    /// Looks after the capture: its account, its ports, and which process reads it.
    ///
    /// # Errors
    /// The interface is gone.
    fn upkeep(&self) -> Result<(), &'static str> {
        self.capture.note_reader();
        let now = Instant::now();
        if now >= self.next_account.get() {
            self.next_account.set(now + ACCOUNT);
            self.capture.write_latest();
        }
        if now >= self.next_look.get() {
            self.next_look.set(now + LOOK);
            self.look_after_ports()?;
        }
        Ok(())
    }

    fn look_after_ports(&self) -> Result<(), &'static str> {
        self.sieve.borrow_mut().forget_replaced_long_ago();
        let is_gone = {
            let mut capture = self.capture.lock();
            let Some(capture) = &mut *capture else { return Err(GONE) };
            let _ = capture.events();
            capture.all_ports_gone()
        };
        self.refresh_statistics();
        if is_gone { Err(GONE) } else { Ok(()) }
    }

    /// The next packet for `pcap_next_ex`: its header is in [its place](Self::header_place), its bytes are
    /// returned, and both are there until the next call.
    pub(crate) fn next(&self, breaker: &Breaker, error: &ErrorText) -> (Delivery, *const u8) {
        let mut found = ptr::null();
        let place = self.header.get();
        let delivery = self.deliver(breaker, error, Some(1), AfterDelivery::Keep, |header, data| {
            // SAFETY: the place is ours; programs read it between calls only.
            unsafe { place.write(*header) };
            found = data;
        });
        (delivery, found)
    }

    /// Where `pcap_next_ex` puts headers.
    pub(crate) fn header_place(&self) -> *mut PacketHeader {
        self.header.get()
    }

    /// From now on these instructions decide on packets. From any thread.
    ///
    /// # Errors
    /// They are not a valid program.
    pub(crate) fn set_filter(&self, insns: &[Insn]) -> Result<(), wirecap_filter::Error> {
        let filter = NewFilter::new(insns, self.ifindex(), now_ns())?;
        self.changes.add(Change::Filter(Box::new(filter)));
        Ok(())
    }

    /// From now on packets of this direction (`PCAP_D_…`) are wanted. From any thread.
    pub(crate) fn set_direction(&self, direction: c_int) {
        self.changes.add(Change::Direction(direction));
    }

    /// What decides on packets now. For the thread that reads.
    pub(super) fn sieve(&self) -> Ref<'_, Sieve> {
        self.changes.make(&self.sieve);
        self.sieve.borrow()
    }
}
