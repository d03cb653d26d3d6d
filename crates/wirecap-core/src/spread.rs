//! A histogram of lengths of time, exact to an eighth, of fixed size.
//!
//! ```text
//!   0 1 2 … 7 │ 8 9 10 … 15 │ 16 18 20 … 30 │ 32 36 40 … 60 │ …      the least length of each class: eight for each power of two
//! ```
//!
//! Rule: a quantile is never too small. It is the greatest length of its class; the longest length is exact.

/// Classes of a power of two.
const PARTS: u64 = 8;
const PART_BITS: u32 = PARTS.trailing_zeros();
const CLASSES: usize = (u64::BITS - PART_BITS + 1) as usize * PARTS as usize;

/// Counts lengths.
#[derive(Debug, Clone)]
pub struct Spread {
    counts: Box<[u64]>,
    count: u64,
    longest: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { counts: vec![0; CLASSES].into(), count: 0, longest: 0 }
    }
}

impl Spread {
    /// Nothing yet. Allocates everything it will ever need.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `count` more of this length.
    #[inline]
    pub fn note(&mut self, length: u64, count: u64) {
        self.counts[class(length)] += count;
        self.count += count;
        if count > 0 {
            self.longest = self.longest.max(length);
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly; 0 before the first.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// A length that at least this part of all, from 0 to 1, does not exceed; at most an eighth too large.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.count as f64).ceil() as u64;
        let mut counted = 0;
        for (class, count) in self.counts.iter().enumerate() {
            counted += count;
            if counted >= wanted.max(1) {
                return longest_of(class).min(self.longest);
            }
        }
        self.longest
    }
}

fn class(length: u64) -> usize {
    let shift = length.max(PARTS).ilog2() - PART_BITS;
    (u64::from(shift) * PARTS + (length >> shift)) as usize
}

fn longest_of(class: usize) -> u64 {
    let class = class as u64;
    let shift = (class / PARTS).saturating_sub(1);
    let least = (class - shift * PARTS) << shift;
    least + ((1 << shift) - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_class_ends_at_most_an_eighth_above_each_of_its_lengths() {
        for bits in 0..64 {
            for near in -2_i64..=2 {
                let length = (1_u64 << bits).wrapping_add_signed(near);
                let longest = longest_of(class(length));
                assert!(length <= longest && longest - length <= length / PARTS, "{length} {longest}");
            }
        }
        assert_eq!((class(u64::MAX), longest_of(CLASSES - 1)), (CLASSES - 1, u64::MAX));
    }

    #[test]
    fn without_counts_every_length_is_zero() {
        let spread = Spread::new();
        assert_eq!((spread.count(), spread.longest(), spread.quantile(0.5)), (0, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

        #[cfg(not(miri))] // No unsafe code, and it takes minutes under miri.
        #[test]
        fn a_quantile_is_rounded_up_by_an_eighth_at_most(
            lengths in prop::collection::vec(prop_oneof![0..100_u64, any::<u64>()], 1..60), part in 0.0..=1.0_f64,
        ) {
            let (mut spread, mut other) = (Spread::new(), Spread::new());
            for (at, &length) in lengths.iter().enumerate() {
                if at % 2 == 0 { spread.note(length, 1) } else { other.note(length, 1) }
            }
            other.note(u64::MAX, 0);
            spread.add(&other);
            let mut sorted = lengths.clone();
            sorted.sort_unstable();
            let exact = sorted[((part * lengths.len() as f64).ceil() as usize).max(1) - 1];
            let reported = spread.quantile(part);
            prop_assert!(exact <= reported && reported - exact <= exact / PARTS, "{exact} {reported}");
            prop_assert_eq!((spread.longest(), spread.count()), (sorted[sorted.len() - 1], lengths.len() as u64));
        }
    }
}
