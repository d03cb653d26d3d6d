//! What is not as it was asked for when frames are sent, as data.
//!
//! Rule: a diagnostic has a stable code and no words; the command words it.

use nix::errno::Errno;
use serde::Serialize;
use wirecap_sys::xsk::XskError;

/// What is not as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendDiagnostic {
    /// The kernel copies each frame.
    ZeroCopyUnavailable {
        /// Why not zero-copy.
        reason: CopyReason,
    },
    /// The interface sends no frames of several cells, so that longer ones are left out.
    NoMultiBuffer {
        /// Longest frame in bytes.
        longest: u32,
    },
    /// Nothing reports when the link is lost.
    LinkNotWatched {
        /// What the kernel said.
        cause: String,
    },
    /// The sending thread is not bound to its core.
    NotPinned {
        /// The core.
        core: usize,
        /// What the kernel said.
        cause: String,
    },
}

/// Why the kernel copies each frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CopyReason {
    /// The driver has no zero-copy.
    NotOffered,
    /// The driver has it only beside an XDP program.
    NeedsProgram,
    /// Another refusal.
    Refused {
        /// What the kernel said.
        cause: String,
    },
}

impl CopyReason {
    pub(crate) fn of(refused: &XskError) -> Self {
        let errno = match refused {
            XskError::Bind { source, .. } => source.raw_os_error().map(Errno::from_raw),
            _ => None,
        };
        match errno {
            _ if refused.is_unsupported() => Self::NotOffered,
            Some(Errno::EINVAL | Errno::ENXIO) => Self::NeedsProgram,
            _ => Self::Refused { cause: refused.to_string() },
        }
    }
}
