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

/// The highest rate at which nothing is lost, in packets per second. `run` sends at about the given rate, and
/// returns the rate that was really sent, or `None` if something was lost.
///
/// # Errors
/// The first error of `run`, which ends the search.
pub fn highest_lossless<E>(
    bounds: Bounds,
    mut run: impl FnMut(f64) -> Result<Option<f64>, E>,
) -> Result<f64, E> {
    let mut highest = 0.0;
    largest(bounds, |rate| {
        let sent = run(rate)?;
        highest = sent.map_or(highest, |sent| f64::max(highest, sent));
        Ok(sent.is_some())
    })?;
    Ok(highest)
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

    #[test]
    fn the_highest_lossless_rate_is_one_that_was_really_sent() {
        let bounds = Bounds { low: 0.0, high: 100.0, precision: 0.01 };
        // The generator sends a tenth less than it is asked for.
        let sent = |rate: f64| 0.9 * rate;
        let found = highest_lossless::<()>(bounds, |rate| Ok((rate <= 60.0).then(|| sent(rate)))).unwrap();
        assert!((53.0..=54.0).contains(&found), "{found}");
        assert_eq!(highest_lossless::<()>(bounds, |_| Ok(None)), Ok(0.0));
    }

    #[test]
    fn an_error_ends_the_search() {
        let bounds = Bounds { low: 0.0, high: 1.0, precision: 0.1 };
        assert_eq!(largest(bounds, |_| Err("broken")), Err("broken"));
    }
}
