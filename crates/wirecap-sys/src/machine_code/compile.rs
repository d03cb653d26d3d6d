//! From Cranelift's intermediate representation to bytes.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use super::error::Error;

/// The bytes of a function that calls nothing.
pub(super) fn compile(function: Function) -> Result<Vec<u8>, Error> {
    let isa = target()?;
    let mut context = Context::for_function(function);
    let compiled = context
        .compile(isa.as_ref(), &mut ControlPlane::default())
        .map_err(|error| Error::Generator(format!("{:?}", error.inner)))?;
    // A relocation would be a call or an address, and there are none in a filter.
    if compiled.buffer.relocs().is_empty() {
        Ok(compiled.code_buffer().to_vec())
    } else {
        Err(Error::Generator("the code is not self-contained".into()))
    }
}

/// Any x86-64.
fn target() -> Result<OwnedTargetIsa, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Generator("only x86-64 has a native back end".into()));
    }
    let failed = |error: &dyn std::fmt::Display| Error::Generator(error.to_string());
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(|error| failed(&error))?;
    let builder = isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|error| failed(&error))?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| failed(&error))
}
