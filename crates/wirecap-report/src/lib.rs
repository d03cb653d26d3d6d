//! Reports of experiments: one HTML file with tables and charts, without scripts, readable offline.
//!
//! ```text
//!   Report ── origin: measured or simulated
//!     ├─ command, machine, date
//!     └─ Section ─┬─ paragraphs
//!                 ├─ tables: wirecap_lab::table::Table
//!                 └─ Chart: lines, grouped bars, stacked bars ─► SVG, and a table of the same figures
//! ```
//!
//! **The rule that holds here:** a measured figure is never mistaken for a simulated one. The page, each
//! heading, each table and each chart bear the word, and a chart has it inside the picture, so that a copy
//! of the picture still says it.
//!
//! ```
//! use wirecap_lab::table::Table;
//! use wirecap_report::{Axis, Chart, Line, Origin, Plot, Provenance, Report, Section, Series};
//!
//! let mut table = Table::new("Packets lost", &["engine", "1,000", "100,000"]);
//! table.row(["libpcap".into(), "0.0 %".into(), "81.0 %".into()]);
//!
//! // Lines: points of x and y. `Axis::log` suits lengths of bursts from 1,000 to 10,000,000.
//! let bursts = Chart {
//!     title: "Packets lost, by length of the burst".into(),
//!     description: "libpcap loses packets of bursts that its buffer does not hold.".into(),
//!     plot: Plot::Lines {
//!         x: Axis::log("packets in the burst"),
//!         y: Axis::linear("packets lost in percent"),
//!         lines: vec![Line { name: "libpcap".into(), points: vec![(1e3, 0.0), (1e5, 81.0)] }],
//!     },
//! };
//! // Bars: one value for each group; `None` for a value that is missing. `Plot::StackedBars` has the same fields.
//! let queues = Chart {
//!     title: "Packets lost, by number of queues".into(),
//!     description: "Advanced mode loses nothing with six queues.".into(),
//!     plot: Plot::GroupedBars {
//!         groups: vec!["5 queues".into(), "6 queues".into()],
//!         y: Axis::linear("packets lost in percent"),
//!         series: vec![
//!             Series { name: "basic".into(), values: vec![Some(18.2), Some(18.1)] },
//!             Series { name: "advanced".into(), values: vec![None, Some(0.0)] },
//!         ],
//!     },
//! };
//! let report = Report {
//!     title: "Bursts".into(),
//!     origin: Origin::Measured,
//!     // Or the fields: `Provenance { command, machine, date }`.
//!     provenance: Provenance::of_this_process(),
//!     sections: vec![
//!         Section::new("Bursts at the wire rate")
//!             .paragraph("Each burst goes into one queue.")
//!             .table(table)
//!             .chart(bursts)
//!             .chart(queues),
//!     ],
//! };
//! let html = report.html()?;
//! assert!(html.starts_with("<!DOCTYPE html>") && html.contains("measured"));
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("bursts.html");
//! // The file is there whole, or as it was before.
//! report.write(&path)?;
//! # assert_eq!(std::fs::read_to_string(path).unwrap(), html);
//! # Ok::<(), wirecap_report::Error>(())
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what a report is | `report.rs`, `chart.rs` |
//! | where the figures come from | `provenance.rs` |
//! | the page | `html.rs`, `text.rs`, `style.css` |
//! | the pictures | `drawing.rs`, `scale.rs`, `palette.rs` |
//! | the file | `file.rs` |
//! | charts as PNG | `png.rs` |
#![forbid(unsafe_code)]

mod chart;
mod drawing;
mod error;
mod file;
mod html;
mod origin;
mod palette;
mod png;
mod provenance;
mod report;
mod scale;
mod text;

pub use chart::{Axis, Chart, Line, Plot, Series};
pub use error::Error;
pub use html::check_writable;
pub use origin::Origin;
pub use palette::MAX_SERIES;
pub use png::check_png;
pub use provenance::Provenance;
pub use report::{Part, Report, Section};
pub use scale::Scale;
