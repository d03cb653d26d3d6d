//! Figures of imbalance between queues.

/// The largest share as a multiple of an even one: 1 if all are equal, the number of queues if one has
/// everything, 0 without packets.
///
/// ```
/// use wirecap_profile::imbalance::factor;
///
/// assert_eq!((factor(&[5, 5]), factor(&[9, 0, 0]), factor(&[0, 0])), (1.0, 3.0, 0.0));
/// ```
pub fn factor(packets: &[u64]) -> f64 {
    let total: u64 = packets.iter().sum();
    let most = packets.iter().max().copied().unwrap_or(0);
    if total == 0 { 0.0 } else { most as f64 * packets.len() as f64 / total as f64 }
}

/// The Gini coefficient: 0 if all are equal, up to (n - 1)/n if one of n has everything. 0 without packets.
///
/// ```
/// use wirecap_profile::imbalance::gini;
///
/// assert_eq!((gini(&[5, 5]), gini(&[8, 0]), gini(&[3, 1]), gini(&[])), (0.0, 0.5, 0.25, 0.0));
/// ```
pub fn gini(packets: &[u64]) -> f64 {
    let total: u64 = packets.iter().sum();
    if total == 0 {
        return 0.0;
    }
    let mut sorted = packets.to_vec();
    sorted.sort_unstable();
    let queues = sorted.len() as f64;
    // Of the numbers in increasing order: the sum of (2·rank - n - 1)·x, over n times their sum.
    let weighted: f64 = sorted
        .iter()
        .enumerate()
        .map(|(index, &one)| (2.0 * (index + 1) as f64 - queues - 1.0) * one as f64)
        .sum();
    weighted / (queues * total as f64)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// The definition: half the mean difference between two, relative to the mean.
        #[test]
        fn gini_is_the_mean_difference(packets in vec(0u64..1_000, 1..12)) {
            let (queues, total) = (packets.len() as f64, packets.iter().sum::<u64>() as f64);
            let differences: u64 =
                packets.iter().flat_map(|one| packets.iter().map(|other| one.abs_diff(*other))).sum();
            let expected = if total == 0.0 { 0.0 } else { differences as f64 / (2.0 * queues * total) };
            prop_assert!((gini(&packets) - expected).abs() < 1e-9);
            prop_assert!(factor(&packets) <= queues + 1e-9);
        }
    }
}
