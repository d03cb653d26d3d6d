//! A report: plain data.

use wirecap_lab::table::Table;

use crate::{chart::Chart, origin::Origin, provenance::Provenance};

/// A report of experiments.
#[derive(Debug, Clone)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// Whether its figures are measured or simulated: all of them.
    pub origin: Origin,
    /// The command, the machine and the date.
    pub provenance: Provenance,
    /// In the order of the page.
    pub sections: Vec<Section>,
}

/// A part of a report with a heading.
#[derive(Debug, Clone)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// In the order of the page.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Part {
    /// Text.
    Paragraph(String),
    /// A table, with its title and notes.
    Table(Table),
    /// A picture, with a table of its figures.
    Chart(Chart),
}

impl Section {
    /// A section without parts.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), parts: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(self, text: impl Into<String>) -> Self {
        self.part(Part::Paragraph(text.into()))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.part(Part::Table(table))
    }

    /// Adds a chart.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Self {
        self.part(Part::Chart(chart))
    }

    fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}
