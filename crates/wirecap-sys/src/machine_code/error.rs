//! Why there is no machine code for a filter.

use std::io;

/// Failures of compiling a filter; each means that it has to be interpreted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation jumps out of the program or back on a condition, names a slot that does not exist,
    /// divides by zero, or shifts everything out; here is its index.
    #[error("operation {0} is not valid")]
    Operation(usize),
    /// This is no x86-64, or Cranelift failed.
    #[error("{0}")]
    Generator(String),
    /// No memory that can be executed.
    #[error(transparent)]
    Memory(#[from] io::Error),
}
