//! Why symmetric RSS could not be set, and what became of it.

use std::fmt;

use serde::Serialize;
use wirecap_sys::netdev::{HashFunction, HashTransform};

use super::{
    super::{as_text, as_text_or_null},
    Cause,
};

/// What makes a hash symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SymmetricHash {
    /// The driver sorts the fields of a packet, so that both directions hash the same ones.
    Transform(HashTransform),
    /// A key with which Toeplitz hashes both directions alike.
    ToeplitzKey,
}

impl fmt::Display for SymmetricHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transform(transform) => transform.fmt(formatter),
            Self::ToeplitzKey => formatter.write_str("Toeplitz with a symmetric key"),
        }
    }
}

/// What restores the hash from before a capture: each setting that the capture has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RssUndo {
    /// The interface.
    pub interface: String,
    /// The key from before.
    pub key: Option<Box<[u8]>>,
    /// The function from before.
    #[serde(serialize_with = "as_text_or_null")]
    pub function: Option<HashFunction>,
    /// The transform from before.
    #[serde(serialize_with = "as_text_or_null")]
    pub transform: Option<HashTransform>,
}

/// Why a NIC cannot have both directions of a connection come in by one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RssRefusal {
    /// It hashes one end only of some packets.
    OneEnd {
        /// The interface.
        interface: String,
        /// The kinds of these packets, at least one, by their names for ethtool.
        flows: Vec<&'static str>,
    },
    /// Its hash cannot be read.
    NotReadable(Cause),
    /// No symmetric hash could be set.
    NotSet {
        /// What was tried, in this order.
        attempts: Vec<RssAttempt>,
        /// Why the last of them could not be undone, if it could not.
        undo_failure: Option<Box<RssUndoFailure>>,
    },
}

/// Why the hash from before could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RssUndoFailure {
    /// The cause.
    pub cause: Cause,
    /// What restores it.
    pub undo: RssUndo,
}

/// A symmetric hash that could not be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RssAttempt {
    /// The hash.
    #[serde(serialize_with = "as_text")]
    pub hash: SymmetricHash,
    /// Why not.
    pub failure: RssFailure,
}

/// Why a hash could not be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RssFailure {
    /// The driver refuses it.
    Refused(Cause),
    /// The driver accepts it and does something else.
    NotKept,
    /// It cannot be read back.
    NotReadBack(Cause),
}

/// What became of symmetric RSS that another program changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RssRecovery {
    /// It was set again, about a second later.
    Restored,
    /// It is lost.
    Failed(
        // In the records of the command, it is a cause.
        #[cfg_attr(feature = "schema", schemars(with = "Cause"))] RssLoss,
    ),
}

/// Why symmetric RSS was not set again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RssLoss {
    /// The hash is neither that from before the capture nor that of the capture: it is left alone.
    SetByOthers,
    /// It cannot be set again.
    NotSetAgain(RssRefusal),
}
