//! The version of the protocol, and the names of its requests.

/// The version: it grows when a request or a field goes, or changes its meaning.
pub(crate) const PROTOCOL: u64 = 1;

/// The names of all requests.
pub(super) const REQUESTS: [&str; 6] = ["status", "account", "watch", "stop", "rotate", "set"];
