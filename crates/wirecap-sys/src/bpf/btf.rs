//! Functions of the kernel by name, from its own type information (BTF).
//!
//! ```text
//!   /sys/kernel/btf/vmlinux:  │ header │ type 1 │ type 2 │ … │ strings │
//!                                          └ name, kind, length ─► the next one; its number is its place
//! ```
//!
//! Only what is needed is read: how long each entry is, and the names of functions. Rule: a number in it is
//! believed only after it was held against the length of the file. See Documentation/bpf/btf.rst.

use std::fs;

use super::error::Error;

pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const KIND_FUNC: u32 = 12;
/// Bytes of `struct btf_type`.
const TYPE_BYTES: usize = 12;

/// A function of the kernel that programs may call (a kfunc), as the verifier knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFunction {
    /// Number of its type.
    pub(super) id: i32,
}

impl KernelFunction {
    /// Looks a function up in the running kernel. `None` if it has none of this name. Reads some megabytes.
    ///
    /// # Errors
    /// [`Error::NoTypeInformation`] when the kernel has none, or one of another form.
    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let no_types = |reason| Error::NoTypeInformation { path: VMLINUX, reason };
        let bytes = fs::read(VMLINUX).map_err(|cause| no_types(cause.to_string()))?;
        let id = find_function(&bytes, name)
            .ok_or_else(|| no_types("it is of a form that this program does not know".into()))?;
        Ok(id.map(|id| Self { id }))
    }
}

/// A part of the file.
#[derive(Clone, Copy)]
struct Part<'b>(&'b [u8]);

impl Part<'_> {
    fn range(self, offset: u32, len: u32) -> Option<Self> {
        self.0.get(offset as usize..)?.get(..len as usize).map(Part)
    }

    fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Whether the text at `at` is `name`, its closing zero included.
    fn has_name(self, at: u32, name: &str) -> bool {
        let text = self.0.get(at as usize..).unwrap_or_default();
        text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// The number of a function's type: `Some(None)` for an unknown function, `None` for a file that makes no
/// sense.
fn find_function(bytes: &[u8], name: &str) -> Option<Option<i32>> {
    let file = Part(bytes);
    let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    if magic != MAGIC {
        return None;
    }
    let body = Part(bytes.get(file.u32(4)? as usize..)?);
    let types = body.range(file.u32(8)?, file.u32(12)?)?;
    let strings = body.range(file.u32(16)?, file.u32(20)?)?;
    // The type with the number 0 is "void", and is not in the file.
    let (mut at, mut id) = (0, 1);
    while at < types.0.len() {
        let info = types.u32(at + 4)?;
        let kind = (info >> 24) & 0x1f;
        if kind == KIND_FUNC && strings.has_name(types.u32(at)?, name) {
            return Some(Some(id));
        }
        at += TYPE_BYTES + rest_bytes(kind, (info & 0xffff) as usize)?;
        id += 1;
    }
    (at == types.0.len()).then_some(None)
}

/// Bytes behind the head of a type with `members` members. `None` for a kind that is not known: nothing
/// behind it can be found.
fn rest_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * members,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * members,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these types: each has a kind, a count, the offset of its name, and the number of words
    /// behind its head.
    fn file(types: &[(u32, u32, u32, usize)], strings: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for &(kind, members, name, rest) in types {
            for word in [name, (kind << 24) | members, 0] {
                body.extend_from_slice(&word.to_ne_bytes());
            }
            body.resize(body.len() + 4 * rest, 0xff);
        }
        let mut bytes = Vec::from(MAGIC.to_ne_bytes());
        bytes.extend_from_slice(&[1, 0]);
        for word in [24, 0, body.len() as u32, body.len() as u32, strings.len() as u32] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(strings);
        bytes
    }

    /// One of each kind, the last one the function `two`.
    fn each_kind() -> Vec<u8> {
        let fixed =
            [(1, 1), (2, 0), (3, 3), (7, 0), (8, 0), (9, 0), (10, 0), (11, 0), (14, 1), (16, 0), (17, 1)];
        let mut types: Vec<_> = fixed.map(|(kind, rest)| (kind, 0, 0, rest)).to_vec();
        types.extend([(4, 2, 0, 6), (5, 1, 0, 3), (6, 3, 0, 6), (13, 2, 0, 4), (15, 2, 0, 6), (19, 1, 0, 3)]);
        types.extend([(18, 0, 5, 0), (12, 1, 1, 0), (12, 0, 5, 0)]);
        file(&types, b"\0one\0two\0")
    }

    #[test]
    fn a_function_is_found_behind_types_of_every_kind() {
        let bytes = each_kind();
        assert_eq!(find_function(&bytes, "one"), Some(Some(19)));
        assert_eq!(find_function(&bytes, "two"), Some(Some(20)), "not the type tag of that name");
        for absent in ["on", "one\0", "onetwo", "", "three"] {
            assert_eq!(find_function(&bytes, absent), Some(None), "{absent:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_never_read_beyond_its_end() {
        let bytes = each_kind();
        for len in 0..bytes.len() {
            assert_eq!(find_function(&bytes[..len], "three"), None, "{len}");
        }
        // Any number in the file may be wrong: no panic, and no endless loop.
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = find_function(&damaged, "three");
            }
        }
    }

    #[test]
    fn an_unknown_kind_ends_the_search() {
        let bytes = file(&[(31, 0, 0, 0), (12, 0, 1, 0)], b"\0one\0");
        assert_eq!(find_function(&bytes, "one"), None);
    }

    #[test]
    fn the_running_kernel_is_understood() {
        match fs::read(VMLINUX) {
            Ok(bytes) => {
                assert_eq!(find_function(&bytes, "no_such_function_in_any_kernel"), Some(None));
                // Every kernel that wirecap runs on has this function: drivers call it.
                let found = find_function(&bytes, "xdp_do_redirect");
                assert!(matches!(found, Some(Some(id)) if id > 0), "{found:?}");
            }
            Err(cause) => wirecap_lab::skip(
                "bpf::btf::the_running_kernel_is_understood",
                &format!("this kernel has no type information ({cause})"),
            ),
        }
    }
}
