//! Numbers in the byte order of the machine that wrote the file.

/// The byte order of a pcap file or of one pcapng section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The `N` bytes of `bytes` from `at` on. Every caller has checked the length of what it decodes.
#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

impl ByteOrder {
    #[inline]
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(array_at(bytes, at)),
            Self::Big => u16::from_be_bytes(array_at(bytes, at)),
        }
    }

    #[inline]
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(array_at(bytes, at)),
            Self::Big => u32::from_be_bytes(array_at(bytes, at)),
        }
    }

    /// The 64-bit number an option holds; `None` if it holds something else.
    pub(super) fn u64(self, value: &[u8]) -> Option<u64> {
        let value = value.try_into().ok()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(value),
            Self::Big => u64::from_be_bytes(value),
        })
    }

    /// A time: two words, the high one first in both byte orders.
    #[inline]
    pub(super) fn time_at(self, bytes: &[u8], at: usize) -> u64 {
        (u64::from(self.u32_at(bytes, at)) << 32) | u64::from(self.u32_at(bytes, at + 4))
    }
}
