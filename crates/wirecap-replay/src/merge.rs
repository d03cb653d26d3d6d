//! Merges several traces by time.
//!
//! ```text
//!   a.pcap   1.0       1.2  1.3            ┐
//!   b.pcapng      1.1       1.3  2.0       ┘─►  1.0a 1.1b 1.2a 1.3a 1.3b 2.0b
//! ```
//!
//! Rule: packets of one file keep its order; of two packets with the same time, the one of the file that was
//! named first is first. A packet without a time goes with the one before it.

use std::path::PathBuf;

use crate::{
    Control, Error,
    timeline::{PassClock, TimeFaults},
    trace::{Packet, Trace},
};

/// How several files share one time line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// All files start together, whenever they were recorded.
    pub align: bool,
    /// Longer gaps are cut to this, in nanoseconds of recorded time.
    pub longest_gap_ns: Option<u64>,
}

/// Several traces, merged by time.
#[derive(Debug)]
pub(crate) struct Merge {
    sources: Vec<Source>,
    pub(crate) clock: PassClock,
    align: bool,
    /// The source of the packet that was returned last; the next call advances it.
    current: Option<usize>,
}

#[derive(Debug)]
struct Source {
    trace: Trace,
    /// The time of its first packet that has one, if it is subtracted from its times.
    start_ns: Option<u64>,
}

impl Source {
    /// Lets its times begin with the next packet, unless they have begun.
    fn align(&mut self) {
        self.start_ns = self.start_ns.or_else(|| self.trace.peek()?.placed_ns);
    }

    /// The time of its next packet; `None` in it means at once.
    fn next_ns(&self) -> Option<Option<u64>> {
        Some(self.trace.peek()?.placed_ns.map(|placed| placed.saturating_sub(self.start_ns.unwrap_or(0))))
    }
}

/// The next step of a merge.
#[derive(Debug)]
pub(crate) enum Step<'m> {
    /// A packet, and its time since the first one, in nanoseconds.
    Packet(u64, &'m Packet),
    /// No packet yet: a pipe is silent, or has many records without a packet.
    Nothing,
    /// All files have ended.
    End,
}

impl Merge {
    /// Opens all files, until `control` stops it.
    ///
    /// # Errors
    /// The error of the first file that cannot be opened.
    pub(crate) fn open(paths: &[PathBuf], timing: Timing, control: &Control) -> Result<Self, Error> {
        let sources = paths.iter().map(|path| {
            let trace = Trace::open(path, control)?;
            Ok(Source { start_ns: None, trace })
        });
        let mut sources = sources.collect::<Result<Vec<_>, Error>>()?;
        if timing.align {
            sources.iter_mut().for_each(Source::align);
        }
        let clock = PassClock::new(timing.longest_gap_ns);
        Ok(Self { sources, clock, align: timing.align, current: None })
    }

