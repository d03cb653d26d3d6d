//! How time is divided.

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinSettings {
    /// The width of a bin, at least 1 ns.
    pub bin_ns: u64,
    /// How many bins a window has in which short-term imbalance is measured; at least one.
    pub window_bins: u64,
}

impl BinSettings {
    /// Bins of this width, and windows of at least this one: a whole number of bins.
    pub fn new(bin_ns: u64, window_ns: u64) -> Self {
        let bin_ns = bin_ns.max(1);
        Self { bin_ns, window_bins: window_ns.div_ceil(bin_ns).max(1) }
    }
}
