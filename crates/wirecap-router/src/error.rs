//! What can go wrong before packets are routed.

use crate::RouteProblem;

/// Why a router cannot be made.
///
/// # Example
///
/// ```
/// let error = "10.0.0.0/8".parse::<wirecap_router::Routes>().unwrap_err();
/// assert!(error.to_string().starts_with("line 1 of the routes: 10.0.0.0/8 goes nowhere"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of a table of routes.
    #[error("line {line} of the routes: {problem}")]
    Line {
        /// Which, from 1 on.
        line: usize,
        /// What is wrong with it.
        problem: RouteProblem,
    },
}
