//! What is set on a network device and given back, what is watched of it, and who else uses it.

pub(crate) mod devices;
pub(crate) mod holders;
pub(crate) mod host_use;
pub(crate) mod link;
pub(crate) mod outlet;
pub(crate) mod preflight;
pub(crate) mod rss;
pub(crate) mod stamping;
