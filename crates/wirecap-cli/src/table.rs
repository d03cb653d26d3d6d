//! A table for people: columns as wide as they need to be, figures to the right.

use std::fmt;

use crate::printable::printable;

/// A table, row by row; the first row is the head.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.into()).collect()] }
    }

    /// Adds a row with as many cells as the head has, each escaped by [`printable`].
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }

    /// Whether a column holds figures only, below its head.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows[1..].iter().map(|row| &row[column]).filter(|cell| !cell.is_empty());
        cells.all(|cell| cell.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> =
            (0..self.rows[0].len()).map(|column| (self.width(column), self.is_numeric(column))).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&columns).map(|(cell, &(width, numeric))| match numeric {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            writeln!(formatter, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table = Table::new(&["port", "seen"]);
        table.row(vec!["eth0".into(), "7".into()]);
        table.row(vec!["a-long-name".into(), "12345".into()]);
        assert_eq!(table.to_string(), "port          seen\neth0             7\na-long-name  12345\n");
    }

    #[test]
    fn a_cell_is_one_line_and_as_wide_as_what_is_printed_of_it() {
        let mut table = Table::new(&["port", "seen"]);
        table.row(vec!["a\x1b\nb".into(), "7".into()]);
        assert_eq!(table.to_string(), "port        seen\na\\u{1b}\\nb     7\n");
    }
}
