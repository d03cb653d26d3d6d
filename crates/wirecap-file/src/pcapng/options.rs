//! Options, appended to a block's body.

use super::code;

/// Appends one option and its padding. A value longer than the format's 65,535 bytes is cut.
pub(super) fn append(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    // By the value's length, not by the vector's: a block may start anywhere in it.
    out.extend_from_slice(&[0; 3][..value.len().next_multiple_of(4) - value.len()]);
}

/// Appends a text option if there is a text. One too long is cut between two characters.
pub(super) fn append_text(out: &mut Vec<u8>, code: u16, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        append(out, code, cut(text, usize::from(u16::MAX)).as_bytes());
    }
}

/// Appends a 64-bit option if there is a value.
pub(super) fn append_u64(out: &mut Vec<u8>, code: u16, value: Option<u64>) {
    if let Some(value) = value {
        append(out, code, &value.to_le_bytes());
    }
}

/// Appends one comment option for each comment.
pub(super) fn append_comments(out: &mut Vec<u8>, comments: &[&str]) {
    for comment in comments {
        append_text(out, code::COMMENT, Some(comment));
    }
}

/// Appends the end of the list.
pub(super) fn append_end(out: &mut Vec<u8>) {
    append(out, code::END, &[]);
}

/// The longest start of `text` of at most `max_len` bytes that ends between two characters.
pub(super) fn cut(text: &str, max_len: usize) -> &str {
    let mut end = text.len().min(max_len);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
