//! How many sizes a mix of frames may have, and how heavy.

/// The largest number of sizes in a mix.
pub const SIZES_MAX: usize = 16;
/// Largest weight of a size.
pub const WEIGHT_MAX: u32 = 1000;
