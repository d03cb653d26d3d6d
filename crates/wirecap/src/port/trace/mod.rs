//! The `trace` port: a trace file, or a pipe, as a NIC with one receive queue.
//!
//! ```text
//!   file ──► Reader ──► Record::Packet ──► filled cell, with a note in its head room ──► chunk
//!                           │                 original length, direction
//!                           └── of another link type, or damaged: the end, and why
//! ```
//!
//! The port reads pcap and pcapng of either byte order and any resolution of time. It reads on when cells are
//! attached, so it never loses a packet: a slow worker makes the file wait. Each packet is copied once, into
//! its cell; the part that does not fit into the first cell, twice.
//!
//! The port keeps the bytes, the order, the time as the file has it (also where it goes back or repeats; 0
//! where the file has none), the original length and the direction. All interfaces of the file are one port,
//! so they must have one link type; the interface of a packet is not kept, nor are its comments.
//!
//! A port is at its end with its file, or before the first packet that cannot be read. Once all ports are at
//! their end, the capture ends by itself.

mod file;
mod status;

use std::{
    io::ErrorKind,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use wirecap_core::{Direction, Geometry};
use wirecap_file::{MAX_CAPTURED_LEN, Packet, Record};
use wirecap_filter::UserFilter;
use wirecap_sys::{
    clock::StampClock,
    memory::{CellWriter, FilledCell, HEAD_ROOM_BYTES, LivePool, Note},
};

pub use self::file::check;
use self::{
    file::Trace,
    status::{Status, TraceBackend},
};
use super::{
    contract::{OpenRequest, PacketSource, Port, PortFacts, PortPools, PreparedPort},
    intake::Intake,
    open_port::OpenPort,
    queue::{Look, OpenQueue, Outlook, QueueCounts, ReceiveQueue},
};
use crate::{
    Config, Diagnostic, Error, Timestamp,
    diagnostic::{Cause, LengthLimitReason, NicDataRefusal},
    packet::{ChunkReader, Front},
    program::rx_hash,
    report::{Clock, FilterPlace, LengthLimit, LengthLimitPolicy, QueueMode, TimestampReport, TraceFailure},
};

/// Maximum number of records read before other threads may have the queue: many of them may make no packet.
const RECORDS_AT_ONCE: u32 = 1 << 16;
/// Maximum number of bytes read before that: one record may have 16 MiB.
const BYTES_AT_ONCE: u64 = 32 << 20;
/// A pipe in which nothing came for this long has paused. For less, its writer is taken to be at work: two
/// pipes from programs that take turns are merged in order.
const PAUSE: Duration = Duration::from_millis(100);

/// The one queue of the port.
#[derive(Debug)]
pub(crate) struct TraceQueue {
    trace: Trace,
    writer: CellWriter,
    filter: Option<UserFilter>,
    /// The longest packet that lies in two chunks at most, in bytes.
    longest: usize,
    /// The part of a packet that found no room yet.
    rest: Rest,
    /// Whether the last attempt found nothing: a pipe.
    is_dry: bool,
    /// Since when, while `is_dry`.
    dry_since: Option<Instant>,
    counts: QueueCounts,
    status: Arc<Status>,
}

/// How much may be read before others may have the queue.
struct Turn {
    records: u32,
    /// The offset in the file at which the turn ends, in bytes.
    end: u64,
}

impl Turn {
    fn new(offset: u64) -> Self {
        Self { records: RECORDS_AT_ONCE, end: offset + BYTES_AT_ONCE }
    }

    /// Whether one more record, at `offset`, may be read.
    fn next(&mut self, offset: u64) -> bool {
        let may = self.records > 0 && offset < self.end;
        self.records -= u32::from(may);
        may
    }
}

/// The end of a packet of which the beginning is in its cells.
#[derive(Debug, Default)]
struct Rest {
    /// Reused; allocated up to the longest packet there was.
    bytes: Vec<u8>,
    /// INVARIANT: at most the length of `bytes`; equal to it if there is no rest.
    written: usize,
    note: Note,
    timestamp_ns: u64,
}

/// Opens the file: what is wrong with it before its first packet is found here.
pub(super) fn look_up(name: String, path: &Path) -> Result<PreparedPort, Error> {
    let trace = Trace::open(name.clone(), path)?;
    let facts = PortFacts {
        source: PacketSource::File,
        link_type: trace.link_type,
        files_per_queue: 1,
        ..PortFacts::without_interface(name, vec![0])
    };
    Ok(PreparedPort::new(facts, trace))
}

impl Port for Trace {
    /// Other times than the file's are not refused: the report says that packets have the file's.
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        match config.rx_hash {
            true => Err(rx_hash::refusal(&facts.name, NicDataRefusal::NoInterface)),
            false => Ok(()),
        }
    }

    fn open(self: Box<Self>, mut pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let (mut pool, trace) = (pools.pools.remove(0), *self);
        let writer = CellWriter::new(&pool).expect("a new pool");
        let longest = longest(pool.geometry());
        // A packet must lie in two runs at most, too.
        pool.allow_runs(MAX_CAPTURED_LEN.div_ceil(writer.payload_bytes() as u32));
        let status = Arc::new(Status::new(trace.len, longest));
        if trace.is_read {
            status.end(None);
        }
        let mut port = OpenPort::new(&trace.name, QueueMode::Trace, trace.link_type);
        port.report.multi_buffer = true;
        port.report.length_limit = (longest < MAX_CAPTURED_LEN as usize)
            .then_some(LengthLimit { bytes: longest as u32, beyond: LengthLimitPolicy::Lost });
        let too_long = |limit| Diagnostic::PacketsTooLong { limit, reason: LengthLimitReason::SmallPool };
        port.report.fallbacks.extend(port.report.length_limit.map(too_long));
        let filter = request.filter.map(|filter| {
            let user = UserFilter::new(&filter.filter);
            let reason = user.interpreted().map(Cause::of);
            port.report.fallbacks.extend(reason.map(|cause| Diagnostic::FilterInterpreted { cause }));
            port.report.filter = Some(filter.report(FilterPlace::of(&user)));
            user
        });
        let wanted = request.context.config.timestamp.filter(|&wanted| wanted != Timestamp::File);
        let other = |wanted| Diagnostic::OtherTimestamps { wanted, used: Timestamp::File };
        port.report.fallbacks.extend(wanted.map(other));
        port.report.timestamp =
            TimestampReport::of_packets(Timestamp::File, Clock::File, trace.resolution_ns);
        port.backend = Some(Box::new(TraceBackend::new(&status)));
        let reader = ChunkReader::Cells(pool.reader(), Front::Note);
        let waker = trace.reader.get_ref().waker();
        // A pipe on hold would block its writer, for which other ports may be waiting.
        let can_wait = trace.len.is_some();
        let queue = TraceQueue {
            trace,
            writer,
            filter,
            longest,
            rest: Rest::default(),
            is_dry: false,
            dry_since: None,
            counts: QueueCounts::default(),
            status,
        };
        port.queues = vec![OpenQueue { waker, can_wait, ..OpenQueue::new(queue, pool, reader) }];
        Ok(port)
    }
}

