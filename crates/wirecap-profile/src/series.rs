//! The whole run in few points, for a picture.
//!
//! ```text
//!   rows ─► point: k bins, their packets and the largest bin of each queue        k doubles when there are too many points
//! ```

use serde::Serialize;

use crate::{bins::Row, imbalance::gini};

/// More points cannot be told apart in a picture.
const MAX_POINTS: usize = 800;

/// Packets by queue over time, in at most 800 points; those without packets are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// How many bins a point has, a power of two.
    pub bins_per_point: u64,
    /// The points, in the order of time.
    pub points: Vec<Point>,
}

/// A few bins in a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Its number: `point * bins_per_point` is the number of its first bin, counted from the first bin of
    /// the profile; jumps of the time do not count.
    pub point: u64,
    /// Packets of each queue.
    pub packets: Box<[u64]>,
    /// The largest bin of each queue.
    pub largest_bin: Box<[u64]>,
    /// The Gini coefficient of its packets over the queues.
    pub gini: f64,
}

impl Series {
    /// Adds a row, which is later than all rows before it.
    pub(crate) fn add(&mut self, row: &Row) {
        if self.points.is_empty() {
            self.bins_per_point = 1;
        }
        let bin = row.position;
        while bin / self.bins_per_point >= MAX_POINTS as u64 {
            self.halve();
        }
        let point = bin / self.bins_per_point;
        match self.points.last_mut() {
            Some(last) if last.point == point => last.merge(&row.packets, &row.packets),
            _ => self.points.push(Point {
                point,
                packets: row.packets.clone(),
                largest_bin: row.packets.clone(),
                gini: gini(&row.packets),
            }),
        }
    }

    /// Makes one point of two.
    fn halve(&mut self) {
        self.bins_per_point *= 2;
        let mut points: Vec<Point> = Vec::with_capacity(self.points.len());
        for mut point in self.points.drain(..) {
            point.point /= 2;
            match points.last_mut() {
                Some(last) if last.point == point.point => last.merge(&point.packets, &point.largest_bin),
                _ => points.push(point),
            }
        }
        self.points = points;
    }
}

impl Point {
    fn merge(&mut self, packets: &[u64], largest_bin: &[u64]) {
        self.packets.iter_mut().zip(packets).for_each(|(sum, more)| *sum += more);
        self.largest_bin.iter_mut().zip(largest_bin).for_each(|(most, other)| *most = (*most).max(*other));
        self.gini = gini(&self.packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: u64, packets: Box<[u64]>) -> Row {
        Row { bin: 1_000 + position, position, stretch: 0, packets }
    }

    #[test]
    fn a_long_run_keeps_its_sums_and_its_peaks() {
        let mut series = Series::default();
        for bin in 0..10_000_u64 {
            let burst = if bin == 7_777 { 500 } else { 0 };
            series.add(&row(bin, [1 + burst, 3].into()));
        }
        assert_eq!((series.bins_per_point, series.points.len()), (16, 625));
        let sum: u64 = series.points.iter().map(|point| point.packets[0]).sum();
        assert_eq!(sum, 10_500);
        let peak = series.points.iter().max_by_key(|point| point.largest_bin[0]).unwrap();
        assert_eq!(
            (peak.point, &peak.largest_bin[..], &peak.packets[..]),
            (486, &[501, 3][..], &[516, 48][..])
        );
        assert!((series.points[0].gini - 0.25).abs() < 1e-9);
    }

    #[test]
    fn gaps_of_any_length_are_skipped() {
        let mut series = Series::default();
        [0, 1, 1 << 50].into_iter().for_each(|bin| series.add(&row(bin, [1].into())));
        assert_eq!(series.points.len(), 2);
        assert!(series.points[1].point < MAX_POINTS as u64);
    }
}
