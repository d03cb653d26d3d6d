//! The internet checksum (RFC 1071) of stamped frames: sums of numbers, folded once.
//!
//! Sums of bytes, which are computed once for all frames, come from `wirecap-headers`.

/// The sum of the 32-bit halves of a number: equivalent to its words, since 2^16 is 1 modulo 0xffff.
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

/// The checksum of a sum, for UDP: zero is sent as 0xffff, because zero means "none". TCP allows the same.
#[inline]
pub(crate) fn transport_checksum(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}
