//! The sending half of one queue.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use wirecap_core::ChunkRange;
use wirecap_sys::{memory::CellReader, xsk::Sender};

use super::{TransmitCounters, share::Shares};
use crate::{OwnedPacket, Refusal, engine::EngineState, nic::outlet::Outlet};

/// How long a thread that waits for the kernel to send sleeps at a time.
pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// Sends from one queue of a port. Made by [`Builder::transmit`](crate::Builder::transmit), one for each
/// receive queue of an AF_XDP port; moved to the thread that sends.
///
/// The caller decides about a packet for which there is no room: the refusal gives it back, to be [waited
/// for](crate::UnsentPacket::wait), [given up](crate::UnsentPacket::give_up) and counted, or
/// [kept](OwnedPacket::keep).
///
/// Dropping it flushes it once and closes its half of the socket. Pools lack the cells that the kernel still
/// has until the capture is dropped: [`Transmitter::finish`] waits for them.
#[derive(Debug)]
pub struct Transmitter {
    shared: Arc<EngineState>,
    sender: Sender,
    worker: usize,
    outlet: Arc<Outlet>,
    /// For reports.
    pub(crate) sent: Arc<TransmitCounters>,
    shares: Shares,
    is_abandoned: bool,
}

impl Transmitter {
    pub(crate) fn new(shared: &Arc<EngineState>, queue: usize, sender: Sender, outlet: &Arc<Outlet>) -> Self {
        let of = &shared.queues[queue];
        let (outlet, sent) = (Arc::clone(outlet), Arc::new(TransmitCounters::new(of.port, of.ring_id)));
        let shares = Shares::new(shared.numbers.len());
        Self {
            shared: Arc::clone(shared),
            sender,
            worker: of.home,
            outlet,
            sent,
            shares,
            is_abandoned: false,
        }
    }

    /// Limits it to its share of each pool, as one of `outputs` outputs: the kernel has at most R × M / (2 ×
    /// `outputs`) cells of a pool, or one packet. So half of each pool remains for receiving, however many
    /// outputs are stuck, and whatever the sizes of rings and pools. There is no limit before this call.
    ///
    /// A packet beyond the share is refused as [`Refusal::OverShare`].
    pub fn share_pools(&mut self, outputs: usize) {
        let cells = self.shared.geometry.cells_per_pool() as usize;
        self.shares.limit((cells / (2 * outputs.max(1))) as u32);
    }

    /// Which port it sends from, by its position in the list of ports.
    pub fn port(&self) -> usize {
        self.sent.port
    }

    /// Which queue of the port it sends from.
    pub fn queue(&self) -> u16 {
        self.sent.queue
    }

    /// The worker that is home of its queue.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The MTU of the interface, as [`Capture::events`](crate::Capture::events) last saw it; 0 while unknown.
    /// It [refuses](Refusal::TooLong) frames longer than that, an Ethernet header and one VLAN tag.
    pub fn mtu(&self) -> u32 {
        self.outlet.mtu()
    }

    /// Why it refuses all packets now, as [`Capture::events`](crate::Capture::events) last saw the interface:
    /// [`Refusal::LinkDown`], if it is down or not connected, or [`Refusal::Gone`]. `None` if it does not.
    pub fn link_fault(&self) -> Option<Refusal> {
        self.outlet.fault()
    }

    /// Packets taken so far.
    pub fn packets(&self) -> u64 {
        self.sent.report().packets
    }

    /// Bytes of these.
    pub fn bytes(&self) -> u64 {
        self.sent.report().bytes
    }

    /// Cells that are with the kernel.
    pub fn in_flight(&self) -> usize {
        self.sender.in_flight() as usize
    }

    /// Cells that the kernel reported as sent and that it never got; 0 unless a driver is broken.
    pub fn unknown_completions(&self) -> u64 {
        self.sender.foreign()
    }

    /// Cells that it could send now: a packet takes one for each of its parts. Takes sent cells home.
    pub fn room(&mut self) -> usize {
        self.complete();
        self.sender.room() as usize
    }

