//! Tests that need the whole command: its flags, its settings and all that it prints.

pub(crate) mod reference;
