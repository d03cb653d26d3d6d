//! How large the pools are: as a number of chunks, or as memory.

use std::{fmt, str::FromStr};

use thiserror::Error;
use wirecap_core::choice_text;

/// Units of memory with their powers of two, largest first.
const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// R, the number of chunks of a pool, or what it follows from.
///
/// As text it is `at-most:128`, `chunks:500` or `memory:2G`.
///
/// ```
/// use wirecap::PoolSize;
///
/// assert_eq!("memory:2G".parse(), Ok(PoolSize::Memory(2 << 30)));
/// assert_eq!(PoolSize::default().to_string(), "at-most:128");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSize {
    /// This number, or fewer if the pools, with what the kernel needs besides, would take more than an eighth
    /// of the memory that is available to this process;
    /// [`MemoryReport::bounded`](crate::report::MemoryReport::bounded) says so.
    AtMost(u32),
    /// Exactly this number.
    Chunks(u32),
    /// As many as fit into this number of bytes, all pools together.
    Memory(u64),
}

/// With M = 256 and cells of 2 KiB that is 64 MiB for each receive queue.
impl Default for PoolSize {
    fn default() -> Self {
        PoolSize::AtMost(128)
    }
}

/// A text that names no size of pools.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{given:?} is not a size of pools; write one like at-most:128, chunks:500 or memory:2G")]
pub struct PoolSizeError {
    given: String,
}

impl fmt::Display for PoolSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolSize::AtMost(chunks) => write!(f, "at-most:{chunks}"),
            PoolSize::Chunks(chunks) => write!(f, "chunks:{chunks}"),
            PoolSize::Memory(bytes) => write!(f, "memory:{}", format_bytes(*bytes)),
        }
    }
}

impl FromStr for PoolSize {
    type Err = PoolSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once(':').and_then(|(kind, size)| match kind {
            "at-most" => size.parse().ok().map(PoolSize::AtMost),
            "chunks" => size.parse().ok().map(PoolSize::Chunks),
            "memory" => size.parse().ok().or_else(|| parse_bytes(size)).map(PoolSize::Memory),
            _ => None,
        });
        parsed.ok_or_else(|| PoolSizeError { given: text.into() })
    }
}

choice_text!(PoolSize);

/// Parses a size of memory in powers of two: `512M`, `1.5G`, `64k`, `256MiB`. `None` if it has no unit, or is
/// 0.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.strip_suffix("iB").unwrap_or(text);
    let (number, shift) = UNITS.iter().find_map(|&(unit, shift)| {
        let number = text.strip_suffix(unit).or_else(|| text.strip_suffix(unit.to_ascii_lowercase()))?;
        Some((number, shift))
    })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if ![whole, fraction]
        .iter()
        .all(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return None;
    }
    // Further digits are worth less than a byte.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = (fraction.parse::<u128>().ok()? << shift) / 10_u128.pow(fraction.len() as u32);
    let bytes = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?.checked_add(part as u64);
    bytes.filter(|&bytes| bytes > 0)
}

/// Formats a number of bytes in the largest unit that divides it, else without a unit.
fn format_bytes(bytes: u64) -> String {
    let unit = UNITS.iter().find(|&&(_, shift)| bytes > 0 && bytes.trailing_zeros() >= shift);
    unit.map_or_else(|| bytes.to_string(), |&(unit, shift)| format!("{}{unit}", bytes >> shift))
}
