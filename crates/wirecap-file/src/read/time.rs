//! From the file's ticks to nanoseconds.

const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;

/// The unit an interface's timestamps are counted in.
///
/// # Example
///
/// ```
/// use wirecap_file::Resolution;
///
/// assert_eq!(Resolution::from_tsresol(9), Resolution::PowerOfTen(9));
/// assert_eq!(Resolution::from_tsresol(0x80 | 20), Resolution::PowerOfTwo(20));
/// assert_eq!(Resolution::PowerOfTen(6).to_ns(1_000_001, 0), Some(1_000_001_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// A tick is 10 to the minus this many seconds: 6 are microseconds, 9 nanoseconds.
    PowerOfTen(u8),
    /// A tick is 2 to the minus this many seconds.
    PowerOfTwo(u8),
}

impl Default for Resolution {
    /// Microseconds, which is what the format means when it does not say.
    fn default() -> Self {
        Self::PowerOfTen(6)
    }
}

impl Resolution {
    /// Decodes the value of the option `if_tsresol`: the top bit is the base, the others are the exponent.
    #[must_use]
    pub const fn from_tsresol(value: u8) -> Self {
        if value & 0x80 == 0 { Self::PowerOfTen(value) } else { Self::PowerOfTwo(value & 0x7f) }
    }

    /// Converts a time in ticks, counted from `offset_s` seconds after the Unix epoch, to nanoseconds since
    /// the epoch. Finer ticks are cut down to whole nanoseconds.
    ///
    /// `None` if the time is before 1970 or after 2554, where 64 bits of nanoseconds end.
    #[inline]
    #[must_use]
    pub fn to_ns(self, ticks: u64, offset_s: i64) -> Option<u64> {
        if matches!(self, Self::PowerOfTen(9)) && offset_s == 0 {
            return Some(ticks);
        }
        // No overflow: ticks are below 2^64, the offset within 2^63, the factor below 2^30.
        let ticks = i128::from(ticks);
        let ns = match self {
            Self::PowerOfTen(exponent @ 0..=9) => ticks * 10_i128.pow(9 - u32::from(exponent)),
            Self::PowerOfTen(exponent) => {
                10_i128.checked_pow(u32::from(exponent) - 9).map_or(0, |unit| ticks / unit)
            }
            Self::PowerOfTwo(exponent) => (ticks * NANOSECONDS_PER_SECOND) >> exponent.min(127),
        };
        u64::try_from(ns + i128::from(offset_s) * NANOSECONDS_PER_SECOND).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_and_offset_converts_without_overflow() {
        for value in 0..=u8::MAX {
            let resolution = Resolution::from_tsresol(value);
            for ticks in [0, 1, u64::from(u32::MAX), u64::MAX] {
                for offset_s in [i64::MIN, -1, 0, 1, i64::MAX] {
                    let _ = resolution.to_ns(ticks, offset_s);
                }
            }
            assert_eq!(resolution.to_ns(0, 5), Some(5_000_000_000));
        }
    }

    #[test]
    fn known_times() {
        assert_eq!(Resolution::PowerOfTen(0).to_ns(3, 0), Some(3_000_000_000));
        assert_eq!(Resolution::PowerOfTen(12).to_ns(1_999, 0), Some(1));
        assert_eq!(Resolution::PowerOfTen(127).to_ns(u64::MAX, 0), Some(0));
        assert_eq!(Resolution::PowerOfTwo(1).to_ns(3, -1), Some(500_000_000));
        assert_eq!(Resolution::PowerOfTwo(32).to_ns(1 << 31, 0), Some(500_000_000));
        assert_eq!(Resolution::PowerOfTen(9).to_ns(1_000_000_000, -2), None);
        assert_eq!(Resolution::PowerOfTen(0).to_ns(u64::MAX, 0), None);
    }
}
