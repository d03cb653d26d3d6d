//! Tables whose titles say that their figures are simulated.

use wirecap_lab::table::Table;

/// A table without rows.
pub fn simulated(title: &str, header: &[&str]) -> Table {
    Table::new(format!("{title} (simulated)"), header)
}

/// Millions with two digits.
pub fn millions_of(value: f64) -> String {
    format!("{:.2}", value / 1e6)
}

/// Percent with one digit.
pub fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_says_that_the_figures_are_simulated() {
        assert!(simulated("Bursts", &["engine"]).to_string().contains("Bursts (simulated)\n"));
        assert_eq!(percent(15.04), "15.0 %");
    }
}
