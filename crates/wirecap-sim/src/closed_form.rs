//! The results of the experiments by arithmetic: tests check the simulator against them.

/// Packets that a burst of `packets` loses, if they come at `arrival_pps` and are handled at `pace_pps`, and
/// `buffer` of them can wait (section 3.2.2 of the paper).
pub fn burst_loss(packets: u64, arrival_pps: f64, pace_pps: f64, buffer: u64) -> f64 {
    let handled_meanwhile = packets as f64 / arrival_pps * pace_pps;
    (packets as f64 - buffer as f64 - handled_meanwhile).max(0.0)
}

/// The share of packets lost by a queue for `places` packets, including the one being handled. Packets come
/// at random (Poisson), `load` per handling time, which is constant: M/D/1/K, by the Markov chain at the ends
/// of handling.
pub fn mdk_loss(load: f64, places: usize) -> f64 {
    // The number of arrivals in one time of handling.
    let arrivals = |count: usize| (1..=count).fold((-load).exp(), |term, number| term * load / number as f64);
    // The chain at departures, of M/D/1 without a limit and not normalised: its first `places` states are
    // those of M/D/1/K as well.
    let mut states = vec![1.0];
    for state in 0..places.saturating_sub(1) {
        let from_empty = states[0] * arrivals(state);
        let from_others: f64 = (1..=state).map(|from| states[from] * arrivals(state + 1 - from)).sum();
        states.push((states[state] - from_empty - from_others) / arrivals(0));
    }
    let sum: f64 = states.iter().sum();
    let empty = states[0] / sum;
    1.0 - 1.0 / (empty + load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_that_fits_loses_nothing_and_what_does_not_fit_is_lost() {
        assert_eq!(burst_loss(1_000, 1e6, 1e5, 900), 0.0);
        assert_eq!(burst_loss(10_000, 1e6, 1e5, 1_000), 8_000.0);
    }

    #[test]
    fn a_queue_with_one_place_loses_as_by_erlang() {
        // Whatever the distribution of the time: load / (1 + load).
        for load in [0.1, 0.5, 1.0, 3.0] {
            assert!((mdk_loss(load, 1) - load / (1.0 + load)).abs() < 1e-9, "{load}");
        }
        // Two places: by hand, empty = 1 / (1 + (1 - e^-l) / e^-l) = e^-l.
        let load = 0.7_f64;
        let expected = 1.0 - 1.0 / ((-load).exp() + load);
        assert!((mdk_loss(load, 2) - expected).abs() < 1e-9);
        // Under overload, a large queue loses the excess.
        assert!((mdk_loss(2.0, 60) - 0.5).abs() < 1e-6);
    }
}
