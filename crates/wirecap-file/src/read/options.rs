//! The options of a pcapng block, walked.

use super::byte_order::ByteOrder;
use crate::Damage;
use crate::pcapng::code;

const OPTION_HEADER_LEN: usize = 4;

/// The options at the end of a block's body, up to the end-of-options mark or the end of the block; many
/// writers leave the mark out.
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }
}

impl<'a> Iterator for Options<'a> {
    /// The option's code and value.
    type Item = Result<(u16, &'a [u8]), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.len() < OPTION_HEADER_LEN {
            return None;
        }
        let code = self.order.u16_at(self.bytes, 0);
        if code == code::END {
            self.bytes = &[];
            return None;
        }
        let length = self.order.u16_at(self.bytes, 2);
        let rest = &self.bytes[OPTION_HEADER_LEN..];
        let Some(value) = rest.get(..usize::from(length)) else {
            self.bytes = &[];
            return Some(Err(Damage::OptionLength { code, length, left: rest.len() as u32 }));
        };
        self.bytes = rest.get(value.len().next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok((code, value)))
    }
}

/// An option's text. Some writers end it with the zero byte of a C string.
pub(super) fn text(value: &[u8]) -> std::borrow::Cow<'_, str> {
    let end = value.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    String::from_utf8_lossy(&value[..end])
}
