//! Reproducible random numbers: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).

/// A generator of random numbers, from a seed.
///
/// ```
/// use wirecap_traffic::Random;
///
/// let (mut one, mut other) = (Random::new(7), Random::new(7));
/// assert_eq!(one.next(), other.next());
/// assert!(one.below(6) < 6);
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend only on this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of all 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it needs no Option")]
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; its bias is below `end` in 2^32.
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next() as u32) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_the_reference() {
        // The first two numbers of seed 1234567, as in the reference implementation's examples.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_below_the_end_are_equally_likely() {
        let (mut random, mut counts) = (Random::new(1), [0; 7]);
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }
}
