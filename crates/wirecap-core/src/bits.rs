//! One bit for each slot of a pool.
//!
//! ```text
//!   first bit                     first + count
//!      ▼                                ▼
//!   …0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 1 1 0…
//!      └──── word 7 ────┘└──── word 8 ────┘└─ gap ─┘
//! ```

use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Bits, all clear at first.
#[derive(Debug)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    pub(crate) fn new(bits: u32) -> Self {
        Self(vec![0; (bits as usize).div_ceil(WORD_BITS)].into())
    }

    pub(crate) fn set(&mut self, first: usize, count: u32) {
        for_words(first, count, |word, mask| self.0[word] |= mask);
    }

    pub(crate) fn clear(&mut self, first: usize, count: u32) {
        for_words(first, count, |word, mask| self.0[word] &= !mask);
    }

    pub(crate) fn are_set(&self, first: usize, count: u32) -> bool {
        let mut all = true;
        for_words(first, count, |word, mask| all &= self.0[word] & mask == mask);
        all
    }

    /// The first bits of `range` that are clear both here and in `other`, which is as long.
    pub(crate) fn first_gap(&self, other: &Self, range: Range<usize>) -> Option<Range<usize>> {
        let begin = find(range.clone(), |word| !(self.0[word] | other.0[word]))?;
        let end = find(begin..range.end, |word| self.0[word] | other.0[word]);
        Some(begin..end.unwrap_or(range.end))
    }
}

/// Calls `each` with the words that bits `first .. first + count` touch and a mask of those bits.
#[inline]
fn for_words(first: usize, count: u32, mut each: impl FnMut(usize, u64)) {
    let end = first + count as usize;
    let mut bit = first;
    while bit < end {
        let offset = bit % WORD_BITS;
        let bits = (WORD_BITS - offset).min(end - bit);
        each(bit / WORD_BITS, (u64::MAX >> (WORD_BITS - bits)) << offset);
        bit += bits;
    }
}

/// The first bit of a range that is set in the words that `word` gives.
fn find(range: Range<usize>, word: impl Fn(usize) -> u64) -> Option<usize> {
    let mut bit = range.start;
    while bit < range.end {
        let rest = word(bit / WORD_BITS) >> (bit % WORD_BITS);
        if rest != 0 {
            let found = bit + rest.trailing_zeros() as usize;
            return (found < range.end).then_some(found);
        }
        bit = (bit / WORD_BITS + 1) * WORD_BITS;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Step between the positions and lengths tried: larger under miri, which is a hundred times slower.
    const STEP: usize = if cfg!(miri) { 13 } else { 1 };

    #[test]
    fn ranges_of_bits_at_all_small_sizes() {
        for first in (0..130).step_by(STEP) {
            for count in (1..130u32).step_by(STEP) {
                let mut bits = Bits::new(5 * 64);
                bits.set(first, count);
                let ones: u32 = bits.0.iter().map(|word| word.count_ones()).sum();
                assert_eq!(ones, count);
                assert!(bits.are_set(first, count));
                assert!(!bits.are_set(first, count + 1));
                bits.clear(first, count);
                assert!(bits.0.iter().all(|&word| word == 0));
            }
        }
    }

    #[test]
    fn a_gap_lies_between_bits_set_in_either() {
        for begin in (1..130).step_by(STEP) {
            for len in (1..100).step_by(STEP) {
                let (mut one, mut other) = (Bits::new(5 * 64), Bits::new(5 * 64));
                one.set(0, begin as u32);
                other.set(begin + len, 3);
                assert_eq!(one.first_gap(&other, 0..300), Some(begin..begin + len));
                assert_eq!(other.first_gap(&one, begin..begin + len), Some(begin..begin + len));
                assert_eq!(
                    one.first_gap(&other, 0..begin + 1),
                    Some(begin..begin + 1),
                    "the gap ends with the range"
                );
                assert_eq!(one.first_gap(&other, 0..begin), None);
                assert_eq!(one.first_gap(&other, begin + len..300), Some(begin + len + 3..300));
                assert_eq!(one.first_gap(&other, begin + len..begin + len + 3), None);
                // Bits that are set in both form no gap.
                one.set(begin + len, 3);
                other.set(0, begin as u32);
                assert_eq!(one.first_gap(&other, 0..300), Some(begin..begin + len));
            }
        }
    }
}
