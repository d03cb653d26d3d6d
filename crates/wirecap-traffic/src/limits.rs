//! How many sizes a mix of frames may have, and how heavy.

/// The largest number of sizes in a mix.
pub const MAX_SIZES: usize = 16;
/// Largest weight of a size.
pub const MAX_WEIGHT: u32 = 1000;