    /// Steps to the next packet. After [`Step::Nothing`] the next call asks again. With `waits` it waits for
    /// a silent pipe, but returns [`Step::Nothing`] after many records without a packet.
    pub(crate) fn next(&mut self, waits: bool) -> Step<'_> {
        if let Some(current) = self.current {
            if !self.sources[current].trace.advance(waits) {
                return Step::Nothing;
            }
            if self.align {
                self.sources[current].align();
            }
            self.current = None;
        }
        let next = self.sources.iter().enumerate();
        let next = next.filter_map(|(index, source)| Some((source.next_ns()?, index))).min();
        let Some((placed_ns, index)) = next else { return Step::End };
        self.current = Some(index);
        let offset_ns = self.clock.offset(placed_ns);
        self.sources[index].trace.peek().map_or(Step::End, |packet| Step::Packet(offset_ns, packet))
    }

    /// Why files ended before their end.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &Error> {
        self.sources.iter().filter_map(|source| source.trace.failure.as_ref())
    }

    /// Faults of the times so far.
    pub(crate) fn faults(&self) -> TimeFaults {
        let mut faults = TimeFaults::default();
        self.sources.iter().for_each(|source| faults.add(source.trace.timeline.faults));
        faults
    }

    /// The share of the files that is read; `None` if one is a pipe.
    pub(crate) fn share_read(&self) -> Option<f64> {
        let (mut read, mut whole) = (0, 0);
        for source in &self.sources {
            let (offset, len) = source.trace.progress()?;
            read += offset.min(len);
            whole += len;
        }
        Some(if whole == 0 { 1.0 } else { read as f64 / whole as f64 })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};

    use super::*;

    /// Writes a trace whose packets hold `name` and their number, at these times in microseconds.
    fn write(directory: &Path, name: &str, times_us: &[u64]) -> PathBuf {
        let mut file = Vec::new();
        pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
        for (number, time_us) in times_us.iter().enumerate() {
            let header =
                PacketHeader { timestamp_ns: time_us * 1_000, original_len: 40, ..PacketHeader::default() };
            pcap::packet(&mut file, &header, 0, [format!("{name}{number}").as_bytes()]);
        }
        let path = directory.join(name);
        fs::write(&path, file).unwrap();
        path
    }

    fn merged(paths: &[PathBuf], timing: Timing) -> Vec<(u64, String)> {
        let mut merge = Merge::open(paths, timing, &Control::default()).unwrap();
        let mut all = Vec::new();
        while let Step::Packet(offset_ns, packet) = merge.next(true) {
            assert_eq!(packet.original_len, 40);
            all.push((offset_ns / 1_000, String::from_utf8(packet.bytes.clone()).unwrap()));
        }
        assert_eq!(merge.share_read(), Some(1.0));
        all
    }

    fn named(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
        expected.iter().map(|&(time, name)| (time, name.to_owned())).collect()
    }

    #[test]
    fn the_earliest_packet_goes_first_and_ties_go_by_file() {
        let directory = tempfile::tempdir().unwrap();
        let a = write(directory.path(), "a", &[1_000, 1_200, 1_300]);
        let b = write(directory.path(), "b", &[1_100, 1_300, 2_000]);
        let empty = write(directory.path(), "empty", &[]);
        let expected = [(0, "a0"), (100, "b0"), (200, "a1"), (300, "a2"), (300, "b1"), (1_000, "b2")];
        assert_eq!(merged(&[a.clone(), b.clone(), empty], Timing::default()), named(&expected));
        let expected = [(0, "a0"), (100, "b0"), (200, "a1"), (300, "b1"), (300, "a2"), (1_000, "b2")];
        assert_eq!(merged(&[b, a], Timing::default()), named(&expected));
    }

    #[test]
    fn files_can_be_aligned_and_long_gaps_cut() {
        let directory = tempfile::tempdir().unwrap();
        let a = write(directory.path(), "a", &[1_000, 1_200, 9_000]);
        let b = write(directory.path(), "b", &[500_000, 500_100]);
        let timing = Timing { align: true, longest_gap_ns: None };
        let expected = [(0, "a0"), (0, "b0"), (100, "b1"), (200, "a1"), (8_000, "a2")];
        assert_eq!(merged(&[a.clone(), b.clone()], timing), named(&expected));
        let timing = Timing { align: false, longest_gap_ns: Some(1_000_000) };
        let expected = [(0, "a0"), (200, "a1"), (1_200, "a2"), (2_200, "b0"), (2_300, "b1")];
        assert_eq!(merged(&[a, b], timing), named(&expected));
    }

    #[test]
    fn a_file_is_aligned_by_its_first_packet_with_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let a = write(directory.path(), "a", &[1_000, 1_200]);
        // Section, interface, a packet without a time (SPB), and two with times (EPB), in microseconds.
        let block = |kind: u32, words: &[u32]| {
            let len = words.len() as u32 * 4 + 12;
            let words = [&[kind, len], words, &[len]].concat();
            words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>()
        };
        let timed = |time_us| block(6, &[0, 0, time_us, 4, 40, 0]);
        let blocks = [
            block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]),
            block(1, &[LINK_TYPE_ETHERNET.into(), 4]),
            block(3, &[40, 0]),
            timed(500_000),
            timed(500_100),
        ];
        let b = directory.path().join("b");
        fs::write(&b, blocks.concat()).unwrap();
        let timing = Timing { align: true, longest_gap_ns: None };
        let offsets: Vec<_> = merged(&[a, b], timing).into_iter().map(|(offset_us, _)| offset_us).collect();
        assert_eq!(offsets, [0, 0, 0, 100, 200]);
    }

    #[test]
    fn a_file_whose_times_go_back_keeps_its_order() {
        let directory = tempfile::tempdir().unwrap();
        let a = write(directory.path(), "a", &[1_000, 900, 1_500]);
        let b = write(directory.path(), "b", &[950, 1_400]);
        let expected = [(0, "b0"), (50, "a0"), (50, "a1"), (450, "b1"), (550, "a2")];
        assert_eq!(merged(&[a, b], Timing::default()), named(&expected));
    }
}
