//! Metrics for Prometheus: every figure of the account, over HTTP.
//!
//! ```text
//!   GET /metrics ─► http: request, limits ─► board: a snapshot ─► families ─► encoding ─► OpenMetrics, or Prometheus text
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | which metrics there are | [`families`] |
//! | how they are written | [`encoding`] |
//! | requests and answers | [`http`] |
//! | where they are served | [`endpoint`] |
//!
//! Rule: a scrape reads counters that the capture has anyway, at most ten times a second for all clients
//! together.

mod encoding;
pub(crate) mod endpoint;
mod families;
mod http;
