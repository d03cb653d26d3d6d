//! One line of time from the times of packets, which may jump.
//!
//! ```text
//!            late              on the line            ahead
//!   ────────────────────┼──────────────────────┼────────────────► time of a packet
//!                  newest - 1 s            newest + 1 s
//!
//!   a packet off the line ─► aside ─┬─ a packet on the line comes after it:   an outlier, counted, in no bin
//!                                   ├─ the line comes to within a second:     it is on the line
//!                                   └─ a second of packets follows it there:  the line goes on from there
//!                                        ├─ ahead by less than 10 minutes     a silence: its time counts
//!                                        └─ back, or farther ahead            a jump: counted, and no time passes
//! ```
//!
//! Rule: a packet with an absurd time costs no more than any other, and no packet decides alone what the time
//! is. Packets aside have bins of their own, within a second, so memory stays bounded.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bins::{BinPackets, Bins, Row, TOLERANCE_NS};

/// Up to this long, nothing but silence explains that no packets have times between two.
pub const SILENCE_NS: u64 = 600 * 1_000_000_000;

/// After a jump, this many packets are outliers if no other is within a second of them; the next ones show
/// that time goes on there.
const LONE_OUTLIERS: u32 = 1;

/// Jumps that are kept; all are counted.
const MAX_JUMPS: usize = 8;

/// A jump of the times of packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jump {
    /// Where in the profile, in seconds since it begins.
    pub seconds: f64,
    /// The bin of the newest packet before it, in nanoseconds since 1970.
    pub from_ns: u64,
    /// The bin of the oldest packet after it, in nanoseconds since 1970.
    pub to_ns: u64,
}

/// The jumps of a profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jumps {
    /// How often the times of packets jumped back by more than a second, or ahead by more than ten minutes.
    pub number: u64,
    /// The first eight of these jumps.
    pub first: Vec<Jump>,
}

/// Packets of a queue that are in no bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outliers {
    pub(crate) late: u64,
    pub(crate) ahead: u64,
}

/// Bins on one line of time.
#[derive(Debug)]
pub(crate) struct Timeline {
    bin_ns: u64,
    /// The tolerance, in bins.
    tolerance: u64,
    line: Bins,
    /// The newest bin on the line; `None` before the first packet.
    newest: Option<u64>,
    /// Packets off the line that no packet on it has followed.
    aside: Bins,
    /// Packets of all queues in `aside`. Kept here, since each packet may ask for it, and bins are many.
    aside_packets: u64,
    /// Packets that came since the first one aside, and are not aside.
    against: u64,
    /// Packets in a row that became outliers because the next one was more than a second later.
    lone_in_order: u32,
    outliers: Vec<Outliers>,
    jumps: Jumps,
    /// The first bin of the stretch that has left, and its position.
    origin: Option<(u64, u64)>,
    /// The position behind all rows that have left.
    next_position: u64,
}

impl Timeline {
    pub(crate) fn new(queues: usize, bin_ns: u64) -> Self {
        Self {
            bin_ns,
            tolerance: TOLERANCE_NS.div_ceil(bin_ns),
            line: Bins::new(queues),
            newest: None,
            aside: Bins::new(queues),
            aside_packets: 0,
            against: 0,
            lone_in_order: 0,
            outliers: vec![Outliers::default(); queues],
            jumps: Jumps::default(),
            origin: None,
            next_position: 0,
        }
    }

    /// Adds packets, and closes bins that are now too old.
    pub(crate) fn add(&mut self, bin: u64, queue: usize, packets: u64, each: &mut impl FnMut(Row)) {
        let newest = *self.newest.get_or_insert(bin);
        if bin.abs_diff(newest) <= self.tolerance {
            self.lone_in_order = 0;
            if !self.join_aside(newest.max(bin), each) {
                // The smaller side loses here, too: the line itself may be where a bad time has put it.
                self.against += packets;
                if self.against >= self.aside_packets {
                    self.reject_aside();
                }
            }
            self.add_to_line(bin, queue, packets, each);
            return;
        }
        if let Some((first, last)) = self.aside.span() {
            let is_same_side = (first < newest) == (bin < newest);
            if !is_same_side || bin.saturating_add(self.tolerance) < last {
                // The smaller side loses, so that a bad time now and then does not keep good ones out, and
                // many bad ones do so for a while only.
                self.against += packets;
                if self.aside_packets > self.against {
                    self.outlier(bin < newest, queue, packets);
                    return;
                }
                self.reject_aside();
            } else if bin - first.min(bin) > self.tolerance {
                let is_one_of_many = self.lone_in_order >= LONE_OUTLIERS;
                if self.is_silence(newest, first) || self.aside_packets > 1 || is_one_of_many {
                    self.accept_aside(each);
                    self.add(bin, queue, packets, each);
                    return;
                }
                self.reject_aside();
                self.lone_in_order += 1;
            }
        }
        self.aside.add(bin, queue, packets);
        self.aside_packets += packets;
        if self.aside.is_full() {
            self.accept_aside(each);
        }
    }

