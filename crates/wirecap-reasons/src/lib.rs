//! Why a requested capture is not possible, in words that every front end prints.
//!
//! ```text
//!   HostUse, PassiveReason ── host_use.rs ──┐
//!   ModeRefusal, TapRefusal … refusal.rs ───┼──► a part of a sentence ──► the command adds the flag that helps,
//!   RssRefusal, RssReport ─── rss.rs ───────┘                             the libpcap library its setting
//! ```
//!
//! Rule: no flag and no setting is named here, since each front end has its own.
#![forbid(unsafe_code)]

pub mod host_use;
pub mod refusal;
pub mod rss;
