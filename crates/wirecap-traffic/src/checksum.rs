//! The internet checksum (RFC 1071) of frames that are stamped one after the other: sums of numbers, added up
//! and folded once.
//!
//! Sums of bytes, which are taken once for all frames, are those of `wirecap-headers`.

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

/// The checksum of a sum, for UDP: a result of zero is sent as 0xffff, as zero means "none". TCP may have it
/// so, too.
#[inline]
pub(crate) fn transport_checksum(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}