/// A packet must lie in two chunks at most, and a pool of one chunk has no second one to give while the first
/// is not home.
fn longest(geometry: Geometry) -> usize {
    let cells = if geometry.chunks_per_pool() > 1 { geometry.cells_per_chunk() } else { 1 };
    cells as usize * (geometry.cell_bytes() - HEAD_ROOM_BYTES) as usize
}

fn note(packet: &Packet<'_>) -> Note {
    Note {
        // A damaged file may say less than there is.
        original_len: packet.original_len.max(packet.data.len() as u32),
        direction: packet.outbound.map(|outbound| if outbound { Direction::Out } else { Direction::In }),
    }
}

fn wants(filter: Option<&UserFilter>, packet: &Packet<'_>) -> bool {
    filter.is_none_or(|filter| filter.wants(packet.data, packet.original_len))
}

impl TraceQueue {
    /// Nothing is known of times that were not read.
    fn outlook(&self) -> Outlook {
        if self.rest.is_empty() && self.has_ended() {
            Outlook::Ended
        } else if self.dry_since.is_some_and(|since| since.elapsed() >= PAUSE) {
            Outlook::Pause
        } else {
            Outlook::Open
        }
    }

    /// Fills the next cell of a turn, with the next part of the current packet or the start of the next one;
    /// with its time.
    fn next_part(&mut self, turn: &mut Turn) -> Option<(FilledCell, u64)> {
        if self.rest.is_empty() { self.next_packet(turn) } else { self.next_of_rest() }
    }

    fn next_of_rest(&mut self) -> Option<(FilledCell, u64)> {
        let Rest { bytes, written, note, timestamp_ns } = &mut self.rest;
        let part = self.writer.write(*note, &bytes[*written..])?;
        *written += part.len() as usize;
        self.counts.seen += u64::from(!part.more());
        Some((part, *timestamp_ns))
    }

