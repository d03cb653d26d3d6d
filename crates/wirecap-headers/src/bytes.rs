//! Numbers in packets, which are big-endian, read and written where they may not be.

/// `N` bytes at `offset`; `None` beyond the end.
pub(crate) fn array<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..)?.first_chunk().copied()
}

/// The 16 bits at `offset`; `None` beyond the end.
pub(crate) fn word(data: &[u8], offset: usize) -> Option<u16> {
    array(data, offset).map(u16::from_be_bytes)
}

/// Writes 16 bits at `offset`; `None`, and nothing written, beyond the end.
pub(crate) fn set_word(data: &mut [u8], offset: usize, value: u16) -> Option<()> {
    *data.get_mut(offset..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}
