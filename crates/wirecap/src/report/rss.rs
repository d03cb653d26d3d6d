//! Symmetric RSS of a port: how the NIC hashes, and what became of its setting.

use serde::Serialize;

use super::{
    as_text,
    diagnostic::{Cause, RssUndo, SymmetricHash},
};

/// Symmetric RSS of a port: both directions of a connection come in by one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RssReport {
    /// What makes the NIC's hash symmetric.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub hash: SymmetricHash,
    /// What became of the setting.
    pub state: RssState,
    /// The command that restores the hash from before the capture; `None` if that was symmetric already.
    // In the records of the command, it is the text of the command.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub undo: Option<RssUndo>,
}

/// What became of a setting for symmetric RSS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RssState {
    /// It lasts until the capture ends.
    Active,
    /// It stays for another capture of this process, or of one that was forked.
    Shared,
    /// The hash is as it was before.
    Restored,
    /// Another program has changed the hash, which is left as it is.
    LeftAlone,
    /// The hash could not be restored.
    Failed(Cause),
}
