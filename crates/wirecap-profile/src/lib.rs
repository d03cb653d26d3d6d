//! How packets are spread over receive queues: in bins of time, as the paper's `queue_profiler` counts them.
//!
//! ```text
//!   packet ─► queue: the one it came in on, or Rss: key, fields, table ─┐
//!          └► time ─────────────────────────────────────────────────────┴─► Tally ─► Profiler ─┬─► Row: a closed bin
//!                                                                        of a batch            ├─► Series: a picture's worth
//!                                                                                              └─► Summary ─► Findings
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | the queue that a NIC chooses | [`rss`] |
//! | which bins are still open | `bins` |
//! | times that jump, and packets whose times are far from the others | `timeline` |
//! | figures of imbalance | [`imbalance`]; over time: `measures` |
//! | what is long-term and what is short-term imbalance | [`Findings`] |
//! | the whole run in few points, and as a picture | [`Series`], [`picture()`] |
//!
//! Rule: memory grows with the number of queues, never with time or with the times that packets claim: rows
//! leave as soon as their bin is closed, and a series that is full halves its resolution.
//!
//! It is a crate of its own because nothing in it needs a capture: no I/O, no clock, no `unsafe`.
#![forbid(unsafe_code)]

mod bins;
mod findings;
pub mod imbalance;
mod measures;
mod picture;
mod profiler;
pub mod rss;
mod series;
mod settings;
mod summary;
mod tally;
mod timeline;

pub use bins::{Row, may_close_early};
pub use findings::{Burst, Findings, LongTerm, ShortTerm};
pub use picture::picture;
pub use profiler::Profiler;
pub use rss::Rss;
pub use series::{Point, Series};
pub use settings::BinSettings;
pub use summary::{Peak, QueueSummary, Summary, WorstWindow};
pub use tally::Tally;
pub use timeline::{Jump, Jumps, SILENCE_NS};