    /// Reads on to the next packet, and fills a cell with the beginning of it.
    fn next_packet(&mut self, turn: &mut Turn) -> Option<(FilledCell, u64)> {
        while self.writer.attached() > 0 && !self.has_ended() && turn.next(self.trace.reader.offset()) {
            match self.trace.reader.next() {
                Ok(Some(Record::Packet(packet))) if packet.link_type != self.trace.link_type => {
                    let (interface, other) = (packet.interface, packet.link_type);
                    self.end(Some(self.other_link_type(interface, other)));
                }
                Ok(Some(Record::Packet(packet))) if !wants(self.filter.as_ref(), &packet) => {
                    self.counts.seen += 1;
                    self.counts.filtered += 1;
                }
                Ok(Some(Record::Packet(packet))) if packet.data.len() > self.longest => {
                    self.counts.seen += 1;
                    self.counts.too_long += 1;
                }
                Ok(Some(Record::Packet(packet))) => {
                    let (note, timestamp_ns) = (note(&packet), packet.timestamp_ns.unwrap_or(0));
                    let part = self.writer.write(note, packet.data)?;
                    if part.more() {
                        self.rest.keep(&packet.data[part.len() as usize..], note, timestamp_ns);
                    } else {
                        self.counts.seen += 1;
                    }
                    return Some((part, timestamp_ns));
                }
                Ok(Some(_)) => {}
                Ok(None) => self.end(None),
                Err(wirecap_file::Error::Read { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
                    self.is_dry = true;
                    break;
                }
                Err(source) => {
                    let (name, source) = (self.trace.name.clone(), Arc::new(source));
                    self.end(Some(TraceFailure::Read { name, source }));
                }
            }
        }
        None
    }

    /// Whether nothing more is read.
    fn has_ended(&self) -> bool {
        self.trace.is_read || self.status.is_closed()
    }

    fn end(&mut self, failure: Option<TraceFailure>) {
        self.trace.is_read = true;
        self.status.end(failure);
    }

    fn other_link_type(&self, interface: u32, other: u16) -> TraceFailure {
        let described = self.trace.reader.interfaces().get(interface as usize);
        let name = described.and_then(|interface| interface.name());
        TraceFailure::LinkTypes {
            name: self.trace.name.clone(),
            interface: name.map_or_else(|| interface.to_string(), |name| format!("{interface} ({name})")),
            link_type: self.trace.link_type,
            other,
            offset: self.trace.reader.record_offset(),
        }
    }
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn keep(&mut self, bytes: &[u8], note: Note, timestamp_ns: u64) {
        debug_assert!(self.is_empty(), "one packet after the other");
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        (self.written, self.note, self.timestamp_ns) = (0, note, timestamp_ns);
    }
}

impl ReceiveQueue for TraceQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        self.is_dry = false;
        let offset = self.trace.reader.offset();
        let mut turn = Turn::new(offset);
        intake.take_timed((0..max).map_while(|_| self.next_part(&mut turn)));
        let since = self.dry_since.take().filter(|_| self.trace.reader.offset() == offset);
        self.dry_since = self.is_dry.then(|| since.unwrap_or_else(Instant::now));
        self.status.read_to(self.trace.reader.progress());
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        if let Some(pool) = pool {
            self.writer.attach(pool);
        }
    }

    /// What could be received: all cells, as long as the file has not ended. A pipe without anything has to
    /// be asked again, but is no backlog.
    fn backlog(&self) -> u32 {
        match (self.rest.is_empty(), self.has_ended(), self.is_dry) {
            (true, true, _) => 0,
            (true, false, true) => self.writer.attached().min(1),
            _ => self.writer.attached(),
        }
    }

    fn look(&self) -> Look {
        Look { waiting: None, unreceived: 0, outlook: self.outlook() }
    }

    fn counts(&mut self) -> QueueCounts {
        self.counts
    }

    /// Times are the file's.
    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_after_its_records_or_its_bytes() {
        let mut small = Turn::new(7);
        assert_eq!((0..u64::from(2 * RECORDS_AT_ONCE)).take_while(|_| small.next(7)).count(), 1 << 16);
        let mut large = Turn::new(7);
        assert!(large.next(7) && large.next(6 + BYTES_AT_ONCE) && !large.next(7 + BYTES_AT_ONCE));
    }
}