    /// Takes the cells out of a packet, or leaves the packet as it is and returns the reason.
    #[inline]
    pub(super) fn take(&mut self, packet: &mut OwnedPacket<'_>) -> Result<(), Refusal> {
        let (cells, len) = (packet.cells(), packet.len());
        if let Some(reason) = self.outlet.refuses(len) {
            return Err(reason);
        }
        if !packet.is_frame() {
            return Err(Refusal::NotSendable);
        }
        if !self.sender.takes(cells) {
            return Err(Refusal::TooLong);
        }
        let pool = packet.pool_index();
        self.find_room(cells, pool)?;
        if !packet.send(&mut self.sender) {
            return Err(Refusal::NotSendable);
        }
        self.shares.note_sent(pool, cells);
        self.sent.count(1, len as u64);
        if packet.is_copy() {
            self.sent.count_copied(len as u64);
        }
        Ok(())
    }

    /// Whether cells with this reader lie where it sends from.
    pub(super) fn sends_from(&self, reader: &CellReader) -> bool {
        self.sender.sends_from(reader)
    }

    /// Whether a packet of one cell of this pool and this length would be taken.
    #[inline]
    pub(super) fn has_place(&mut self, len: usize, pool: usize) -> bool {
        self.outlet.refuses(len).is_none() && self.find_room(1, pool).is_ok()
    }

    /// Looks whether there is room for `cells` cells of this pool, if need be after sent cells have come
    /// home.
    #[inline]
    fn find_room(&mut self, cells: u32, pool: usize) -> Result<(), Refusal> {
        if self.sender.has_room(cells) && self.shares.has_room(pool, cells) {
            return Ok(());
        }
        self.complete();
        if !self.sender.has_room(cells) {
            return Err(Refusal::Full);
        }
        if self.shares.has_room(pool, cells) { Ok(()) } else { Err(Refusal::OverShare) }
    }

    /// Takes the first cell of a range of this pool, a packet by itself. Returns whether it has; else the
    /// range is as it was. The caller counts it.
    #[inline]
    pub(super) fn take_first(
        &mut self,
        reader: &CellReader,
        range: &mut Option<ChunkRange>,
        pool: usize,
    ) -> bool {
        let Some(cells) = range.take() else { return false };
        let (cell, rest) = cells.split_at(1);
        match self.sender.send_cell(reader, cell) {
            Ok(()) => {
                self.shares.note_sent(pool, 1);
                *range = rest;
            }
            Err(cell) => {
                *range = Some(match rest {
                    Some(rest) => cell.join(rest).expect("they were one"),
                    None => cell,
                });
                return false;
            }
        }
        true
    }

    /// Has the kernel send what was taken, with one system call if it wants one, and takes home what it has
    /// sent. Call it once per batch, and when nothing comes.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN when the interface is down, for instance. What was taken stays in the
    /// ring, and is sent when it is up again.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.sender.flush();
        if flushed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NetworkDown) {
            self.outlet.note_down();
        }
        self.complete();
        flushed
    }

    /// Flushes, and waits until everything was sent, at most `timeout`. Returns whether it was.
    ///
    /// # Errors
    /// As for [`Transmitter::flush`].
    pub fn finish(&mut self, timeout: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            self.flush()?;
            if self.sender.in_flight() == 0 {
                return Ok(true);
            }
            if begun.elapsed() >= timeout {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Dropping it leaves the ring as it is: for a process that has a copy of it since a fork, while another
    /// process sends. Its place in the ring is not the present one.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    fn complete(&mut self) {
        let Self { shared, sender, shares, .. } = self;
        sender.complete(|cells| {
            let pool = shared.pool_index(cells.pool());
            shares.note_home(pool, cells.count());
            shared.send_home_to(pool, cells);
        });
        self.sent.in_flight.store(self.sender.in_flight(), Ordering::Relaxed);
        self.sent.by_driver.store(self.sender.dropped(), Ordering::Relaxed);
        self.sent.kicks.store(self.sender.kicks(), Ordering::Relaxed);
    }
}

impl Drop for Transmitter {
    /// Sends what was taken, and takes home what the kernel has sent so far.
    fn drop(&mut self) {
        if !self.is_abandoned {
            // The account has what is left in flight.
            let _ = self.flush();
        }
    }
}
