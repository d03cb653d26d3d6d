//! Network devices: settings that are changed and restored, what is watched, and how the host and other
//! programs use them.

pub(crate) mod devices;
pub(crate) mod holders;
pub(crate) mod host_use;
pub(crate) mod link;
pub(crate) mod outlet;
pub(crate) mod place;
pub(crate) mod preflight;
pub(crate) mod rss;
pub(crate) mod stamping;
pub(crate) mod tapping;
pub(crate) mod xdp_watch;
