//! A filter as machine code.
//!
//! ```text
//!   Program ──ops, guards──► MachineCode of wirecap-sys, which checks both
//! ```

use wirecap_sys::machine_code::{self, MachineCode};

use crate::error::Error;
use crate::guard::{Runner, guards};
use crate::program::Program;

/// A filter as machine code of x86-64, about as fast as C. To be made once, used by all threads.
///
/// Making it takes about a millisecond for a usual filter, and time that grows with its length.
#[derive(Debug)]
pub struct NativeFilter(MachineCode);

impl NativeFilter {
    /// Generates the code.
    ///
    /// # Errors
    /// [`Error::Native`] on another machine than x86-64 or if the generator fails,
    /// [`Error::ExecutableMemory`] where a security policy forbids it. Both mean: use the interpreter, which
    /// is the same filter.
    pub fn new(program: &Program) -> Result<Self, Error> {
        let guards = guards(program, Runner::USER_SPACE);
        MachineCode::new(program.ops(), &guards).map(Self).map_err(|error| match error {
            machine_code::Error::Memory(cause) => Error::ExecutableMemory(cause),
            error => Error::Native { insns: program.ops().len(), cause: error },
        })
    }

    /// Runs it on a packet of which `packet` was captured and which was `wirelen` bytes long: how many bytes
    /// of it are wanted, 0 if it does not match. The same as [`Program::run`].
    #[inline]
    pub fn matches(&self, packet: &[u8], wirelen: u32) -> u32 {
        self.0.run(packet, wirelen)
    }
}
