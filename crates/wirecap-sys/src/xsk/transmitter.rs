//! A transmit queue for generators: copies frames into cells of its own and sends them from one
//! chosen queue.

use std::{io, sync::Arc, time::Duration};

use super::{BindMode, RingDescriptor, RingSizes, Socket, SocketConfig, Umem, XskError, ring::ConsumerRing};
use crate::memory::PacketMemory;

const CELL_BYTES: u32 = 4096;
const BUSY_PATIENCE: Duration = Duration::from_secs(2);

/// Sends frames from one queue of an interface.
#[derive(Debug)]
pub struct Transmitter {
    socket: Socket,
    /// Cells that are neither with the kernel nor about to be.
    free: Vec<u64>,
    mode: BindMode,
    sent: u64,
}

impl Transmitter {
    /// Opens queue `queue_id` of an interface with `cells` cells (a power of two) of 4 KiB. Zero-copy
    /// where the driver has it, else copy.
    ///
    /// # Errors
    /// [`XskError`] when the socket cannot be set up.
    pub fn open(ifindex: u32, queue_id: u32, cells: u32) -> Result<Self, XskError> {
        let bytes = u64::from(cells) * u64::from(CELL_BYTES);
        let memory = PacketMemory::allocate(bytes)
            .map_err(|error| XskError::SetUp { step: "packet memory", source: io::Error::other(error) })?;
        let memory = Arc::new(memory);
        let rings = RingSizes::sending(cells)?;
        let config = SocketConfig {
            ifindex,
            queue_id,
            cell_bytes: CELL_BYTES,
            headroom: 0,
            rings,
            multi_buffer: false,
        };
        let mut last = None;
        for mode in [BindMode::ZeroCopy, BindMode::Copy] {
            let mut socket = Socket::create(config, Umem::Register(&memory))?;
            match socket.bind(mode, BUSY_PATIENCE) {
                Ok(()) => {
                    let free = (0..u64::from(cells)).map(|cell| cell * u64::from(CELL_BYTES)).collect();
                    return Ok(Self { socket, free, mode, sent: 0 });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("both modes were tried"))
    }

    /// Longest frame in bytes.
    pub fn max_frame_bytes(&self) -> usize {
        CELL_BYTES as usize
    }

    /// Whether the driver sends from the cells themselves.
    pub fn mode(&self) -> BindMode {
        self.mode
    }

    /// Puts as many of the frames into the transmit ring as there is room for and tells the kernel
    /// once. Returns how many were taken.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN when the interface is down, for instance.
    pub fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> io::Result<u64> {
        self.reclaim();
        let mut taken = 0;
        if let Some(tx) = &mut self.socket.tx {
            let mut batch = tx.batch();
            let memory = Arc::clone(&self.socket.memory);
            for frame in frames.take(self.free.len().min(batch.room() as usize)) {
                if frame.len() > CELL_BYTES as usize {
                    continue;
                }
                let Some(address) = self.free.pop() else { break };
                memory.write(address, frame);
                batch.push(RingDescriptor { address, len: frame.len() as u32, options: 0 });
                taken += 1;
            }
        }
        self.sent += taken;
        self.socket.wake_sender()?;
        Ok(taken)
    }

    /// Waits until every frame was sent, at most `timeout`. Returns whether it was.
    ///
    /// # Errors
    /// As for [`Transmitter::send`].
    pub fn finish(&mut self, timeout: Duration) -> io::Result<bool> {
        let started = std::time::Instant::now();
        loop {
            self.reclaim();
            if self.free.len() as u64 * u64::from(CELL_BYTES) == self.total_bytes() {
                return Ok(true);
            }
            if started.elapsed() > timeout {
                return Ok(false);
            }
            self.socket.wake_sender()?;
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Frames taken since the start.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    fn total_bytes(&self) -> u64 {
        u64::from(self.socket.completion.as_ref().map_or(0, ConsumerRing::entries)) * u64::from(CELL_BYTES)
    }

    fn reclaim(&mut self) {
        let free = &mut self.free;
        if let Some(completion) = &mut self.socket.completion {
            completion.consume(u32::MAX, |address| free.push(address));
        }
    }
}
