//! The layout of cells for an interface, and opening its queues.

use wirecap_send::{Lane, SendDiagnostic, SendError};
use wirecap_sys::{
    netdev::{self, Interface},
    xsk::{BindChoice, BindMode, MAX_PARTS, TransmitOptions, TransmitQueue},
};

use crate::{Plan, feed::Room};

/// Frames that can be with the kernel at the same time, per queue.
pub(crate) const RING: u32 = 2048;
/// Cells of a queue for a streamed trace: twice the ring, so that some can be filled.
const STREAM_CELLS: u32 = 2 * RING;
/// Half of them must hold the longest frame.
const MIN_STREAM_CELLS: u32 = 64;
const SHORT_CELL: u32 = 2048;
const LONG_CELL: u32 = 4096;

/// The layout of cells for an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) cell_bytes: u32,
    multi_buffer: bool,
    pub(crate) room: Room,
    /// Frames of several cells are needed, and the kernel or driver does not support them.
    refused: bool,
}

impl Shape {
    pub(crate) fn of(interface: &Interface, plan: &Plan, queues: &[u16]) -> Self {
        let longest = netdev::longest_frame(interface.mtu);
        let cell_bytes = if longest <= SHORT_CELL { SHORT_CELL } else { LONG_CELL };
        let shape = |parts: u32, of_cells: u32, refused| Self {
            cell_bytes,
            multi_buffer: parts > 1,
            room: Room { longest: longest.min(cell_bytes * parts), of_cells },
            refused,
        };
        if longest <= cell_bytes {
            // With a larger MTU, frames may take several cells.
            return shape(1, LONG_CELL * MAX_PARTS as u32, false);
        }
        // Only trying tells whether the driver sends frames of several cells.
        let queue = queues.first().copied().unwrap_or(0);
        let options =
            TransmitOptions { cells: 64, cell_bytes, ring_entries: 64, bind: plan.mode, multi_buffer: true };
        let opened = TransmitQueue::open(interface.ifindex, queue.into(), options);
        let parts = opened.as_ref().map_or(1, |queue| parts(interface, queue.mode()));
        shape(parts, cell_bytes * parts, opened.is_err())
    }

    /// Cells of each queue for a streamed trace: as many as are useful, limited by memory.
    pub(crate) fn stream_cells(&self, memory_bytes: u64, lanes: usize) -> u32 {
        let possible = memory_bytes / (lanes as u64 * u64::from(self.cell_bytes)).max(1);
        possible.clamp(MIN_STREAM_CELLS.into(), STREAM_CELLS.into()) as u32
    }

    /// Memory of these cells, in bytes.
    pub(crate) fn bytes(&self, cells: &[u64]) -> u64 {
        cells.iter().map(|cells| cells * u64::from(self.cell_bytes)).sum()
    }

    /// Reports packets that are skipped because frames of several cells are unsupported.
    pub(crate) fn fallback(&self) -> Option<SendDiagnostic> {
        self.refused.then_some(SendDiagnostic::NoMultiBuffer { longest: self.cell_bytes })
    }

    /// Opens the queues, with these numbers of cells.
    ///
    /// # Errors
    /// [`SendError::Open`].
    pub(crate) fn open(
        &self,
        interface: &Interface,
        queues: &[u16],
        cells: &[u64],
        mode: BindChoice,
    ) -> Result<Vec<Lane>, SendError> {
        let lanes = queues.iter().zip(cells).map(|(&queue, &cells)| {
            let options = TransmitOptions {
                cells: (cells as u32).max(1),
                cell_bytes: self.cell_bytes,
                ring_entries: RING,
                bind: mode,
                multi_buffer: self.multi_buffer,
            };
            Lane::open(interface, queue, options)
        });
        lanes.collect()
    }
}

/// The most cells of one frame: in zero-copy, as many as the driver supports.
fn parts(interface: &Interface, mode: BindMode) -> u32 {
    let max = MAX_PARTS as u32;
    let of_driver = interface.xdp_features.and_then(|features| features.zero_copy_max_segments);
    match (mode, of_driver) {
        (BindMode::ZeroCopy, Some(segments)) => segments.clamp(1, max),
        _ => max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netdev::XdpFeatures;

    fn loopback(mtu: u32) -> Interface {
        Interface { mtu, ..netdev::interface("lo").unwrap() }
    }

    #[test]
    fn a_frame_that_fits_one_cell_needs_no_multi_buffer() {
        for (mtu, cell_bytes) in
            [(1_500, SHORT_CELL), (2_030, SHORT_CELL), (2_031, LONG_CELL), (4_078, LONG_CELL)]
        {
            let shape = Shape::of(&loopback(mtu), &Plan::new(["a.pcap"], "lo"), &[0]);
            assert_eq!(
                (shape.cell_bytes, shape.room.longest, shape.multi_buffer),
                (cell_bytes, mtu + 18, false)
            );
            assert!(shape.fallback().is_none() && shape.room.of_cells == 65_536);
        }
    }

    #[test]
    fn in_zero_copy_the_driver_limits_the_cells_of_a_frame() {
        let driver = |zero_copy_max_segments| Interface {
            xdp_features: Some(XdpFeatures { zero_copy_max_segments, ..XdpFeatures::default() }),
            ..loopback(9_000)
        };
        for (segments, most) in [(Some(5), 5), (Some(0), 1), (Some(99), 16), (None, 16)] {
            assert_eq!(parts(&driver(segments), BindMode::ZeroCopy), most);
            assert_eq!(parts(&driver(segments), BindMode::Copy), 16);
        }
    }

    #[test]
    fn memory_limits_the_cells_of_a_stream() {
        let room = Room { longest: 1_518, of_cells: 2_048 };
        let shape = Shape { cell_bytes: SHORT_CELL, multi_buffer: false, room, refused: false };
        assert_eq!(shape.stream_cells(1 << 30, 4), STREAM_CELLS);
        assert_eq!(shape.stream_cells(1 << 20, 4), 128);
        assert_eq!(shape.stream_cells(1 << 20, 4_096), MIN_STREAM_CELLS);
        assert_eq!(shape.bytes(&[128, 2]), 130 * 2_048);
    }
}
