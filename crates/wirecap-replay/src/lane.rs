//! One transmit queue in use: its cells, and what was sent from it.

use std::io;

use serde::Serialize;
use wirecap_sys::xsk::{BindMode, CellPart, MAX_PARTS, TransmitQueue, XskError};

/// What the kernel says to zero-copy where the driver has none.
const EOPNOTSUPP: i32 = 95;
/// The same where it has none without an XDP program.
const EINVAL: i32 = 22;
const ENXIO: i32 = 6;

/// A queue that is sent from.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) number: u16,
    queue: TransmitQueue,
    cell_bytes: u32,
    packets: u64,
    bytes: u64,
    /// Whether something was put into the ring since it was last flushed.
    is_staged: bool,
}

/// What was sent from a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneReport {
    /// Number of the queue.
    pub queue: u16,
    /// `zero-copy` or `copy`.
    pub mode: &'static str,
    /// Packets that were given to the kernel and came back from it.
    pub packets: u64,
    /// Bytes of those that were given to the kernel.
    pub bytes: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Cells that the kernel never gave back.
    pub unfinished: u32,
}

impl Lane {
    pub(crate) fn new(number: u16, queue: TransmitQueue) -> Self {
        let cell_bytes = queue.options().cell_bytes;
        Self { number, queue, cell_bytes, packets: 0, bytes: 0, is_staged: false }
    }

    /// How many cells a frame of so many bytes takes.
    pub(crate) fn cells_of(cell_bytes: u32, len: u32) -> u32 {
        len.div_ceil(cell_bytes)
    }

    pub(crate) fn cell_bytes(&self) -> u32 {
        self.cell_bytes
    }

    /// Writes a frame into cells from this one on. False, and some may be written, if one of them is the kernel's.
    pub(crate) fn write(&mut self, cell: u32, frame: &[u8]) -> bool {
        let parts = frame.chunks(self.cell_bytes as usize).zip(cell..);
        for (part, cell) in parts {
            let Some(bytes) = self.queue.cell_mut(cell) else { return false };
            bytes[..part.len()].copy_from_slice(part);
        }
        true
    }

    /// Puts the frame that lies in cells from this one on into the ring. False if there is no room, or one of the cells
    /// is still the kernel's.
    #[inline]
    pub(crate) fn stage(&mut self, cell: u32, len: u32) -> bool {
        let staged =
            if len <= self.cell_bytes { self.queue.stage(cell, len) } else { self.stage_parts(cell, len) };
        if staged {
            self.packets += 1;
            self.bytes += u64::from(len);
            self.is_staged = true;
        }
        staged
    }

    fn stage_parts(&mut self, cell: u32, len: u32) -> bool {
        let mut parts = [CellPart { cell: 0, len: 0 }; MAX_PARTS];
        let count = Self::cells_of(self.cell_bytes, len) as usize;
        let Some(used) = parts.get_mut(..count) else { return false };
        let mut left = len;
        for (part, cell) in used.iter_mut().zip(cell..) {
            *part = CellPart { cell, len: left.min(self.cell_bytes) };
            left -= part.len;
        }
        self.queue.stage_parts(used)
    }

    /// Has the kernel send what was staged since the last time.
    #[inline]
    pub(crate) fn flush_staged(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_staged) { self.queue.flush() } else { Ok(()) }
    }

    /// Has the kernel go on with what it left, and takes back what it has sent. Returns how many cells.
    pub(crate) fn turn(&mut self) -> io::Result<u32> {
        if self.queue.in_flight() == 0 {
            return Ok(0);
        }
        self.queue.flush()?;
        Ok(self.queue.complete(|_| {}))
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    pub(crate) fn report(&self) -> LaneReport {
        let unfinished = self.queue.in_flight();
        LaneReport {
            queue: self.number,
            mode: mode(self.queue.mode()),
            // A frame of several cells that did not come back counts as several here, which is the safe side.
            packets: self.packets.saturating_sub(unfinished.into()),
            bytes: self.bytes,
            refused: self.queue.statistics().map_or(0, |statistics| statistics.tx_invalid_descs),
            unfinished,
        }
    }

    /// Why it is not sent without a copy.
    pub(crate) fn fallback(&self) -> Option<String> {
        let why = match self.queue.fallback()? {
            XskError::Bind { source, .. } if source.raw_os_error() == Some(EOPNOTSUPP) => {
                "the driver does not offer it".into()
            }
            XskError::Bind { source, .. } if matches!(source.raw_os_error(), Some(EINVAL | ENXIO)) => {
                "the driver has it only beside an XDP program".into()
            }
            refused => refused.to_string(),
        };
        Some(format!("copy: the kernel copies each packet; zero-copy is not available: {why}"))
    }
}

fn mode(mode: BindMode) -> &'static str {
    match mode {
        BindMode::ZeroCopy => "zero-copy",
        BindMode::Copy => "copy",
    }
}
