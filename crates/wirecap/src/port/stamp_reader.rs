//! The stamps in front of a queue's packets, read and brought to UTC.
//!
//! Rule: an implausible stamp counts as missing, unless a program has brought it to UTC: that needs no look
//! at the packet. A packet is at most [`STAMP_TO_RING`] older than one before it, and none comes before it
//! was stamped. A packet without a stamp has the time of its batch, and is counted.

use std::time::Duration;

use wirecap_sys::{
    clock::{StampClock, StampShift, system_ns},
    memory::FilledCell,
    xsk::Contents,
};

use crate::{
    Timestamp,
    nic::stamping::Stamping,
    port::{
        intake::{CellTime, Intake},
        queue::Outlook,
    },
};

/// How long a packet with a stamp may be on its way to its ring: what is left of a round of the softirq.
const STAMP_TO_RING: Duration = Duration::from_millis(10);
/// How far the clock of a NIC may be from the system clock and still count as showing the same time.
const NIC_CLOCK_OFF: Duration = Duration::from_millis(100);

/// Reads the stamps of a queue's packets.
#[derive(Debug)]
pub(crate) struct StampReader {
    /// `None` where packets have the time of their batch.
    stamps: Option<Stamps>,
    /// The packet taken last goes on in the next cell.
    in_packet: bool,
}

/// What is known of stamps that were read.
#[derive(Debug)]
struct Stamps {
    clock: StampClock,
    /// How much older than its packet's arrival in the ring a stamp may be, in nanoseconds.
    lateness_ns: u64,
    /// The latest time that a stamp gave, or the start. It goes back when the system clock is set back.
    last_ns: u64,
    /// Packets without a plausible stamp.
    unknown: u64,
}

impl StampReader {
    pub(crate) fn new(stamping: Option<&Stamping>) -> Self {
        Self { stamps: stamping.map(|stamping| Stamps::new(stamping, system_ns())), in_packet: false }
    }

    /// The clock by which stamps are brought to UTC.
    pub(crate) fn clock(&self) -> Option<&StampClock> {
        self.stamps.as_ref().map(|stamps| &stamps.clock)
    }

    /// Packets without a plausible stamp, where each was to have one.
    pub(crate) fn unknown(&self) -> u64 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.unknown)
    }

    /// The times of packets that are received from here on. Times that are read when packets are received are
    /// later than now, also those of packets that wait.
    pub(crate) fn outlook(&self, some_wait: bool) -> Outlook {
        match &self.stamps {
            None => Outlook::OnReceipt,
            Some(_) if some_wait => Outlook::Open,
            Some(stamps) => Outlook::NotOlderThan(stamps.lateness_ns),
        }
    }

    /// What makes UTC of the stamps of a program, if the clock was looked at anew: see
    /// [`StampClock::program_shift`].
    pub(crate) fn changed_shift(&mut self, now_ns: u64) -> Option<StampShift> {
        let stamps = self.stamps.as_mut()?;
        stamps.look(now_ns).then(|| stamps.clock.program_shift(now_ns)).flatten()
    }

    /// What is known of the time of packets, by their stamps. They are taken in a batch of `now_ns`.
    pub(crate) fn times(&mut self, now_ns: u64) -> impl FnMut(u64) -> CellTime {
        let mut stamps = self.stamps.as_mut();
        if let Some(stamps) = &mut stamps {
            stamps.look(now_ns);
        }
        move |stamp| {
            stamps.as_mut().map_or(CellTime::Unknown, |stamps| stamps.time_of(stamp, now_ns, system_ns))
        }
    }

    /// Puts cells into `intake`, with the times of their packets.
    #[inline]
    pub(crate) fn take(
        &mut self,
        cells: impl Iterator<Item = FilledCell>,
        contents: Contents<'_>,
        intake: &mut Intake<'_>,
    ) {
        let Some(stamps) = &mut self.stamps else {
            return intake.take(cells);
        };
        let (now_ns, in_packet) = (intake.batch.now_ns, &mut self.in_packet);
        stamps.look(now_ns);
        intake.take_stamped(cells.map(|cell| {
            let time = if *in_packet {
                CellTime::Continued
            } else {
                stamps.time_of(contents.metadata(&cell).unwrap_or(0), now_ns, system_ns)
            };
            *in_packet = cell.more();
            (cell, time)
        }));
    }
}

impl Stamps {
    /// No packet is stamped before `now_ns`.
    fn new(stamping: &Stamping, now_ns: u64) -> Self {
        let lateness = match stamping.source {
            Timestamp::Hardware => STAMP_TO_RING + NIC_CLOCK_OFF,
            _ => STAMP_TO_RING,
        };
        let (clock, lateness_ns) = (stamping.clock.clone(), lateness.as_nanos() as u64);
        Self { clock, lateness_ns, last_ns: now_ns, unknown: 0 }
    }

    /// Before the stamps of a batch are read, at its time. Returns whether the clock was looked at anew.
    #[inline]
    fn look(&mut self, now_ns: u64) -> bool {
        self.last_ns = self.last_ns.min(now_ns);
        self.clock.look(now_ns)
    }

    /// The time of a packet by its stamp. It is taken in a batch of `now_ns`, or a little later: `later_ns`
    /// says when.
    #[inline]
    fn time_of(&mut self, stamp: u64, now_ns: u64, later_ns: impl Fn() -> u64) -> CellTime {
        let stamp_ns = match self.clock.utc_ns(stamp, now_ns) {
            // It may have come while the thread stood still, after it had read the time of the batch.
            None if stamp != 0 => self.clock.utc_ns(stamp, later_ns()),
            stamp_ns => stamp_ns,
        };
        match stamp_ns {
            Some(stamp_ns) if stamp_ns >= self.last_ns.saturating_sub(self.lateness_ns) => {
                self.last_ns = self.last_ns.max(stamp_ns);
                CellTime::At(stamp_ns)
            }
            _ => {
                self.unknown += 1;
                CellTime::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests;
