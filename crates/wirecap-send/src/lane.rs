//! One transmit queue in use: its cells and its counters.

use std::time::Duration;

use serde::Serialize;
use wirecap_sys::{
    netdev::Interface,
    xsk::{BindMode, CellPart, MAX_PARTS, TransmitOptions, TransmitQueue},
};

use crate::{CopyReason, SendDiagnostic, SendError};

/// A transmit queue, and the frames in its cells.
///
/// ```no_run
/// use wirecap_send::Lane;
/// use wirecap_sys::{netdev, xsk::TransmitOptions};
///
/// let eth1 = netdev::interface("eth1")?;
/// let mut lane = Lane::open(&eth1, 0, TransmitOptions::default())?;
/// assert!(lane.write(0, &[0xff; 60]) && lane.stage(0, 60));
/// lane.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lane {
    interface: String,
    ifindex: u32,
    number: u16,
    queue: TransmitQueue,
    packets: u64,
    bytes: u64,
    /// Whether frames were staged since the last flush.
    is_staged: bool,
}

/// What was sent from a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneReport {
    /// Number of the queue.
    pub queue: u16,
    /// `zero-copy` or `copy`.
    pub mode: &'static str,
    /// Packets that the kernel got and gave back.
    pub packets: u64,
    /// Bytes of the packets that the kernel got.
    pub bytes: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Cells that the kernel has not given back.
    pub in_flight: u32,
}

impl Lane {
    /// Opens queue `number` of an interface, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SendError::Open`] when the socket cannot be set up, or the cells do not fit into memory.
    pub fn open(interface: &Interface, number: u16, options: TransmitOptions) -> Result<Self, SendError> {
        let (name, ifindex) = (interface.name.clone(), interface.ifindex);
        match TransmitQueue::open(ifindex, number.into(), options) {
            Ok(queue) => {
                Ok(Self { interface: name, ifindex, number, queue, packets: 0, bytes: 0, is_staged: false })
            }
            Err(source) => Err(SendError::Open { interface: name, queue: number, source }),
        }
    }

    /// Number of the queue.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Size of a cell in bytes.
    #[inline]
    pub fn cell_bytes(&self) -> u32 {
        self.queue.options().cell_bytes
    }

    /// Whether the driver sends from the cells or the kernel copies.
    pub fn mode(&self) -> BindMode {
        self.queue.mode()
    }

    /// Why the kernel copies, if zero-copy was tried.
    pub fn fallback(&self) -> Option<SendDiagnostic> {
        let reason = CopyReason::of(self.queue.fallback()?);
        Some(SendDiagnostic::ZeroCopyUnavailable { reason })
    }

    /// The first bytes of the frame that begins in this cell; `None` while the kernel has it.
    #[inline]
    pub fn head_mut(&mut self, cell: u32) -> Option<&mut [u8]> {
        self.queue.cell_mut(cell)
    }

    /// Writes a frame into cells from this one on. Returns false if one of them is with the kernel; some may
    /// be written then.
    pub fn write(&mut self, cell: u32, frame: &[u8]) -> bool {
        let parts = frame.chunks(self.cell_bytes() as usize).zip(cell..);
        for (part, cell) in parts {
            let Some(bytes) = self.queue.cell_mut(cell) else { return false };
            bytes[..part.len()].copy_from_slice(part);
        }
        true
    }

    /// Puts the frame of `len` bytes in cells from this one on into the ring. Returns false if there is no
    /// room, or one of the cells is still with the kernel.
    #[inline]
    pub fn stage(&mut self, cell: u32, len: u32) -> bool {
        let staged =
            if len <= self.cell_bytes() { self.queue.stage(cell, len) } else { self.stage_parts(cell, len) };
        if staged {
            self.packets += 1;
            self.bytes += u64::from(len);
            self.is_staged = true;
        }
        staged
    }

    fn stage_parts(&mut self, cell: u32, len: u32) -> bool {
        let cell_bytes = self.cell_bytes();
        let mut parts = [CellPart { cell: 0, len: 0 }; MAX_PARTS];
        let Some(used) = parts.get_mut(..len.div_ceil(cell_bytes) as usize) else { return false };
        let mut left = len;
        for (part, cell) in used.iter_mut().zip(cell..) {
            *part = CellPart { cell, len: left.min(cell_bytes) };
            left -= part.len;
        }
        self.queue.stage_parts(used)
    }

    /// Has the kernel send staged frames, and those it left earlier. In copy mode that takes a system call
    /// per few frames.
    ///
    /// # Errors
    /// [`SendError::Link`] and [`SendError::Refused`].
    #[inline]
    pub fn flush(&mut self) -> Result<(), SendError> {
        self.is_staged = false;
        self.queue
            .flush()
            .map_err(|source| SendError::refused(&self.interface, self.ifindex, self.number, source))
    }

    /// Like [`Self::flush`], if anything was staged since the last time.
    ///
    /// # Errors
    /// As for [`Lane::flush`].
    #[inline]
    pub fn flush_staged(&mut self) -> Result<(), SendError> {
        if self.is_staged { self.flush() } else { Ok(()) }
    }

    /// Takes back sent cells; `back` gets each. Returns how many.
    #[inline]
    pub fn reclaim(&mut self, back: impl FnMut(u32)) -> u32 {
        self.queue.complete(back)
    }

    /// Has the kernel send frames it left earlier, and takes back sent cells. Returns how many.
    ///
    /// # Errors
    /// As for [`Lane::flush`].
    pub fn turn(&mut self) -> Result<u32, SendError> {
        if self.in_flight() == 0 {
            return Ok(0);
        }
        self.flush()?;
        Ok(self.reclaim(|_| {}))
    }

    /// Waits at most `timeout` until the kernel has given back every cell; `back` gets each. Returns whether
    /// it did: refused cells stay with the kernel.
    pub fn finish(&mut self, timeout: Duration, back: impl FnMut(u32)) -> bool {
        self.queue.finish(timeout, back).unwrap_or(false)
    }

    /// Cells that are with the kernel.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    /// Frames that were put into the ring.
    pub fn staged(&self) -> u64 {
        self.packets
    }

    /// What was sent so far.
    pub fn report(&self) -> LaneReport {
        let in_flight = self.in_flight();
        LaneReport {
            queue: self.number,
            mode: self.mode().as_str(),
            // Counts a frame of several cells in flight as several, which underestimates.
            packets: self.packets.saturating_sub(in_flight.into()),
            bytes: self.bytes,
            refused: self.queue.statistics().map_or(0, |statistics| statistics.tx_invalid_descs),
            in_flight,
        }
    }
}
