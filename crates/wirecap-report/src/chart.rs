//! A chart: plain data, checked before it is drawn.

use std::collections::BTreeMap;

use wirecap_lab::table::Table;

use crate::{
    error::Error,
    palette::MAX_SERIES,
    scale::{Scale, number},
};

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Above the picture.
    pub title: String,
    /// What it shows, for readers who do not see it.
    pub description: String,
    /// What is drawn.
    pub plot: Plot,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Points, joined in the order of their x.
    Lines {
        /// To the right.
        x: Axis,
        /// Upwards.
        y: Axis,
        /// Each with a name in the legend.
        lines: Vec<Line>,
    },
    /// Bars side by side.
    GroupedBars {
        /// Along the horizontal axis.
        groups: Vec<String>,
        /// Upwards, from 0; always linear.
        y: Axis,
        /// Each with a bar in each group.
        series: Vec<Series>,
    },
    /// Bars on top of each other.
    StackedBars {
        /// Along the horizontal axis.
        groups: Vec<String>,
        /// Upwards, from 0; always linear.
        y: Axis,
        /// The first one is at the bottom.
        series: Vec<Series>,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How values are placed.
    pub scale: Scale,
}

impl Axis {
    /// An axis with the same distance between values of the same difference.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// An axis with the same distance between values of the same ratio.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// x and y, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// Bars of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// One for each group; `None` draws nothing.
    pub values: Vec<Option<f64>>,
}

impl Chart {
    /// Whether it can be drawn.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let names = self.plot.names();
        if names.len() > MAX_SERIES {
            return Err(Error::TooManySeries { chart: self.title.clone(), series: names.len() });
        }
        let unplottable = |series: &str, value| Error::Unplottable {
            chart: self.title.clone(),
            series: series.into(),
            value,
        };
        let mut is_empty = true;
        match &self.plot {
            Plot::Lines { x, y, lines } => {
                for Line { name, points } in lines {
                    is_empty &= points.is_empty();
                    let mut values = points.iter().flat_map(|&(at, value)| [(at, x), (value, y)]);
                    if let Some((value, _)) = values.find(|(value, axis)| !axis.scale.has(*value)) {
                        return Err(unplottable(name, value));
                    }
                }
            }
            Plot::GroupedBars { groups, series, .. } | Plot::StackedBars { groups, series, .. } => {
                let least = match self.plot {
                    Plot::StackedBars { .. } => 0.0,
                    _ => f64::NEG_INFINITY,
                };
                for Series { name, values } in series {
                    if values.len() != groups.len() {
                        return Err(Error::GroupCount {
                            chart: self.title.clone(),
                            series: name.clone(),
                            values: values.len(),
                            groups: groups.len(),
                        });
                    }
                    let mut known = values.iter().flatten().inspect(|_| is_empty = false);
                    if let Some(&value) = known.find(|value| !value.is_finite() || **value < least) {
                        return Err(unplottable(name, value));
                    }
                }
            }
        }
        if is_empty { Err(Error::Empty(self.title.clone())) } else { Ok(()) }
    }

    /// The figures that are drawn.
    pub(crate) fn table(&self) -> Table {
        let (first, rows): (&str, Vec<Row>) = match &self.plot {
            Plot::Lines { x, lines, .. } => {
                // By the order of finite numbers, which that of their bits is not.
                let mut by_x: BTreeMap<Finite, Vec<Option<f64>>> = BTreeMap::new();
                for (number, line) in lines.iter().enumerate() {
                    for &(at, value) in &line.points {
                        by_x.entry(Finite(at)).or_insert_with(|| vec![None; lines.len()])[number] =
                            Some(value);
                    }
                }
                (&x.label, by_x.into_iter().map(|(at, values)| (number(at.0), values)).collect())
            }
            Plot::GroupedBars { groups, series, .. } | Plot::StackedBars { groups, series, .. } => {
                let values = |group: usize| series.iter().map(|one| one.values[group]).collect();
                ("", groups.iter().enumerate().map(|(at, group)| (group.clone(), values(at))).collect())
            }
        };
        let head: Vec<_> = [first].into_iter().chain(self.plot.names()).collect();
        let mut table = Table::new(format!("{}: {}", self.title, self.plot.y().label), &head);
        for (name, values) in rows {
            let values = values.into_iter().map(|value| value.map(number).unwrap_or_default());
            table.row([name].into_iter().chain(values));
        }
        table
    }
}

