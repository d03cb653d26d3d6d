//! Why there is no report.

use std::{io, path::PathBuf};

use crate::palette::MAX_SERIES;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A chart without a point or a bar.
    #[error("chart {0:?} has no values: leave it out")]
    Empty(String),
    /// More series than there are colours.
    #[error("chart {chart:?} has {series} series, and {MAX_SERIES} can be told apart: make several charts")]
    TooManySeries {
        /// The title of the chart.
        chart: String,
        /// Its series.
        series: usize,
    },
    /// A series and the groups of bars differ in number.
    #[error("series {series:?} of chart {chart:?} has {values} values for {groups} groups")]
    GroupCount {
        /// The title of the chart.
        chart: String,
        /// The name of the series.
        series: String,
        /// Its values.
        values: usize,
        /// The groups of the chart.
        groups: usize,
    },
    /// A value that has no place on its axis.
    #[error(
        "series {series:?} of chart {chart:?} has the value {value}: values are finite, \
         more than 0 on a logarithmic axis, and at least 0 in stacked bars"
    )]
    Unplottable {
        /// The title of the chart.
        chart: String,
        /// The name of the series.
        series: String,
        /// The value.
        value: f64,
    },
    /// The program that makes PNG of a chart is missing, or failed.
    #[error("cannot make PNG of a chart by {program} (package librsvg2-bin): {error}")]
    Converter {
        /// Its name.
        program: &'static str,
        /// What the system or the program said.
        error: io::Error,
    },
    /// The file could not be written; what was there before is unchanged.
    #[error("cannot write the report to {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}
