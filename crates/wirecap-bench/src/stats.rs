//! Summaries of several rounds: median, smallest, largest; and a straight line through points.

use serde::Serialize;

/// A summary of several measurements of the same figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The number of values.
    pub rounds: usize,
}

impl Summary {
    /// Summarises `values` without NaN; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max, rounds: values.len() })
    }

    /// The text for a table: the median and, for more than one round, the range.
    pub fn show(&self, decimals: usize) -> String {
        let Self { median, min, max, rounds } = self;
        if *rounds == 1 {
            format!("{median:.decimals$}")
        } else {
            format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
        }
    }
}

/// As [`Summary::show`], or a dash without a summary.
pub fn show(summary: Option<Summary>, decimals: usize) -> String {
    summary.map_or_else(|| "–".into(), |summary| summary.show(decimals))
}

/// The least-squares line through `points`. `None` for fewer than two different x.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if variance == 0.0 || points.is_empty() {
        return None;
    }
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / variance;
    Some(Line { constant: mean_y - slope * mean_x, slope })
}

/// A line `y = constant + slope * x`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Line {
    /// y at x = 0.
    pub constant: f64,
    /// y per x.
    pub slope: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        let odd = Summary::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!(odd, Summary { median: 3.0, min: 1.0, max: 5.0, rounds: 3 });
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 100.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN, 2.0]).unwrap().rounds, 1);
    }

    #[test]
    fn the_range_is_shown_for_several_rounds() {
        assert_eq!(Summary::of([4.05, 3.9, 4.2]).unwrap().show(1), "4.0 (3.9–4.2)");
        assert_eq!(Summary::of([4.25]).unwrap().show(2), "4.25");
        assert_eq!(show(None, 2), "–");
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let line_of = line(&[(0.0, 3.0), (10.0, 8.0), (20.0, 13.0)]).unwrap();
        assert!((line_of.constant - 3.0).abs() < 1e-9 && (line_of.slope - 0.5).abs() < 1e-9, "{line_of:?}");
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None, "vertical");
        assert_eq!(line(&[]), None);
    }
}
