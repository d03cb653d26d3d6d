//! Random numbers that are the same on every machine: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The source with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to less than 1.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Distributed as Pareto with this least value and shape; the mean exists for shapes above 1.
    pub fn pareto(&mut self, least: f64, shape: f64) -> f64 {
        least / libm::pow(1.0 - self.uniform(), 1.0 / shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_publication() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let exponential = mean((0..100_000).map(|_| random.exponential(5.0)).collect());
        assert!((exponential - 5.0).abs() < 0.1, "{exponential}");
        // shape / (shape - 1) times the least value.
        let pareto = mean((0..100_000).map(|_| random.pareto(1.0, 3.0)).collect());
        assert!((pareto - 1.5).abs() < 0.03, "{pareto}");
    }
}
