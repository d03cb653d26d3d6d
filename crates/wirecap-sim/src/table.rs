//! Tables as text.

use std::fmt;

/// A table with a title that says what its figures are.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.into()).collect();
        Self { title: format!("{} (simulated)", title.into()), head, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// It has not as many cells as the head.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.head.len(), "{cells:?}");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || [&self.head].into_iter().chain(&self.rows);
        let width =
            |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<_> = (0..self.head.len()).map(|column| width(column).unwrap_or(0)).collect();
        writeln!(formatter, "{}\n", self.title)?;
        for row in all() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            writeln!(formatter, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Percent with one digit.
pub fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_title_says_that_figures_are_simulated() {
        let mut table = Table::new("Bursts", &["engine", "lost"]);
        table.row(["DNA".into(), percent(15.04)]);
        table.row(["B-(256, 500)".into(), percent(0.0)]);
        let expected =
            "Bursts (simulated)\n\nengine          lost\nDNA           15.0 %\nB-(256, 500)   0.0 %\n";
        assert_eq!(table.to_string(), expected);
    }
}
