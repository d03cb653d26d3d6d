//! Times of packets that stand one behind the other.
//!
//! Rule: a packet is out of order if one before it in the file is later. Two of the same time are in order.

use wirecap_file::Format;

use super::records;

/// Which times some packets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Time of the first, in nanoseconds since 1970 (UTC).
    pub first_ns: u64,
    /// The latest time.
    pub newest_ns: u64,
    /// None of them is out of order.
    pub sorted: bool,
}

impl Span {
    /// Of no packet.
    pub const EMPTY: Self = Self { first_ns: u64::MAX, newest_ns: 0, sorted: true };

    /// Of one packet.
    #[inline]
    pub fn of(time_ns: u64) -> Self {
        Self { first_ns: time_ns, newest_ns: time_ns, sorted: true }
    }

    /// Puts other packets behind these.
    #[inline]
    pub fn append(&mut self, next: Self) {
        self.sorted &= next.sorted && self.newest_ns <= next.first_ns;
        if self.first_ns == Self::EMPTY.first_ns {
            self.first_ns = next.first_ns;
        }
        self.newest_ns = self.newest_ns.max(next.newest_ns);
    }
}

/// Looks after the order of what is written.
#[derive(Debug, Default)]
pub struct Order {
    newest_ns: u64,
    late: u64,
}

impl Order {
    /// Packets that were written behind a later one.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// These records, of `span` at most, were written next. Looks at each only if one of them is late.
    pub fn written(&mut self, format: Format, written: &[u8], span: Span) {
        if !span.sorted || span.first_ns < self.newest_ns {
            for record in records::each(format, written) {
                self.late += u64::from(record.time_ns < self.newest_ns);
                self.newest_ns = self.newest_ns.max(record.time_ns);
            }
        }
        self.newest_ns = self.newest_ns.max(span.newest_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block::Records;
    use super::*;

    fn late(times: &[u64]) -> u64 {
        let late = (1..times.len()).filter(|&at| times[..at].iter().any(|&before| before > times[at]));
        late.count() as u64
    }

    proptest! {
        #[test]
        fn packets_behind_a_later_one_are_counted_each(
            blocks in prop::collection::vec(prop::collection::vec(0..20_u64, 1..6), 0..6),
        ) {
            for format in [Format::Pcap, Format::Pcapng] {
                let mut order = Order::default();
                for times in &blocks {
                    let written = Records::of_times(format, times);
                    prop_assert_eq!(written.span.sorted, late(times) == 0);
                    order.written(format, &written.bytes, written.span);
                }
                prop_assert_eq!(order.late(), late(&blocks.concat()));
            }
        }
    }
}
