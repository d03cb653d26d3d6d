//! A filter as machine code.
//!
//! ```text
//!   Program ──guards──► emit.rs: Cranelift's IR, one block for each jump target ──► bytes ──► MachineCode
//!                                                                       (wirecap-sys: mapped, made executable)
//! ```
//!
//! **The rule that holds here:** the code reads the packet only behind a check of its length that the guards
//! put there, calls nothing, and writes nothing but its own stack frame. This is what `MachineCode` trusts it
//! for.

mod emit;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use wirecap_sys::machine_code::MachineCode;

use crate::error::Error;
use crate::program::Program;

/// A filter as machine code of x86-64, about as fast as C. To be made once, used by all threads.
///
/// Making it takes about a millisecond for a usual filter, and time that grows with its length.
#[derive(Debug)]
pub struct NativeFilter {
    code: MachineCode,
    len: usize,
}

impl NativeFilter {
    /// Generates the code.
    ///
    /// # Errors
    /// [`Error::Native`] on another machine than x86-64 or if the generator fails, [`Error::ExecutableMemory`]
    /// where a security policy forbids it. Both mean: use the interpreter, which is the same filter.
    pub fn new(program: &Program) -> Result<Self, Error> {
        let failed = |cause: String| Error::Native { insns: program.ops().len(), cause };
        let isa = target().map_err(failed)?;
        let bytes = generate(emit::function(program), &isa).map_err(failed)?;
        let code = MachineCode::from_generator(&bytes).map_err(|cause| Error::ExecutableMemory { cause })?;
        Ok(Self { code, len: bytes.len() })
    }

    /// Runs it on a packet of which `packet` was captured and which was `wirelen` bytes long: how many bytes of
    /// it are wanted, 0 if it does not match. The same as [`Program::run`].
    #[inline]
    pub fn matches(&self, packet: &[u8], wirelen: u32) -> u32 {
        self.code.run(packet, wirelen)
    }

    /// Length of the code in bytes.
    pub fn code_len(&self) -> usize {
        self.len
    }
}

/// The machine to generate code for: any x86-64.
fn target() -> Result<OwnedTargetIsa, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("only x86-64 has a native back end".into());
    }
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(|error| error.to_string())?;
    let builder = isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|error| error.to_string())?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
}

fn generate(function: Function, isa: &OwnedTargetIsa) -> Result<Vec<u8>, String> {
    let mut context = Context::for_function(function);
    let compiled = context
        .compile(isa.as_ref(), &mut ControlPlane::default())
        .map_err(|error| format!("{:?}", error.inner))?;
    // A relocation would be a call or an address, and there are none in a filter.
    if compiled.buffer.relocs().is_empty() {
        Ok(compiled.code_buffer().to_vec())
    } else {
        Err("the code is not self-contained".into())
    }
}
