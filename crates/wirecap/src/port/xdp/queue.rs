//! One receive queue of an interface: its socket, the program in front of it, and the packets that it
//! refuses.

use std::{ops::Range, sync::Arc};

use wirecap_sys::{
    clock::StampClock,
    memory::LivePool,
    xsk::{BindMode, Registration, Socket},
};

use super::{shared::Entry, sieve::Sieve};
use crate::{
    port::{
        intake::Intake,
        queue::{Look, QueueCounts, ReceiveQueue, WaitingCells},
        stamp_reader::StampReader,
    },
    program::CaptureProgram,
};

/// One receive queue of a port.
#[derive(Debug)]
pub(crate) struct XdpQueue {
    /// Given up before the socket is closed, see `shared/`.
    pub(super) entry: Option<Entry>,
    pub(super) socket: Socket,
    pub(super) program: Arc<CaptureProgram>,
    pub(super) queue: u32,
    pub(super) multi_buffer: bool,
    /// Decides what the kernel has not.
    pub(super) sieve: Option<Sieve>,
    pub(super) stamps: StampReader,
    /// The last counters that could be read.
    pub(super) last: QueueCounts,
}

impl XdpQueue {
    /// Its UMEM registration, if another port may use it: that one would inherit that packets come in several
    /// parts.
    pub(super) fn registration(&self) -> Option<(Registration, BindMode)> {
        (!self.multi_buffer).then(|| (self.socket.registration(), self.bind_mode()))
    }

    /// What is in the ring, by number.
    fn in_ring(&self) -> Range<u64> {
        let filled = self.socket.waiting();
        if filled.is_empty() {
            // The driver may have asked to be woken after we had last looked: it found the fill ring empty
            // just before we filled it. Without this it would sleep forever.
            self.socket.wake_receiver();
        }
        filled
    }

    /// The mode the kernel reports for this queue.
    pub(crate) fn bind_mode(&self) -> BindMode {
        self.socket.mode().unwrap_or(BindMode::Copy)
    }
}

impl ReceiveQueue for XdpQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        if let Some(sieve) = &mut self.sieve {
            sieve.receive(&mut self.socket, &mut self.stamps, max, intake);
        } else if let Some(received) = self.socket.receive(max) {
            let contents = received.contents();
            self.stamps.take(received, contents, intake);
        }
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        if let Some(sieve) = &mut self.sieve {
            sieve.tidy(&mut self.socket, pool.is_some());
        }
        if pool.is_some_and(|pool| pool.can_attach() && self.socket.attach(pool) > 0) {
            self.socket.wake_receiver();
        }
    }

    fn backlog(&self) -> u32 {
        let filled = self.in_ring();
        (filled.end - filled.start) as u32 + self.sieve.as_ref().map_or(0, Sieve::wanted)
    }

    fn look(&self) -> Look {
        let Range { start, end } = self.in_ring();
        let (oldest, kept) = self.sieve.as_ref().map_or((None, 0), |sieve| (sieve.oldest(), sieve.kept()));
        let cells = oldest.unwrap_or(start)..end;
        let outlook = self.stamps.outlook(self.backlog() > 0);
        let waiting = Some(WaitingCells { cells, may_refuse: self.sieve.is_some() });
        Look { waiting, unreceived: self.socket.filled() + kept, outlook }
    }

    fn counts(&mut self) -> QueueCounts {
        if let (Ok(program), Ok(socket)) = (self.program.counts(self.queue), self.socket.statistics()) {
            self.last = QueueCounts {
                filtered: program.filtered + self.sieve.as_ref().map_or(0, |sieve| sieve.filtered),
                // In copy mode each packet without a cell counts here once; frames that are too long,
                // which the kernel would count here as well, do not get past the program.
                no_free_cell: socket.rx_dropped,
                rx_ring_full: socket.rx_ring_full,
                fill_ring_empty: socket.rx_fill_ring_empty,
                // The program also counts packets that are lost later; the reader also counts implausible
                // stamps.
                unstamped: program.unstamped.max(self.stamps.unknown()),
                ..program
            };
        }
        self.last
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.stamps.clock()
    }
}
