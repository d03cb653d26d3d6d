//! The edge between C and Rust.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function that C has called. After a panic, which is a defect of this library and has printed its
/// message, the program gets `failed`.
pub(crate) fn catch_panic<T>(failed: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}
