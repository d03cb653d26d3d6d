//! Counts packets that are written after a later one.

use super::records::{Entry, Span};

/// Checks the order of what is written.
#[derive(Debug, Default)]
pub(crate) struct Order {
    newest_ns: u64,
    /// Packets that were written after a later one.
    pub(crate) late: u64,
}

impl Order {
    /// Notes that these packets, within `span`, were written next. Checks each only if one of them may be
    /// late.
    pub(crate) fn written(&mut self, written: &[Entry], span: Span) {
        if !span.sorted || span.first_ns < self.newest_ns {
            for entry in written {
                self.late += u64::from(entry.time_ns < self.newest_ns);
                self.newest_ns = self.newest_ns.max(entry.time_ns);
            }
        } else if let Some(last) = written.last() {
            self.newest_ns = last.time_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::records::Records, *};

    fn late(times: &[u64]) -> u64 {
        let late = (1..times.len()).filter(|&at| times[..at].iter().any(|&before| before > times[at]));
        late.count() as u64
    }

    proptest! {
        #[test]
        fn each_packet_behind_a_later_one_is_counted(
            blocks in prop::collection::vec(prop::collection::vec(0..20_u64, 1..6), 0..6),
        ) {
            let mut order = Order::default();
            for times in &blocks {
                let written = Records::of_times(times);
                prop_assert_eq!(written.span.sorted, late(times) == 0);
                order.written(&written.entries, written.span);
            }
            prop_assert_eq!(order.late, late(&blocks.concat()));
        }
    }
}
