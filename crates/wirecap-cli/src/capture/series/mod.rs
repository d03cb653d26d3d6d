//! Series of files (`-C`, `-G`, `-b`, `-W`, `-z`): their names, which of them are deleted, and the command
//! that runs with each.
//!
//! ```text
//!   settings ─► check     template ─► names ◄── earlier: files of earlier runs
//!                                       │           │ order
//!                                    rotation       └─► old files, deleted before the next one begins
//!                                       └─ complete ─► commands
//! ```
//!
//! Rule: a run continues where the one before it ended. No file is deleted before the capture runs.

mod check;
mod commands;
mod earlier;
mod earlier_file;
mod names;
mod old_files;
mod order;
mod rotation;

pub(super) use self::{
    check::check,
    commands::{Commands, FailedCommands, GivenUpCommands},
    names::Names,
    rotation::{Series, SeriesBegin, end_at_size},
};
