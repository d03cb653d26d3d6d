//! The largest value that still works, by bisection.
//!
//! ```text
//!   works ├──────────────● low ───── high ●──────────────┤ does not
//!                              ▲ tried next
//! ```
//!
//! Rule: success is monotone except for noise, so the search retries a failure once and believes a success.

/// Where bisection starts and stops.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Assumed to work; the result if no tried value works.
    pub low: f64,
    /// Tried first; the result if it works.
    pub high: f64,
    /// Stop once `high - low` is below this share of `high`.
    pub precision: f64,
}

/// The largest value for which `works` returns true.
///
/// # Errors
/// The first error of `works`, which ends the search.
pub fn largest<E>(bounds: Bounds, mut works: impl FnMut(f64) -> Result<bool, E>) -> Result<f64, E> {
    let Bounds { mut low, mut high, precision } = bounds;
    let mut holds = |value| Ok(works(value)? || works(value)?);
    if holds(high)? {
        return Ok(high);
    }
    while high - low > precision * high {
        let middle = f64::midpoint(low, high);
        if holds(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// A run at one rate.
pub trait Rated {
    /// Packets that were really sent, per second.
    fn sent_pps(&self) -> f64;

    /// Packets that were sent and did not arrive.
    fn lost(&self) -> u64;

    /// Where the search for the highest lossless rate begins, in packets per second.
    fn highest_pps(&self) -> f64 {
        self.sent_pps()
    }
}

/// A run at full speed, and a search.
pub struct Rates<T> {
    /// The run at full speed.
    pub full_speed: T,
    /// The highest rate at which nothing was lost, in packets per second.
    pub lossless_pps: f64,
}

/// Runs at full speed, and if that lost packets, searches for the highest rate that loses none. `run` gets
/// the rate in packets per second, none for full speed. `precision` is a share of the rate.
///
/// # Errors
/// The first error of `run`.
pub fn rates<T: Rated, E>(
    precision: f64,
    mut run: impl FnMut(Option<f64>) -> Result<T, E>,
) -> Result<Rates<T>, E> {
    let full_speed = run(None)?;
    let mut lossless_pps = if full_speed.lost() == 0 { full_speed.sent_pps() } else { 0.0 };
    if full_speed.lost() > 0 {
        largest(Bounds { low: 0.0, high: full_speed.highest_pps(), precision }, |rate| {
            let run = run(Some(rate))?;
            let is_lossless = run.lost() == 0;
            if is_lossless {
                lossless_pps = f64::max(lossless_pps, run.sent_pps());
            }
            Ok(is_lossless)
        })?;
    }
    Ok(Rates { full_speed, lossless_pps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(limit: f64, bounds: Bounds) -> f64 {
        largest::<()>(bounds, |value| Ok(value <= limit)).unwrap()
    }

    #[test]
    fn the_result_is_within_the_precision_of_the_limit() {
        let bounds = Bounds { low: 0.0, high: 1000.0, precision: 0.01 };
        for limit in [3.0, 250.0, 612.0, 999.0] {
            let found = search(limit, bounds);
            assert!(found <= limit && found >= limit - 10.0, "{found} for {limit}");
        }
        assert_eq!(search(5000.0, bounds), 1000.0);
        assert_eq!(search(-1.0, bounds), 0.0);
    }

    #[test]
    fn a_single_failure_by_chance_is_retried() {
        let mut calls = 0;
        let found = largest::<()>(Bounds { low: 0.0, high: 100.0, precision: 0.01 }, |value| {
            calls += 1;
            // Every first try fails.
            Ok(calls % 2 == 0 && value <= 60.0)
        });
        assert!(found.unwrap() > 58.0);
    }

    /// A run of a generator that sends a tenth less than it is asked for, at most 100 packets a second, to a
    /// receiver that takes `limit`.
    struct Run {
        sent: f64,
        limit: f64,
    }

    impl Rated for Run {
        fn sent_pps(&self) -> f64 {
            self.sent
        }

        fn lost(&self) -> u64 {
            (self.sent - self.limit).max(0.0).ceil() as u64
        }
    }

    fn rates_of(limit: f64) -> Rates<Run> {
        let run = |rate: Option<f64>| Run { sent: 0.9 * rate.unwrap_or(111.0), limit };
        rates::<_, ()>(0.01, |rate| Ok(run(rate))).unwrap()
    }

    #[test]
    fn the_highest_lossless_rate_is_one_that_was_really_sent() {
        let found = rates_of(54.0).lossless_pps;
        assert!((53.0..=54.0).contains(&found), "{found}");
        assert_eq!(rates_of(-1.0).lossless_pps, 0.0);
    }

    #[test]
    fn a_receiver_that_loses_nothing_at_full_speed_is_not_searched() {
        let mut runs = 0;
        let rates = rates::<_, ()>(0.01, |rate| {
            runs += 1;
            assert_eq!(rate, None);
            Ok(Run { sent: 99.9, limit: 200.0 })
        });
        assert_eq!((rates.unwrap().lossless_pps, runs), (99.9, 1));
    }

    #[test]
    fn an_error_ends_the_search() {
        let bounds = Bounds { low: 0.0, high: 1.0, precision: 0.1 };
        assert_eq!(largest(bounds, |_| Err("broken")), Err("broken"));
    }
}
