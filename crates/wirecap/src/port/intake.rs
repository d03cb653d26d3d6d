//! Where a port puts what it received: the rest of the chunk that is filled.
//!
//! ```text
//!   rx ring ──► Descriptor ──► Intake { time, cache hint } ──► Filler ──► slots of the chunk
//! ```

use wirecap_core::{Descriptor, Filler};
use wirecap_sys::memory::CellReader;

/// Takes cells that the kernel has filled.
#[derive(Debug)]
#[must_use = "the cells count as filled only after finish()"]
pub(crate) struct Intake<'q> {
    filler: Filler<'q>,
    /// Of the next packet.
    timestamp_ns: u64,
    /// Given if this thread reads the packets, too: asks for them in time.
    near: Option<&'q CellReader>,
}

impl<'q> Intake<'q> {
    /// Fills what is left of a chunk. Packets get the time `timestamp_ns` and are 1 ns apart.
    #[inline]
    pub(crate) fn new(filler: Filler<'q>, timestamp_ns: u64, near: Option<&'q CellReader>) -> Self {
        Self { filler, timestamp_ns, near }
    }

    /// How many cells it takes.
    #[inline]
    pub(crate) fn space(&self) -> u32 {
        self.filler.space()
    }

    /// Takes cells, as long as there is space. Their `timestamp_ns` does not matter.
    #[inline]
    pub(crate) fn take(&mut self, descriptors: impl Iterator<Item = Descriptor>) {
        let (near, mut timestamp_ns) = (self.near, self.timestamp_ns);
        self.filler.fill_all(descriptors.map(|descriptor| {
            if let Some(reader) = near {
                reader.fetch(descriptor.address);
            }
            let timed = Descriptor { timestamp_ns, ..descriptor };
            // All parts of a packet have the time of the packet.
            timestamp_ns += u64::from(!descriptor.more);
            timed
        }));
        self.timestamp_ns = timestamp_ns;
    }

    /// Takes cells whose packets have a time already: it is kept as it is.
    pub(crate) fn take_timed(&mut self, descriptors: impl Iterator<Item = Descriptor>) {
        self.filler.fill_all(descriptors);
    }

    /// Takes a block: a chunk that the kernel has packed with packets.
    pub(crate) fn take_block(&mut self, packets: u32, bytes: u32) {
        self.filler.fill_block(packets, bytes);
    }

    /// Makes what was taken known to the pool. Returns the time that the next packet would have had.
    #[inline]
    pub(crate) fn finish(self) -> u64 {
        self.filler.finish();
        self.timestamp_ns
    }
}
