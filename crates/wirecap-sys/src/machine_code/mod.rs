//! Packet filters as machine code of x86-64.
//!
//! ```text
//!   operations, hints ──emit.rs──► Cranelift's IR ──compile.rs──► bytes ──► executable.rs: mapped, read and execute
//!      (anyone's)          │                                                   run(packet, wirelen) ──► u32
//!                          └── each load behind a check of the packet's length
//! ```
//!
//! Rule: no byte of code comes from outside this module. Callers pass operations, which are checked one by
//! one, and hints, which can only move a check forward: a load whose end no earlier check covers gets a check
//! of its own. So the code reads nothing but the packet, writes nothing but its own stack frame, calls
//! nothing, and returns.
//!
//! Cranelift, which generates the bytes, is trusted.

mod compile;
mod emit;
mod error;
mod executable;
mod op;
mod rounds;

use executable::Executable;

pub use emit::Guard;
pub use error::Error;
pub use op::{Alu, Cond, MEMORY_SLOTS, Op, Operand, Origin, Reach, Register, Size};
pub use rounds::{jumps_back, rounds};

/// A filter as machine code, about as fast as C. Made once, used by all threads.
///
/// # Example
///
/// ```
/// # #[cfg(target_arch = "x86_64")] {
/// use wirecap_sys::machine_code::{MachineCode, Op, Size};
///
/// let twelfth = Op::LoadAbsolute { size: Size::Half, offset: 12 };
/// let filter = MachineCode::new(&[twelfth, Op::ReturnA], &[])?;
/// let packet = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 6];
/// assert_eq!(filter.run(&packet, 14), 0x806);
/// assert_eq!(filter.run(&packet[..13], 14), 0, "it ends in the middle of what is read");
/// # }
/// # Ok::<(), wirecap_sys::machine_code::Error>(())
/// ```
///
/// Bytes do not become code, not even in a program that may contain unsafe code:
///
/// ```compile_fail,E0603
/// // SAFETY: no promise helps, since the module is private: this does not compile.
/// unsafe { wirecap_sys::machine_code::executable::Executable::new(&[0xc3]) };
/// ```
#[derive(Debug)]
pub struct MachineCode(Executable);

impl MachineCode {
    /// Compiles operations. `guards` has a hint for each of them, or is empty.
    ///
    /// Takes about a millisecond for a usual filter, and more for longer ones.
    ///
    /// # Errors
    /// [`Error::Operation`] for the first operation that is not valid, [`Error::Generator`] on another
    /// machine than x86-64 or if Cranelift fails, [`Error::Memory`] where a security policy forbids
    /// executable memory.
    pub fn new(ops: &[Op], guards: &[Guard]) -> Result<Self, Error> {
        let invalid = (0..ops.len()).find(|&index| !ops[index].is_valid(index, ops.len()));
        if let Some(index) = invalid.or(ops.is_empty().then_some(0)) {
            return Err(Error::Operation(index));
        }
        let code = compile::compile(emit::function(ops, guards))?;
        // SAFETY: Cranelift's translation of what `emit` wrote, whose loads are all behind checks of the
        // length.
        Ok(Self(unsafe { Executable::new(&code) }?))
    }

    /// Runs the filter on a packet of which `packet` was captured and which was `wirelen` bytes long: what
    /// the operations return, 0 if they reject it.
    #[inline]
    pub fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        self.0.run(packet, wirelen)
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests;
