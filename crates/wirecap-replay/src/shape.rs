//! How cells are laid out for an interface, and its queues opened.

use wirecap_sys::{
    netdev::{self, Interface},
    xsk::{BindChoice, BindMode, MAX_PARTS, TransmitOptions, TransmitQueue},
};

use crate::{Error, Plan, lane::Lane};

/// Frames that can be with the kernel at the same time, for each queue.
pub(crate) const RING: u32 = 2048;
/// Cells of a queue where the trace is streamed: twice the ring, so that there are some to be filled.
const STREAM_CELLS: u32 = 2 * RING;
/// Half of them have to hold the longest frame.
const LEAST_STREAM_CELLS: u32 = 64;
const SHORT_CELL: u32 = 2048;
const LONG_CELL: u32 = 4096;
/// An Ethernet header and a VLAN tag, in bytes.
const OVERHEAD: u32 = 18;

/// How cells are laid out for an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) cell_bytes: u32,
    multi_buffer: bool,
    /// The MTU, or what fits into the cells of one frame.
    pub(crate) mtu: u32,
    /// Frames of several cells were wanted, and the kernel or driver does not have them.
    refused: bool,
}

impl Shape {
    pub(crate) fn of(interface: &Interface, plan: &Plan, queues: &[u16]) -> Self {
        let longest = interface.mtu.saturating_add(OVERHEAD);
        let cell_bytes = if longest <= SHORT_CELL { SHORT_CELL } else { LONG_CELL };
        let shape = |parts: u32, refused| Self {
            cell_bytes,
            multi_buffer: parts > 1,
            mtu: interface.mtu.min(cell_bytes * parts - OVERHEAD),
            refused,
        };
        if longest <= cell_bytes {
            return shape(1, false);
        }
        // Only trying tells whether the driver sends frames of several cells.
        let queue = queues.first().copied().unwrap_or(0);
        let options = TransmitOptions {
            cells: 64,
            cell_bytes,
            ring_entries: 64,
            bind: bind(plan.mode),
            multi_buffer: true,
        };
        let refused = TransmitQueue::open(interface.ifindex, queue.into(), options).is_err();
        shape(if refused { 1 } else { MAX_PARTS as u32 }, refused)
    }

    /// Cells of each of so many queues of a trace that is streamed: as many as are of use, as far as memory goes.
    pub(crate) fn stream_cells(&self, memory_bytes: u64, lanes: usize) -> u32 {
        let possible = memory_bytes / (lanes as u64 * u64::from(self.cell_bytes)).max(1);
        possible.clamp(LEAST_STREAM_CELLS.into(), STREAM_CELLS.into()) as u32
    }

    /// Memory of so many cells of each queue.
    pub(crate) fn bytes(&self, cells: &[u64]) -> u64 {
        cells.iter().map(|cells| cells * u64::from(self.cell_bytes)).sum()
    }

    /// What is left out for want of frames of several cells, in words.
    pub(crate) fn fallback(&self, interface: &Interface) -> Option<String> {
        self.refused.then(|| {
            let (name, longest) = (&interface.name, self.cell_bytes);
            format!(
                "packets longer than {longest} bytes are left out, since {name} takes none of several buffers"
            )
        })
    }

    /// Opens the queues, with so many cells each.
    ///
    /// # Errors
    /// [`Error::Queue`].
    pub(crate) fn open(
        &self,
        interface: &Interface,
        queues: &[u16],
        cells: &[u64],
        mode: Option<BindMode>,
    ) -> Result<Vec<Lane>, Error> {
        let lanes = queues.iter().zip(cells).map(|(&queue, &cells)| {
            let options = TransmitOptions {
                cells: (cells as u32).max(1),
                cell_bytes: self.cell_bytes,
                ring_entries: RING,
                bind: bind(mode),
                multi_buffer: self.multi_buffer,
            };
            let opened = TransmitQueue::open(interface.ifindex, queue.into(), options);
            let refused = |source| Error::Queue { interface: interface.name.clone(), queue, source };
            opened.map(|opened| Lane::new(queue, opened)).map_err(refused)
        });
        lanes.collect()
    }
}

fn bind(mode: Option<BindMode>) -> BindChoice {
    mode.map_or(BindChoice::Best, BindChoice::Only)
}

/// Whether the interface has these queues.
///
/// # Errors
/// [`Error::NoQueue`].
pub(crate) fn check_queues(interface: &Interface, queues: &[u16]) -> Result<(), Error> {
    let there = netdev::transmit_queues(&interface.name)?.unwrap_or(interface.queues.current);
    match queues.iter().find(|&&queue| u32::from(queue) >= there) {
        Some(&queue) => Err(Error::NoQueue { interface: interface.name.clone(), queues: there, queue }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_stream_are_as_many_as_memory_allows() {
        let shape = Shape { cell_bytes: SHORT_CELL, multi_buffer: false, mtu: 1_500, refused: false };
        assert_eq!(shape.stream_cells(1 << 30, 4), STREAM_CELLS);
        assert_eq!(shape.stream_cells(1 << 20, 4), 128);
        assert_eq!(shape.stream_cells(1 << 20, 4_096), LEAST_STREAM_CELLS);
        assert_eq!(shape.bytes(&[128, 2]), 130 * 2_048);
    }
}
