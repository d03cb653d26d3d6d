//! What a machine's settings cost packets that are captured on it.
//!
//! ```text
//!   collect: /sys, /proc, ethtool ──► Snapshot ──► examine ──► findings: evidence, severity, changes
//!                                     (or a file)  rules/        │
//!                                                                └─► apply ──► journal, then the settings
//!                                                                    undo ◄── journal, in reverse
//! ```
//!
//! Rule: a rule is a function of the snapshot alone. It asks the machine nothing and changes nothing, so a
//! snapshot of another machine gives the findings of that machine. What the snapshot does not know is no
//! evidence: a rule that needs it has no finding.
//!
//! Findings are values; the front end has the words.
//!
//! | to read about | open |
//! |---|---|
//! | what is known of a machine | [`snapshot`] |
//! | how that is found out | [`collect`] |
//! | what is wrong with it | [`rules`] |
//! | how a setting is changed, and changed back | [`fix`] |
#![forbid(unsafe_code)]

pub mod collect;
pub mod finding;
pub mod fix;
pub mod rules;
pub mod setting;
pub mod snapshot;

pub use finding::{Evidence, Finding, Rule, Severity};
pub use rules::{LossCause, examine};
pub use setting::{Change, Disturbance, Setting, Value};
pub use snapshot::Snapshot;
