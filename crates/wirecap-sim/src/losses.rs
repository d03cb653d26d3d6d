//! Packets lost by several engines under several loads: one set of figures, as a table and as a chart.

use wirecap_lab::table::Table;
use wirecap_report::{Axis, Chart, Line, Plot, Series};

use crate::table::{percent, simulated};

/// Percent of packets lost.
#[derive(Debug, Clone)]
pub struct Losses {
    /// The heading.
    pub title: String,
    /// What a row is.
    pub row: &'static str,
    /// The loads, as numbers.
    pub columns: Vec<u64>,
    /// For each engine, its losses by load.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl Losses {
    /// As a table.
    pub fn table(&self) -> Table {
        let columns: Vec<_> = self.columns.iter().map(u64::to_string).collect();
        let head: Vec<_> = [self.row].into_iter().chain(columns.iter().map(String::as_str)).collect();
        let mut table = simulated(&self.title, &head);
        for (name, lost) in &self.rows {
            table.row([name.clone()].into_iter().chain(lost.iter().map(|&lost| percent(lost))));
        }
        table
    }

    /// As lines over the loads.
    pub fn lines(&self, x: Axis, description: &str) -> Chart {
        let line = |(name, lost): &(String, Vec<f64>)| Line {
            name: name.clone(),
            points: self.columns.iter().map(|&load| load as f64).zip(lost.iter().copied()).collect(),
        };
        let plot = Plot::Lines { x, y: axis(), lines: self.rows.iter().map(line).collect() };
        Chart { title: self.title.clone(), description: description.into(), plot }
    }

    /// As bars for each load, whose unit is given.
    pub fn bars(&self, unit: &str, description: &str) -> Chart {
        let series = |(name, lost): &(String, Vec<f64>)| Series {
            name: name.clone(),
            values: lost.iter().map(|&lost| Some(lost)).collect(),
        };
        let groups = self.columns.iter().map(|load| format!("{load} {unit}")).collect();
        let plot = Plot::GroupedBars { groups, y: axis(), series: self.rows.iter().map(series).collect() };
        Chart { title: self.title.clone(), description: description.into(), plot }
    }
}

fn axis() -> Axis {
    Axis::linear("packets lost in percent")
}
