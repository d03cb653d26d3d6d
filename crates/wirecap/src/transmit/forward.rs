//! Packets put into a transmit ring, one by one or in a row.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::transmitter::{PAUSE, Transmitter};
use crate::{Drain, OwnedPacket, Refusal};

/// A packet that was not sent, given back.
#[derive(Debug)]
pub struct UnsentPacket<'b> {
    /// The packet: to be tried again, kept, or dropped.
    pub packet: OwnedPacket<'b>,
    /// Why.
    pub reason: Refusal,
}

impl UnsentPacket<'_> {
    /// Drops the packet, and counts it as dropped by this transmitter for this reason.
    pub fn give_up(self, transmitter: &Transmitter) {
        transmitter.sent.count_dropped(self.reason);
    }

    /// Waits until there is room for the packet, at most `timeout`, and sends it. Other reasons than [those
    /// for room](Refusal::is_for_room) are not waited for.
    ///
    /// # Errors
    /// The packet again.
    pub fn wait(mut self, transmitter: &mut Transmitter, timeout: Duration) -> Result<(), Self> {
        let begun = Instant::now();
        while self.reason.is_for_room() {
            // The next refusal has the kernel's answer.
            let _ = transmitter.flush();
            match self.packet.forward(transmitter) {
                Ok(()) => return Ok(()),
                Err(again) => self = again,
            }
            if begun.elapsed() >= timeout {
                break;
            }
            thread::sleep(PAUSE);
        }
        Err(self)
    }
}

impl<'b> OwnedPacket<'b> {
    /// Puts it into the transmit ring, from the cells it lies in. [`Transmitter::flush`] then makes the
    /// kernel send.
    ///
    /// # Errors
    /// The packet, when the ring is full or it cannot be sent.
    #[inline]
    pub fn forward(mut self, transmitter: &mut Transmitter) -> Result<(), UnsentPacket<'b>> {
        // Changed where it is: moving a packet costs as much as sending it.
        match transmitter.take(&mut self) {
            Ok(()) => Ok(()),
            Err(reason) => Err(UnsentPacket { packet: self, reason }),
        }
    }
}

/// Packets that were sent in a row, see [`Drain::forward`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForwardCounts {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first of them came, as [`crate::Packet::timestamp_ns`]; 0 if there is none.
    pub first_timestamp_ns: u64,
}

impl Drain<'_> {
    /// Sends packets from the front, as long as each lies in one cell, as most do, and is taken: as
    /// [`OwnedPacket::forward`] for each, in half the time. `change` is given the bytes of each before that,
    /// to be changed in place. The first that is refused is not changed; it is the next of the iterator, and
    /// refused there with the reason. So is the first that lies in several cells.
    ///
    /// ```no_run
    /// # let mut capture = wirecap::Capture::builder().port("eth1").port("eth2").transmit(1024).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// # let mut out = capture.take_transmitters().remove(1);
    /// while let Some(mut batch) = worker.next_batch() {
    ///     let Some(mut drain) = batch.drain() else { continue };
    ///     loop {
    ///         drain.forward(&mut out, |_| {});
    ///         let Some(packet) = drain.next() else { break };
    ///         let _ = packet.forward(&mut out);       // or wait, or keep it
    ///     }
    ///     out.flush()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forward(
        &mut self,
        transmitter: &mut Transmitter,
        mut change: impl FnMut(&mut [u8]),
    ) -> ForwardCounts {
        let mut run = ForwardCounts::default();
        if !self.queue.is_of_frames || !transmitter.sends_from(self.reader) {
            return run;
        }
        while let (None, Some(range)) = (&self.lead, &mut self.rest) {
            let Some(part) = self.reader.first(range).filter(|part| !part.more) else { break };
            if !transmitter.has_place(part.len as usize, self.index) {
                break;
            }
            change(self.reader.bytes_mut(range, 0));
            if !transmitter.take_first(self.reader, &mut self.rest, self.index) {
                break;
            }
            self.number += 1;
            if run.packets == 0 {
                run.first_timestamp_ns = part.timestamp_ns;
            }
            run.packets += 1;
            run.bytes += u64::from(part.len);
        }
        transmitter.sent.count(run.packets, run.bytes);
        run
    }
}
