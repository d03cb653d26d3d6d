//! Printing: standard output and standard error, and how text is laid out for them.
//!
//! | to read about | open |
//! |---|---|
//! | the streams, which may be full | [`stdio`] |
//! | messages about what happens: `wirecap: …`, or JSON | [`messages`]; their formats: [`log`] |
//! | escaping of names and other foreign text | [`printable`] |
//! | lines and tables that fit a terminal | [`layout`], [`table`] |
//! | the line that shows the progress | [`status_line`] |
//! | reports, and the head of every JSON record | [`report`], [`head`] |

#[macro_use]
mod messages;

pub(crate) mod head;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod printable;
pub(crate) mod report;
pub(crate) mod status_line;
pub(crate) mod stdio;
pub(crate) mod table;
