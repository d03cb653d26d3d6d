//! What the process may do once everything is open.

use serde::{Deserialize, Serialize};

/// What the process may do once everything is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProcessSettings {
    /// Have each thread give up what it does not need: capabilities, system calls, files.
    pub(crate) sandbox: bool,
    /// The user that the process becomes.
    pub(crate) user: Option<String>,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { sandbox: true, user: None }
    }
}
