//! Finished code, with the maps that it names.

use std::{os::fd::OwnedFd, sync::Arc};

use super::insn::Insn;

/// The instructions of a program, to be loaded.
#[derive(Debug)]
pub struct Bytecode {
    pub(super) insns: Vec<Insn>,
    /// INVARIANT: each descriptor in `insns` is one of these, so its number is that of no other map.
    _maps: Vec<Arc<OwnedFd>>,
}

impl Bytecode {
    pub(super) fn new(insns: Vec<Insn>, maps: Vec<Arc<OwnedFd>>) -> Self {
        Self { insns, _maps: maps }
    }

    /// Number of instructions (a 64-bit constant or a map counts as two).
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// The instructions.
    #[cfg(feature = "testing")]
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }
}
