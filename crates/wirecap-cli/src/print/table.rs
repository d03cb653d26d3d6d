//! Tables for people: columns as wide as needed, figures right-aligned.
//!
//! ```text
//!   key  a  b  c  d  e       key  a  b  c
//!     1  …               ─►    1  …              a table wider than a terminal becomes several,
//!     2  …                                       one below the other, each with the keys
//!                            key  d  e
//!                              1  …
//! ```

use std::{fmt, ops::Range};

use super::{layout::COLUMNS, printable::printable};
use crate::text::ranges;

/// Spaces between two columns.
const GAP: usize = 2;
/// A list of numbers with more characters than this is hard to read.
const LONG_LIST: usize = 16;

/// A transmit queue in a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueRow<'a, const N: usize> {
    pub(crate) queue: u16,
    pub(crate) mode: &'a str,
    pub(crate) figures: [u64; N],
}

/// A table, row by row; the first row is the head.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How many of the first columns identify the row.
    keys: usize,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.into()).collect()], keys: 1 }
    }

    /// The first `keys` columns identify the row.
    pub(crate) fn with_keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// Adds a row with as many cells as the head has, each escaped by [`printable`].
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }

    /// A table of transmit queues, [`grouped`].
    pub(crate) fn of_queues<const N: usize>(heads: [&str; N], queues: Vec<QueueRow<'_, N>>) -> Self {
        let mut table = Self::new(&[&["queue", "mode"], heads.as_slice()].concat());
        let queues = queues.into_iter().map(|row| (row.queue.into(), row));
        for (label, queues) in grouped(queues, |row| row.figures.iter().all(|&figure| figure == 0)) {
            let QueueRow { mode, figures, .. } = queues[0];
            let figures = figures.map(|figure| figure.to_string());
            table.row([label, mode.into()].into_iter().chain(figures).collect());
        }
        table
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }

    /// Whether a column has only figures below its head.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows[1..].iter().map(|row| &row[column]).filter(|cell| !cell.is_empty());
        cells.all(|cell| cell.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
    }
}

/// Groups numbered items into rows of a table: a row for each item that is not idle, labelled by its number,
/// and the last one for several idle items; a single one keeps its place.
pub(crate) fn grouped<T>(
    items: impl IntoIterator<Item = (u64, T)>,
    is_idle: impl Fn(&T) -> bool,
) -> Vec<(String, Vec<T>)> {
    let items: Vec<_> = items.into_iter().collect();
    let is_single = items.iter().filter(|(_, item)| is_idle(item)).count() == 1;
    let (idle, busy): (Vec<_>, Vec<_>) = items.into_iter().partition(|(_, item)| is_idle(item) && !is_single);
    let mut rows: Vec<_> = busy.into_iter().map(|(number, item)| (number.to_string(), vec![item])).collect();
    if !idle.is_empty() {
        let list = ranges(idle.iter().map(|(number, _)| *number));
        let label = if list.len() > LONG_LIST { format!("{} idle", idle.len()) } else { list };
        rows.push((label, idle.into_iter().map(|(_, item)| item).collect()));
    }
    rows
}

/// A column as it is printed.
#[derive(Debug, Clone, Copy)]
struct Column {
    width: usize,
    is_numeric: bool,
}

impl Table {
    fn columns(&self) -> Vec<Column> {
        let column = |column| Column { width: self.width(column), is_numeric: self.is_numeric(column) };
        (0..self.rows[0].len()).map(column).collect()
    }

    /// Runs of columns after the keys, each as long as fits beside them. The width of the terminal does not
    /// matter, because tables also go into files and mails.
    fn bands(&self, columns: &[Column]) -> Vec<Range<usize>> {
        let widths = |columns: &[Column]| columns.iter().map(|column| column.width + GAP).sum::<usize>();
        let room = (COLUMNS + GAP).saturating_sub(widths(&columns[..self.keys]));
        let mut bands = Vec::new();
        if self.keys == columns.len() {
            bands.push(self.keys..self.keys);
        }
        let mut start = self.keys;
        for end in self.keys + 1..=columns.len() {
            let is_last = end == columns.len();
            if is_last || widths(&columns[start..end + 1]) > room {
                bands.push(start..end);
                start = end;
            }
        }
        bands
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        for (number, band) in self.bands(&columns).into_iter().enumerate() {
            if number > 0 {
                writeln!(formatter)?;
            }
            for row in &self.rows {
                let shown = (0..self.keys).chain(band.clone());
                let cells = shown.map(|at| match columns[at] {
                    Column { width, is_numeric: true } => format!("{:>width$}", row[at]),
                    Column { width, is_numeric: false } => format!("{:<width$}", row[at]),
                });
                let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
                writeln!(formatter, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_aligned_and_figures_right_aligned() {
        let mut table = Table::new(&["port", "seen"]);
        table.row(vec!["eth0".into(), "7".into()]);
        table.row(vec!["a-long-name".into(), "12345".into()]);
        assert_eq!(table.to_string(), "port          seen\neth0             7\na-long-name  12345\n");
    }

    #[test]
    fn queues_without_figures_are_one_row() {
        let row = |queue, figures| QueueRow { queue, mode: "copy", figures };
        let queues = vec![row(0, [0, 0]), row(1, [7, 5]), row(2, [0, 0])];
        let table = Table::of_queues(["made", "sent"], queues).to_string();
        assert_eq!(table, "queue  mode  made  sent\n    1  copy     7     5\n  0,2  copy     0     0\n");
    }

    #[test]
    fn a_cell_is_escaped_to_one_line_and_counted_as_printed() {
        let mut table = Table::new(&["port", "seen"]);
        table.row(vec!["a\x1b\nb".into(), "7".into()]);
        assert_eq!(table.to_string(), "port        seen\na\\u{1b}\\nb     7\n");
    }

    #[test]
    fn a_wide_table_becomes_several_with_the_same_keys() {
        let heads: Vec<_> = (0..9).map(|column| format!("column_number_{column}")).collect();
        let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>()).with_keys(2);
        table.row((0..9).map(|column| column.to_string()).collect());
        let text = table.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        let bands: Vec<_> = text.split("\n\n").collect();
        assert_eq!(bands.len(), 4, "{text}");
        for (band, columns) in bands.iter().zip([[2, 3].as_slice(), &[4, 5], &[6, 7], &[8]]) {
            let figures = band.lines().nth(1).unwrap().split_whitespace();
            let figures: Vec<usize> = figures.map(|figure| figure.parse().unwrap()).collect();
            assert_eq!(figures, [&[0, 1], columns].concat(), "{text}");
        }
    }

    #[test]
    fn a_cell_wider_than_the_terminal_has_its_own_band() {
        let mut table = Table::new(&["name", "why", "state"]);
        table.row(vec!["eth0".into(), "x".repeat(100), "up".into()]);
        let bands = table.to_string().split("\n\n").count();
        assert_eq!(bands, 2, "{table}");
        let mut only_keys = Table::new(&["name"]);
        only_keys.row(vec!["eth0".into()]);
        assert_eq!(only_keys.to_string(), "name\neth0\n");
    }
}
