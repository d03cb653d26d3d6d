//! Changes settings so that they can be changed back, even after a kill in the middle.
//!
//! ```text
//!   apply   read each setting ─► journal: setting, from, to ─► fsync ─► write each ─► read it back
//!   undo    journal ─► each setting once, the last first: write the oldest `from` ─► rename the journal away,
//!           or note what is settled, if anything is left
//! ```
//!
//! Rule: nothing is written before everything that will be is in the journal, on disk. So a process that is
//! killed at any moment leaves a journal that names every setting it may have touched. To undo a change that
//! was never made does nothing, and so does undoing twice. What cannot be restored now stays in the journal
//! unless it is void for good: a setting may be invisible in one network namespace and exist in another.

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
    /// The kernel's or the driver's answer; `NotFound` if what has the setting is gone, or not visible here.
    fn read(&self, setting: &Setting) -> io::Result<Value>;

    /// Sets a setting.
    ///
    /// # Errors
    /// As [`Settings::read`]; `InvalidInput` for a value of another kind of setting.
    fn write(&self, setting: &Setting, value: &Value) -> io::Result<()>;

    /// The index of an interface, which distinguishes it from a later one of the same name; `None` if no
    /// interface has the name.
    fn ifindex(&self, interface: &str) -> Option<u32>;

    /// The current name of the interface with this index; `None` if no interface has it.
    ///
    /// # Errors
    /// The kernel's answer, if it does not say.
    fn name(&self, ifindex: u32) -> io::Result<Option<String>>;

    /// Whether what has a setting of the machine or of a queue is gone for good, and the setting with it.
    fn is_void(&self, setting: &Setting) -> bool;
}

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod undo_tests;
