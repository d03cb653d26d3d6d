//! Sends any frames from one chosen queue: copies them into cells of a transmit queue.

use std::{io, time::Duration};

use wirecap_sys::xsk::{TransmitOptions, TransmitQueue, XskError};

/// The size of a cell: the longest frame that can be sent.
const CELL_BYTES: u32 = 4096;

/// Sends frames from one queue of an interface, through AF_XDP.
#[derive(Debug)]
pub struct CopySender {
    queue: TransmitQueue,
    /// Cells that the kernel does not own.
    idle: Vec<u32>,
}

impl CopySender {
    /// Opens a queue of an interface, by index in the calling thread's network namespace. At most `frames`
    /// frames (a power of two) are under way at the same time.
    ///
    /// # Errors
    /// [`XskError`] when the socket cannot be set up.
    pub fn open(ifindex: u32, queue: u16, frames: u32) -> Result<Self, XskError> {
        let options = TransmitOptions {
            cells: frames,
            cell_bytes: CELL_BYTES,
            ring_entries: frames,
            ..TransmitOptions::default()
        };
        let queue = TransmitQueue::open(ifindex, queue.into(), options)?;
        Ok(Self { queue, idle: (0..frames).collect() })
    }

    /// Sends as many of the frames as there is room for. Returns their number.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN when the interface is down, for instance.
    ///
    /// # Panics
    /// When a frame is empty, or longer than 4096 bytes.
    pub fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> io::Result<u64> {
        let Self { queue, idle } = self;
        queue.complete(|cell| idle.push(cell));
        let mut taken = 0;
        for frame in frames.take((queue.room() as usize).min(idle.len())) {
            let Some(cell) = idle.pop() else { break };
            queue.cell_mut(cell).expect("an idle cell")[..frame.len()].copy_from_slice(frame);
            assert!(queue.stage(cell, frame.len() as u32), "the frame is not empty, and there is room");
            taken += 1;
        }
        queue.flush()?;
        Ok(taken)
    }

    /// Waits until the kernel has sent every frame, for `timeout` at most. Returns whether it has.
    ///
    /// # Errors
    /// As for [`CopySender::send`].
    pub fn finish(&mut self, timeout: Duration) -> io::Result<bool> {
        let Self { queue, idle } = self;
        queue.finish(timeout, |cell| idle.push(cell))
    }
}