    /// Closes all bins: no more packets come.
    pub(crate) fn close(&mut self, each: &mut impl FnMut(Row)) {
        if let (Some(newest), Some((first, _))) = (self.newest, self.aside.span()) {
            match self.is_silence(newest, first) || self.aside_packets > 1 {
                true => self.accept_aside(each),
                false => self.reject_aside(),
            }
        }
        self.close_line(u64::MAX, each);
    }

    pub(crate) fn outliers(&self, queue: usize) -> Outliers {
        self.outliers[queue]
    }

    pub(crate) fn jumps(&self) -> &Jumps {
        &self.jumps
    }

    /// Packets of a queue whose row has not left yet.
    pub(crate) fn open_packets(&self, queue: usize) -> u64 {
        self.line.packets(queue) + self.aside.packets(queue)
    }

    /// Removes the packets aside.
    fn take_aside(&mut self) -> BTreeMap<u64, BinPackets> {
        self.aside_packets = 0;
        self.aside.take()
    }

    /// Packets are in no bin: their time is before the line, or behind it.
    fn outlier(&mut self, is_late: bool, queue: usize, packets: u64) {
        let outliers = &mut self.outliers[queue];
        let side = if is_late { &mut outliers.late } else { &mut outliers.ahead };
        *side += packets;
    }

    fn add_to_line(&mut self, bin: u64, queue: usize, packets: u64, each: &mut impl FnMut(Row)) {
        if !self.line.add(bin, queue, packets) {
            self.outliers[queue].late += packets;
        }
        let newest = self.newest.map_or(bin, |newest| newest.max(bin));
        self.newest = Some(newest);
        self.close_line(newest.saturating_sub(self.tolerance), each);
    }

    /// Moves the packets aside to the line, if they are within a second of its new end. Returns whether they
    /// are.
    fn join_aside(&mut self, newest: u64, each: &mut impl FnMut(Row)) -> bool {
        let Some((first, last)) = self.aside.span() else { return false };
        if first.abs_diff(newest).max(last.abs_diff(newest)) > self.tolerance {
            return false;
        }
        self.against = 0;
        for (bin, row) in self.take_aside() {
            let of_queues = row.into_iter().enumerate().filter(|(_, packets)| *packets > 0);
            of_queues.for_each(|(queue, packets)| self.add_to_line(bin, queue, packets, each));
        }
        true
    }

    /// The packets aside are outliers.
    fn reject_aside(&mut self) {
        self.against = 0;
        let (Some(newest), Some((first, _))) = (self.newest, self.aside.span()) else { return };
        for row in self.take_aside().into_values() {
            for (queue, packets) in row.into_iter().enumerate() {
                self.outlier(first < newest, queue, packets);
            }
        }
    }

    /// The line goes on where the packets aside are.
    fn accept_aside(&mut self, each: &mut impl FnMut(Row)) {
        self.against = 0;
        let (Some(newest), Some((first, last))) = (self.newest, self.aside.span()) else { return };
        if !self.is_silence(newest, first) {
            self.close_line(u64::MAX, each);
            self.line.take();
            self.origin = None;
            self.note_jump(newest, first);
        }
        let aside = self.take_aside();
        self.line.append(aside);
        self.newest = Some(last);
        self.close_line(last.saturating_sub(self.tolerance), each);
    }

    fn is_silence(&self, newest: u64, first: u64) -> bool {
        first > newest && (first - newest).saturating_mul(self.bin_ns) <= SILENCE_NS
    }

    fn note_jump(&mut self, newest: u64, first: u64) {
        self.jumps.number += 1;
        if self.jumps.first.len() < MAX_JUMPS {
            let seconds = self.next_position as f64 * self.bin_ns as f64 / 1e9;
            let (from_ns, to_ns) = (newest * self.bin_ns, first * self.bin_ns);
            self.jumps.first.push(Jump { seconds, from_ns, to_ns });
        }
    }

    fn close_line(&mut self, open_from: u64, each: &mut impl FnMut(Row)) {
        let Self { line, origin, next_position, jumps, .. } = self;
        line.close_before(open_from, &mut |bin, packets: BinPackets| {
            let (first, position) = *origin.get_or_insert((bin, *next_position));
            let position = position + (bin - first);
            *next_position = position + 1;
            each(Row { bin, position, stretch: jumps.number, packets });
        });
    }
}

#[cfg(test)]
mod tests;