impl Plot {
    /// The names of the legend.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Plot::Lines { lines, .. } => lines.iter().map(|line| line.name.as_str()).collect(),
            Plot::GroupedBars { series, .. } | Plot::StackedBars { series, .. } => {
                series.iter().map(|one| one.name.as_str()).collect()
            }
        }
    }

    /// The vertical axis.
    pub(crate) fn y(&self) -> &Axis {
        match self {
            Plot::Lines { y, .. } | Plot::GroupedBars { y, .. } | Plot::StackedBars { y, .. } => y,
        }
    }
}

/// The name of a row, and a value for each series.
type Row = (String, Vec<Option<f64>>);

/// A number that is ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Finite(f64);

impl Eq for Finite {}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(x: Axis, points: Vec<(f64, f64)>) -> Chart {
        let lines = vec![Line { name: "one".into(), points }];
        let plot = Plot::Lines { x, y: Axis::linear("percent"), lines };
        Chart { title: "Loss".into(), description: String::new(), plot }
    }

    fn bars(values: Vec<Option<f64>>, is_stacked: bool) -> Chart {
        let (groups, y) = (vec!["a".into(), "b".into()], Axis::linear("cycles"));
        let series = vec![Series { name: "one".into(), values }];
        let plot = if is_stacked {
            Plot::StackedBars { groups, y, series }
        } else {
            Plot::GroupedBars { groups, y, series }
        };
        Chart { title: "Cost".into(), description: String::new(), plot }
    }

    #[test]
    fn what_has_no_place_in_a_chart_is_refused_with_its_name() {
        let refusals = [
            (
                lines(Axis::log("packets"), vec![(0.0, 1.0)]),
                "series \"one\" of chart \"Loss\" has the value 0:",
            ),
            (lines(Axis::linear("s"), vec![(0.0, f64::NAN)]), "has the value NaN"),
            (lines(Axis::linear("s"), vec![]), "chart \"Loss\" has no values"),
            (bars(vec![None, None], false), "has no values"),
            (bars(vec![Some(1.0)], false), "has 1 values for 2 groups"),
            (bars(vec![Some(1.0), Some(f64::INFINITY)], false), "has the value inf"),
            (bars(vec![Some(1.0), Some(-1.0)], true), "at least 0 in stacked bars"),
        ];
        for (chart, expected) in refusals {
            let error = chart.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        bars(vec![Some(1.0), Some(-1.0)], false).check().unwrap();
        let mut many = lines(Axis::linear("s"), vec![(1.0, 1.0)]);
        if let Plot::Lines { lines, .. } = &mut many.plot {
            *lines = vec![lines[0].clone(); MAX_SERIES + 1];
        }
        assert!(many.check().unwrap_err().to_string().contains("has 13 series, and 12 can be told apart"));
    }

    #[test]
    fn the_table_has_each_figure_once() {
        let mut chart = lines(Axis::log("packets"), vec![(1_000.0, 0.0), (10_000.0, 12.5)]);
        if let Plot::Lines { lines, .. } = &mut chart.plot {
            lines.push(Line { name: "two".into(), points: vec![(500.0, 3.0), (10_000.0, 4.0)] });
        }
        let expected = "| packets |  one | two |\n\
                        | ------- | ---: | --: |\n\
                        | 500     |      |   3 |\n\
                        | 1,000   |    0 |     |\n\
                        | 10,000  | 12.5 |   4 |\n";
        assert!(chart.table().to_string().ends_with(expected), "{}", chart.table());
        let table = bars(vec![None, Some(2.0)], true).table().to_string();
        assert!(table.contains("| a   |     |") && table.contains("| b   |   2 |"), "{table}");
    }
}
