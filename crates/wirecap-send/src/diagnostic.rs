//! Requests about sending that were not met, as data.
//!
//! Rule: a diagnostic has a stable code and data; the command has the text.

use nix::errno::Errno;
use serde::Serialize;
use wirecap_sys::xsk::XskError;

/// A request about sending that was not met.
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
    /// The interface cannot send frames of several cells, so longer ones are skipped.
    NoMultiBuffer {
        /// Longest frame in bytes.
        longest: u32,
    },
    /// The loss of the link is not reported.
    LinkNotWatched {
        /// The error of the kernel.
        cause: String,
    },
    /// The sending thread is not pinned to its core.
    NotPinned {
        /// The core.
        core: usize,
        /// The error of the kernel.
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
    /// The driver has it only with an XDP program attached.
    NeedsProgram,
    /// Another refusal.
    Refused {
        /// The error of the kernel.
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
