//! The internet checksum (RFC 1071), in parts that can be added up.

/// The internet checksum of `bytes`; over a header that includes its checksum it is 0 if that is right.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(word_sum(bytes))
}

/// Sum of the big-endian 16-bit words; a last odd byte counts as a high one.
pub(crate) fn word_sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let odd = pairs.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    pairs.fold(odd, |sum, pair| sum + u64::from(u16::from_be_bytes([pair[0], pair[1]])))
}

/// What a number adds, in 32-bit halves: as good as adding its words, since 2^16 is 1 modulo 0xffff.
#[inline]
pub(crate) fn number_sum(number: u64) -> u64 {
    (number >> 32) + (number & 0xffff_ffff)
}

#[inline]
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of a sum, for UDP: a result of zero is sent as 0xffff, as zero means "none". TCP may have it so, too.
#[inline]
pub(crate) fn transport_checksum(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}
