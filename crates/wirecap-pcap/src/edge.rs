//! The edge between C and Rust.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function that C has called. A panic is a defect of ours; it has printed its message, and the
/// program gets `failed` instead.
pub(crate) fn guarded<T>(failed: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}
