//! Markdown tables that are readable without rendering.

use std::fmt;

/// A table with its heading and its notes.
#[derive(Debug, Clone, Default)]
pub struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, header: &[&str]) -> Self {
        let header = header.iter().map(|&cell| cell.into()).collect();
        Self { title: title.into(), header, ..Self::default() }
    }

    /// Adds a row. Missing cells stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a paragraph below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The heading.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows, each with a cell for each column.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The paragraphs below the table.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.header]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(3)
        };
        (0..self.header.len()).map(width).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        writeln!(formatter, "### {}\n", self.title)?;
        write_row(formatter, &self.header, &widths)?;
        // The first column has names, the others have figures.
        let rule = widths.iter().enumerate().map(|(column, &width)| {
            if column == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
        });
        write_row(formatter, &rule.collect::<Vec<_>>(), &widths)?;
        for row in &self.rows {
            write_row(formatter, row, &widths)?;
        }
        self.notes.iter().try_for_each(|note| write!(formatter, "\n{note}\n"))
    }
}

fn write_row(formatter: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    write!(formatter, "|")?;
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column == 0 {
            write!(formatter, " {cell:<width$} |")?;
        } else {
            write!(formatter, " {cell:>width$} |")?;
        }
    }
    writeln!(formatter)
}

/// A whole number with thousands separators: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Packets per second in millions, as a number.
pub fn millions(per_second: f64) -> f64 {
    per_second / 1e6
}

/// Bytes as MiB, with one decimal.
pub fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

/// Whether a target was reached, as a word for a table.
pub fn verdict(reached: bool) -> String {
    if reached { "yes".into() } else { "**no**".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("Rates", &["who", "Mpps"]);
        table.row(["wirecap".into(), "4.05".into()]);
        table.row(["libpcap – 2 MiB".into()]);
        table.note("On a veth pair.");
        assert_eq!(
            table.to_string(),
            "### Rates\n\
             \n\
             | who             | Mpps |\n\
             | --------------- | ---: |\n\
             | wirecap         | 4.05 |\n\
             | libpcap – 2 MiB |      |\n\
             \n\
             On a veth pair.\n"
        );
    }

    #[test]
    fn thousands_have_separators() {
        let text = [0, 999, 1000, 100_000, 1_234_567].map(grouped);
        assert_eq!(text, ["0", "999", "1,000", "100,000", "1,234,567"]);
        assert_eq!(mib(1_572_864.0), "1.5");
    }
}
