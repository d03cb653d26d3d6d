//! The packets of a batch as a pcapng file has them, where they lie in memory like that.

use wirecap_sys::packed::{PackedRecords, RecordMark};

use super::Batch;
use crate::packet::ChunkReader;

/// One packet as a pcapng file has it: an enhanced packet block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcapngBlock {
    /// The packet's time, as [`Packet::timestamp_ns`](crate::Packet::timestamp_ns).
    pub timestamp_ns: u64,
    /// Length of the block, in bytes.
    pub len: u32,
}

/// The packets of a batch as a pcapng file has them, one block behind the other: see [`Batch::pcapng`].
#[derive(Debug, Clone)]
pub struct PcapngBlocks<'b> {
    records: PackedRecords<'b>,
    chunk: u32,
}

impl<'b> PcapngBlocks<'b> {
    /// The bytes of all blocks that are not iterated over yet.
    #[inline]
    pub fn bytes(&self) -> &'b [u8] {
        self.records.bytes()
    }

    /// The chunk of the pool that they lie in, below R. The pool lacks all of it until each batch in it is
    /// dropped.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }
}

impl Iterator for PcapngBlocks<'_> {
    type Item = PcapngBlock;

    #[inline]
    fn next(&mut self) -> Option<PcapngBlock> {
        let RecordMark { timestamp_ns, len } = self.records.next()?;
        Some(PcapngBlock { timestamp_ns, len })
    }
}

impl Batch {
    /// The packets as they are in a pcapng file, without a copy: blocks that can be written as they are,
    /// behind an interface description for each port of the capture, in the order of the ports, whose times
    /// are in nanoseconds (`if_tsresol` 9). A block has the packet, its time and, on a passive port, its
    /// direction. It names the receive queue where
    /// [`PortReport::names_queues`](crate::report::PortReport::names_queues) says so.
    ///
    /// `None` unless an XDP program or a tap packs the packets. `None` before [`Self::write_times`], if they
    /// have the NIC's hash, if a filter in user space has refused packets between them, and on machines that
    /// are not little-endian. Cost: a few comparisons for the whole batch.
    ///
    /// ```no_run
    /// # use std::{fs::File, io::Write};
    /// # fn encode(batch: &wirecap::Batch) -> Vec<u8> { Vec::new() }
    /// # fn write(batch: &mut wirecap::Batch, file: &mut File) -> std::io::Result<()> {
    /// batch.write_times();
    /// match batch.pcapng() {
    ///     Some(blocks) => file.write_all(blocks.bytes()),
    ///     None => file.write_all(&encode(batch)),
    /// }
    /// # }
    /// ```
    pub fn pcapng(&self) -> Option<PcapngBlocks<'_>> {
        let handover = self.handover.as_ref().filter(|handover| handover.lead.is_none())?;
        let ChunkReader::Packed { reader, as_in_files: true } = &self.shared.queues[self.queue].reader else {
            return None;
        };
        let records = reader.records(&handover.range)?;
        let chunk = handover.range.first() / self.shared.geometry.cells_per_chunk();
        Some(PcapngBlocks { records, chunk })
    }

    /// Writes the times of packets into the memory where they lie, if it is packed and they have the time of
    /// their batch, for [`Self::pcapng`]. Cost: a store for each packet, the first time.
    pub fn write_times(&mut self) {
        let ChunkReader::Packed { reader, .. } = &self.shared.queues[self.queue].reader else { return };
        let handover = self.handover.as_mut().filter(|handover| handover.lead.is_none());
        handover.into_iter().for_each(|handover| reader.write_times(&mut handover.range));
    }
}
