//! Distributions of random numbers, the same on every machine.

use wirecap_traffic::Random;

/// A number from 0 to less than 1.
pub fn uniform(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Exponentially distributed with this mean.
pub fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * libm::log(1.0 - uniform(random))
}

/// Distributed as Pareto with this least value and shape; the mean exists for shapes above 1.
pub fn pareto(random: &mut Random, least: f64, shape: f64) -> f64 {
    least / libm::pow(1.0 - uniform(random), 1.0 / shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let mut mean =
            |draw: fn(&mut Random) -> f64| (0..100_000).map(|_| draw(&mut random)).sum::<f64>() / 100_000.0;
        let exponential = mean(|random| exponential(random, 5.0));
        assert!((exponential - 5.0).abs() < 0.1, "{exponential}");
        // shape / (shape - 1) times the least value.
        let pareto = mean(|random| pareto(random, 1.0, 3.0));
        assert!((pareto - 1.5).abs() < 0.03, "{pareto}");
    }
}
