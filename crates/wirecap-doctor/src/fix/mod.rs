//! Changes settings so that they can be changed back, even after a kill in the middle.
//!
//! ```text
//!   apply   read each setting ─► journal: setting, from, to ─► fsync ─► write each ─► read it back
//!   undo    journal ─► each setting once, the last first: write the oldest `from` ─► rename the journal away
//! ```
//!
//! Rule: nothing is written before everything that will be is in the journal, on disk. So a process that is
//! killed at any moment leaves a journal that names every setting it may have touched. To undo a change that
//! was never made does nothing, and so does undoing twice.

mod apply;
mod error;
mod journal;
mod live;
mod undo;

pub use apply::{Applied, ApplyOutcome, apply};
pub use error::Error;
pub use journal::{Journal, Place};
pub use live::LiveSettings;
pub use undo::{Restored, UndoOutcome, undo};

use std::io;

use crate::setting::{Setting, Value};

/// Reads and writes settings.
pub trait Settings {
    /// What a setting is.
    ///
    /// # Errors
    /// The kernel's or the driver's answer; `NotFound` if what has the setting is gone.
    fn read(&self, setting: &Setting) -> io::Result<Value>;

    /// Sets a setting.
    ///
    /// # Errors
    /// As [`Settings::read`]; `InvalidInput` for a value of another kind of setting.
    fn write(&self, setting: &Setting, value: &Value) -> io::Result<()>;

    /// The index of an interface, which distinguishes it from a later one of the same name; `None` if no
    /// interface has the name.
    fn ifindex(&self, interface: &str) -> Option<u32>;
}

#[cfg(test)]
mod kill_tests;
