//! Packets that the program sends by a transmit ring of the engine (`transmit=ENTRIES`).
//!
//! Rule: a packet is with the kernel when the call returns, as with a packet socket, which refuses the same
//! packets for the same reasons.

use std::{
    io, process,
    sync::{Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use wirecap::{Capture, OwnedPacket, PacketAllocator, Refusal, Transmitter};
use wirecap_sys::fork::SharedNumbers;

use super::{account::AccountedCapture, sieve::has_tag};

/// How long a packet waits for room. Packet sockets wait until there is some, but a ring that stands still
/// that long may never have any.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);
/// Length of an Ethernet header.
const HEADER_BYTES: usize = 14;
/// How long to sleep until sent packets have come home.
const PAUSE: Duration = Duration::from_micros(50);

/// Sends from the first queue of a port.
#[derive(Debug)]
pub(super) struct RingSender {
    ends: Mutex<Ends>,
    /// Packets that were sent, by whichever process has the handle after a fork.
    sent_by_all: SharedNumbers<1>,
}

#[derive(Debug)]
struct Ends {
    allocator: PacketAllocator,
    transmitter: Transmitter,
    /// INVARIANT: [`RingSender::sent_by_all`], if no other process has sent since the fork. Otherwise, these
    /// ends are stale.
    sent: u64,
    /// The process that has sent last, as far as these ends know; 0 if none has.
    sender: u32,
}

impl RingSender {
    /// `None` if the capture has no transmit ring.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn take(capture: &mut Capture) -> io::Result<Option<Self>> {
        let allocator = capture.take_allocators().into_iter().next();
        let transmitter = capture.take_transmitters().into_iter().next();
        let (Some(allocator), Some(transmitter)) = (allocator, transmitter) else { return Ok(None) };
        let ends = Mutex::new(Ends { allocator, transmitter, sent: 0, sender: 0 });
        Ok(Some(Self { ends, sent_by_all: SharedNumbers::new()? }))
    }

    /// Sends a packet; returns its length.
    ///
    /// # Errors
    /// As for a packet socket: EINVAL for less than a header, EMSGSIZE, ENETDOWN, ENXIO if the interface is
    /// gone. ENOBUFS: there was no room in time. EBUSY: another process sends from this handle, which was
    /// forked.
    pub(super) fn send(&self, packet: &[u8], capture: &AccountedCapture) -> io::Result<usize> {
        if packet.len() < HEADER_BYTES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let next = ends.sent + 1;
        let [sent_by_all] = self.sent_by_all.get();
        sent_by_all
            .compare_exchange(ends.sent, next, Ordering::Relaxed, Ordering::Relaxed)
            .map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        (ends.sent, ends.sender) = (next, process::id());
        match ends.send(packet) {
            Err(Refusal::LinkDown | Refusal::TooLong) => {
                // That may have changed since a thread that reads has looked last.
                if let Some(capture) = &mut *capture.lock() {
                    drop(capture.events());
                }
                ends.send(packet)
            }
            sent => sent,
        }
        .map_err(|refusal| io::Error::from_raw_os_error(errno_of(refusal)))?;
        // A packet of a ring whose interface goes down at this moment is sent when it is up again.
        ends.transmitter.flush()?;
        Ok(packet.len())
    }
}

impl Drop for RingSender {
    /// Only the process that has sent last knows where the ring is.
    fn drop(&mut self) {
        let ends = self.ends.get_mut().unwrap_or_else(PoisonError::into_inner);
        let [sent_by_all] = self.sent_by_all.get();
        if ends.sender != process::id() || sent_by_all.load(Ordering::Relaxed) != ends.sent {
            ends.transmitter.abandon();
        }
    }
}

impl Ends {
    /// Puts the packet into the ring.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        // The transmitter leaves room for a tag in every packet.
        let mtu = self.transmitter.mtu() as usize;
        if mtu > 0 && bytes.len() > mtu + HEADER_BYTES && !has_tag(bytes) {
            return Err(Refusal::TooLong);
        }
        let packet = self.packet(bytes)?;
        let Err(unsent) = packet.forward(&mut self.transmitter) else { return Ok(()) };
        unsent.wait(&mut self.transmitter, ROOM_TIMEOUT).map_err(|unsent| unsent.reason)
    }

    /// The packet in a cell, as soon as one is free.
    fn packet(&mut self, bytes: &[u8]) -> Result<OwnedPacket<'static>, Refusal> {
        let begun = Instant::now();
        loop {
            if let Some(packet) = self.allocator.packet(bytes) {
                return Ok(packet);
            }
            if self.transmitter.in_flight() == 0 {
                // All cells are free.
                return Err(Refusal::TooLong);
            }
            if begun.elapsed() >= ROOM_TIMEOUT {
                return Err(Refusal::Full);
            }
            // The next attempt has the kernel's answer.
            let _ = self.transmitter.flush();
            thread::sleep(PAUSE);
        }
    }
}

/// What a packet socket would say.
fn errno_of(refusal: Refusal) -> i32 {
    match refusal {
        Refusal::TooLong => libc::EMSGSIZE,
        Refusal::LinkDown => libc::ENETDOWN,
        Refusal::Gone => libc::ENXIO,
        _ => libc::ENOBUFS,
    }
}
