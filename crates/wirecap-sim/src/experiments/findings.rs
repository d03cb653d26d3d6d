//! What an experiment found.

use wirecap_lab::table::Table;
use wirecap_report::Chart;

/// Tables and charts, and notes on them.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is assumed, and what the figures answer.
    pub paragraphs: Vec<String>,
    /// In the order of the page.
    pub tables: Vec<Table>,
    /// Of the same figures.
    pub charts: Vec<Chart>,
}
