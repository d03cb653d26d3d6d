//! When each packet is due: a function of the times in the file, the packets sent before, and the speed.
//!
//! ```text
//!   Recorded   due = time since the first packet of the file / speed        passes follow each other in recorded time
//!   Packets    due = packets before it / rate
//!   Bits       due = bits of the packets before it / rate
//!   Top        due at once
//! ```
//!
//! Rule: due times count from the start, never from the packet before, so that errors do not add up. Late
//! packets are handled in `catch_up`.

use std::num::NonZeroU64;

const NS: u128 = 1_000_000_000;
const MILLION: u128 = 1_000_000;

/// How fast packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// As recorded, times a factor in millionths: 10,000,000 is ten times as fast.
    Recorded {
        /// Millionths of the recorded speed.
        millionths: NonZeroU64,
    },
    /// Evenly, at a rate in packets per second.
    Packets {
        /// Packets a second.
        per_second: NonZeroU64,
    },
    /// At a rate in bits per second, of packets as they are in the file: without preamble, checksum (FCS) and
    /// pause.
    Bits {
        /// Bits a second.
        per_second: NonZeroU64,
    },
    /// As fast as the kernel accepts packets.
    Top,
}

impl Speed {
    /// The recorded speed.
    ///
    /// ```
    /// use wirecap_replay::Speed;
    ///
    /// assert!(matches!(Speed::recorded(), Speed::Recorded { millionths } if millionths.get() == 1_000_000));
    /// ```
    pub fn recorded() -> Self {
        Self::Recorded { millionths: NonZeroU64::new(MILLION as u64).expect("a million is not 0") }
    }
}

/// When packets are due.
///
/// ```
/// use wirecap_replay::{Schedule, Speed};
///
/// let mut schedule = Schedule::new(Speed::recorded());
/// assert_eq!(schedule.due_ns(5_000), 5_000);
/// schedule.sent(64);
/// // The second pass begins when the first, and the gap behind it, are over.
/// schedule.next_pass(5_000, 1_000);
/// assert_eq!(schedule.due_ns(0), 6_000);
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    speed: Speed,
    packets: u64,
    bytes: u64,
    /// When this pass began, in recorded time.
    pass_ns: u64,
}

impl Schedule {
    /// A schedule whose first packet is due at 0.
    pub fn new(speed: Speed) -> Self {
        Self { speed, packets: 0, bytes: 0, pass_ns: 0 }
    }

    /// When the next packet is due, in nanoseconds since the start. `offset_ns` is its time since the first
    /// packet of the pass. Saturates at `u64::MAX`.
    pub fn due_ns(&self, offset_ns: u64) -> u64 {
        let due = match self.speed {
            Speed::Top => return 0,
            Speed::Recorded { millionths } => {
                let recorded = u128::from(self.pass_ns) + u128::from(offset_ns);
                recorded * MILLION / u128::from(millionths.get())
            }
            Speed::Packets { per_second } => u128::from(self.packets) * NS / u128::from(per_second.get()),
            Speed::Bits { per_second } => u128::from(self.bytes) * 8 * NS / u128::from(per_second.get()),
        };
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Notes that the next packet, of `bytes` bytes, was sent.
    pub fn sent(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Pretends that `packets` packets with `bytes` bytes were sent.
    pub(crate) fn sent_before(&mut self, packets: u64, bytes: u64) {
        (self.packets, self.bytes) = (packets, bytes);
    }

    /// Begins the next pass: the one before took `span_ns` from its first packet to its last, and `gap_ns`
    /// follows it, both in recorded time.
    pub fn next_pass(&mut self, span_ns: u64, gap_ns: u64) {
        self.pass_ns = self.pass_ns.saturating_add(span_ns).saturating_add(gap_ns);
    }

    /// Whether packets have due times.
    pub fn is_timed(&self) -> bool {
        self.speed != Speed::Top
    }
}

/// The default gap between two passes: the mean gap of the trace, which keeps the rate. 0 without a gap.
pub(crate) fn mean_gap_ns(span_ns: u64, packets: u64) -> u64 {
    match packets {
        0 | 1 => 0,
        packets => span_ns / (packets - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> NonZeroU64 {
        NonZeroU64::new(number).unwrap()
    }

    /// Due times of packets with these offsets and lengths.
    fn due(speed: Speed, packets: &[(u64, u32)]) -> Vec<u64> {
        let mut schedule = Schedule::new(speed);
        let due = packets.iter().map(|&(offset_ns, len)| {
            let due = schedule.due_ns(offset_ns);
            schedule.sent(len);
            due
        });
        due.collect()
    }

    const PACKETS: [(u64, u32); 4] = [(0, 100), (30, 1_000), (31, 60), (1_000_000, 60)];

    #[test]
    fn each_speed_has_its_rule() {
        let recorded = |millionths| due(Speed::Recorded { millionths: number(millionths) }, &PACKETS);
        assert_eq!(recorded(1_000_000), [0, 30, 31, 1_000_000]);
        assert_eq!(recorded(10_000_000), [0, 3, 3, 100_000]);
        assert_eq!(recorded(500_000), [0, 60, 62, 2_000_000]);
        assert_eq!(
            due(Speed::Packets { per_second: number(3) }, &PACKETS),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        // 1 Gbit/s: a bit takes a nanosecond.
        assert_eq!(due(Speed::Bits { per_second: number(1_000_000_000) }, &PACKETS), [0, 800, 8_800, 9_280]);
        assert_eq!(due(Speed::Top, &PACKETS), [0; 4]);
    }

    #[test]
    fn rounding_errors_of_rates_do_not_add_up() {
        let mut schedule = Schedule::new(Speed::Packets { per_second: number(7) });
        for _ in 0..7_000_000 {
            schedule.sent(60);
        }
        assert_eq!(schedule.due_ns(0), 1_000_000_000_000_000);
        let mut schedule = Schedule::new(Speed::Bits { per_second: number(u64::MAX) });
        schedule.sent(u32::MAX);
        assert_eq!(schedule.due_ns(u64::MAX), 1);
    }

    #[test]
    fn passes_follow_each_other_in_file_time() {
        let mut schedule = Schedule::new(Speed::Recorded { millionths: number(2_000_000) });
        assert_eq!(mean_gap_ns(3_000, 4), 1_000);
        schedule.next_pass(3_000, mean_gap_ns(3_000, 4));
        assert_eq!((schedule.due_ns(0), schedule.due_ns(3_000)), (2_000, 3_500));
        assert_eq!((mean_gap_ns(0, 0), mean_gap_ns(0, 1)), (0, 0));
        // Rates continue across passes.
        let mut schedule = Schedule::new(Speed::Packets { per_second: number(1_000) });
        schedule.sent(60);
        schedule.next_pass(3_000, 1_000);
        assert_eq!(schedule.due_ns(0), 1_000_000);
    }

    #[test]
    fn overflowing_times_saturate() {
        let slow = Speed::Recorded { millionths: number(1) };
        assert_eq!(due(slow, &[(u64::MAX, 1)]), [u64::MAX]);
        let mut schedule = Schedule::new(Speed::recorded());
        schedule.next_pass(u64::MAX, u64::MAX);
        assert_eq!(schedule.due_ns(u64::MAX), u64::MAX);
    }
}
