//! Texts for C programs.

use std::{
    cell::{Cell, UnsafeCell},
    ffi::{CStr, c_char},
    fmt::Display,
};

use crate::abi::ERROR_BYTES;

/// The error text of a handle, as `pcap_geterr` returns it: 256 bytes with a zero byte among them.
pub(crate) struct ErrorText {
    bytes: UnsafeCell<[c_char; ERROR_BYTES + 1]>,
    is_set: Cell<bool>,
}

impl ErrorText {
    pub(crate) const fn new() -> Self {
        Self { bytes: UnsafeCell::new([0; ERROR_BYTES + 1]), is_set: Cell::new(false) }
    }

    /// The buffer, which programs read and may write.
    pub(crate) fn as_ptr(&self) -> *mut c_char {
        self.bytes.get().cast()
    }

    pub(crate) fn set(&self, text: impl Display) {
        // SAFETY: the buffer has this size; only the thread that uses the handle writes it, and we hold no
        // reference into it.
        unsafe { write_error(self.as_ptr(), text) };
        self.is_set.set(true);
    }

    /// From now on the error of the handle is libpcap's.
    pub(crate) fn clear(&self) {
        self.is_set.set(false);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.get()
    }
}

/// Writes an error text, cut to what fits, at the end of a character.
///
/// # Safety
/// `buffer` is null, or good for writing [`ERROR_BYTES`].
pub(crate) unsafe fn write_error(buffer: *mut c_char, text: impl Display) {
    // SAFETY: by the caller's promise.
    unsafe { write(buffer, ERROR_BYTES, text) };
}

/// Writes a text, cut to what fits, at the end of a character.
///
/// # Safety
/// `buffer` is null, or good for writing `room` bytes.
pub(crate) unsafe fn write(buffer: *mut c_char, room: usize, text: impl Display) {
    if buffer.is_null() || room == 0 {
        return;
    }
    let text = text.to_string().replace('\0', "?");
    let mut end = text.len().min(room - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` and the zero byte fit by the caller's promise; the text is ours, so they do not overlap.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), end);
        buffer.add(end).write(0);
    }
}

/// A C string as text; `None` for a null pointer. What is not UTF-8 becomes a replacement character.
///
/// # Safety
/// `pointer` is null or points to a string that ends with a zero byte.
pub(crate) unsafe fn read(pointer: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise, where it is not null.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
