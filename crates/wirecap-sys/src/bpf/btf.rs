//! Functions and structures of the kernel by name, from its own type information (BTF).
//!
//! ```text
//!   /sys/kernel/btf/vmlinux:  │ header │ type 1 │ type 2 │ … │ strings │
//!                                          └ name, kind, length ─► the next one; its number is its place
//! ```
//!
//! The file of a module (/sys/kernel/btf/veth) continues the numbers and the strings of the kernel's.
//!
//! Only what is needed is read: how long each entry is, the names of functions and structures, and the
//! members of these. Rule: a number in it is believed only after it was held against the length of the file.
//! See Documentation/bpf/btf.rst.

use std::fs;

use super::error::Error;

pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
/// The kernel function that gives an XDP program the `struct xdp_buff` behind its context.
pub(super) const CAST: &str = "bpf_cast_to_kern_ctx";
const MAGIC: u16 = 0xeb9f;
const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_TYPEDEF: u32 = 8;
const KIND_CONST: u32 = 10;
const KIND_FUNC: u32 = 12;
/// Bytes of `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// Bytes of `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// How many members are looked at for one, those of anonymous structures in it included.
const MAX_MEMBERS: u32 = 1_000;
/// How many typedefs may lead to an integer.
const MAX_TYPEDEFS: u32 = 8;

/// A structure of the kernel, as the verifier knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelStructure {
    /// Number of its type.
    pub(super) id: i32,
}

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
        find_function(&bytes, name)
            .ok_or_else(|| no_types("it is of a form that this program does not know".into()))
    }
}

/// `Some(None)` for an unknown function, `None` for a file that makes no sense.
fn find_function(bytes: &[u8], name: &str) -> Option<Option<KernelFunction>> {
    let types = Types::read(bytes)?;
    match types.function(name) {
        None if !types.are_understood() => None,
        function => Some(function),
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

/// An entry of the file.
#[derive(Clone, Copy)]
struct Type<'b> {
    name: u32,
    kind: u32,
    /// Whether offsets of members have the lengths of bit fields in their highest byte.
    has_bit_fields: bool,
    /// The size, or the number of the type that it is made of.
    size_or_type: u32,
    /// What comes after its header.
    tail: Part<'b>,
}

impl<'b> Type<'b> {
    /// The entry at `at`. `None` at the end, for a kind that is not known, and for an entry that is cut off.
    fn read(entries: Part<'b>, at: usize) -> Option<Self> {
        let info = entries.u32(at + 4)?;
        let kind = (info >> 24) & 0x1f;
        let (begin, len) = (at + TYPE_BYTES, tail_bytes(kind, (info & 0xffff) as usize)?);
        Some(Self {
            name: entries.u32(at)?,
            kind,
            has_bit_fields: info >> 31 == 1,
            size_or_type: entries.u32(at + 8)?,
            tail: Part(entries.0.get(begin..begin + len)?),
        })
    }

    fn bytes(&self) -> usize {
        TYPE_BYTES + self.tail.0.len()
    }
}

/// The types of the file.
#[derive(Clone, Copy)]
pub(super) struct Types<'b> {
    entries: Part<'b>,
    strings: Part<'b>,
    /// Those of the kernel, if the file is a module's.
    kernel: Option<Kernel<'b>>,
}

/// What a module's file continues.
#[derive(Clone, Copy)]
struct Kernel<'b> {
    types: &'b Types<'b>,
    /// The number of the last type.
    last: u32,
}

impl<'b> Types<'b> {
    /// Reads the types of the kernel. `None` if the file has another form.
    pub(super) fn read(bytes: &'b [u8]) -> Option<Self> {
        Self::read_after(None, bytes)
    }

    /// Reads the types of a module, which continue those of `kernel`. `None` if the file has another form,
    /// and if not every type of the kernel is understood, so that their number is unknown.
    pub(super) fn read_module(kernel: &'b Types<'b>, bytes: &'b [u8]) -> Option<Self> {
        if !kernel.are_understood() {
            return None;
        }
        let kernel = Kernel { types: kernel, last: kernel.all().count() as u32 };
        Self::read_after(Some(kernel), bytes)
    }

    fn read_after(kernel: Option<Kernel<'b>>, bytes: &'b [u8]) -> Option<Self> {
        let file = Part(bytes);
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        if magic != MAGIC {
            return None;
        }
        let body = Part(bytes.get(file.u32(4)? as usize..)?);
        let entries = body.range(file.u32(8)?, file.u32(12)?)?;
        let strings = body.range(file.u32(16)?, file.u32(20)?)?;
        Some(Self { entries, strings, kernel })
    }

    /// The number of the first type of the file. Number 0 is "void", and is in no file.
    fn first_number(self) -> u32 {
        self.kernel.map_or(0, |kernel| kernel.last) + 1
    }

    /// Whether the text at `at` is `name`.
    fn has_name(self, at: u32, name: &str) -> bool {
        let Some(Kernel { types: kernel, .. }) = self.kernel else { return self.strings.has_name(at, name) };
        match (at as usize).checked_sub(kernel.strings.0.len()) {
            None => kernel.strings.has_name(at, name),
            Some(at) => self.strings.has_name(at as u32, name),
        }
    }

    /// Each type of the file, up to one that is not understood.
    fn all(self) -> impl Iterator<Item = Type<'b>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let next = Type::read(self.entries, at)?;
            at += next.bytes();
            Some(next)
        })
    }

    /// Whether every type is understood. If not, those after it cannot be found.
    fn are_understood(self) -> bool {
        self.all().map(|entry| entry.bytes()).sum::<usize>() == self.entries.0.len()
    }

    fn by_number(self, number: u32) -> Option<Type<'b>> {
        match self.kernel {
            Some(Kernel { types, last }) if number <= last => types.by_number(number),
            _ => self.all().nth(number.checked_sub(self.first_number())? as usize),
        }
    }

    /// The type of this kind and name, with its number.
    fn find(self, kind: u32, name: &str) -> Option<(u32, Type<'b>)> {
        let mut numbered = (self.first_number()..).zip(self.all());
        numbered.find(|(_, entry)| entry.kind == kind && self.has_name(entry.name, name))
    }

    pub(super) fn function(self, name: &str) -> Option<KernelFunction> {
        let (number, _) = self.find(KIND_FUNC, name)?;
        Some(KernelFunction { id: number as i32 })
    }

    pub(super) fn structure(self, name: &str) -> Option<KernelStructure> {
        let (number, _) = self.find(KIND_STRUCT, name)?;
        Some(KernelStructure { id: number as i32 })
    }

    /// Where a member of a structure is, in bytes from its start, if it is an integer of `bytes` bytes. It
    /// may be a member of an anonymous structure or union in it.
    pub(super) fn integer_member(self, structure: &str, member: &str, bytes: u32) -> Option<u32> {
        let (at, number) = self.member(structure, member)?;
        (self.integer_bytes(number)? == bytes).then_some(at)
    }

    /// As [`integer_member`](Self::integer_member), if it is a pointer to a structure of this name.
    pub(super) fn pointer_member(self, structure: &str, member: &str, target: &str) -> Option<u32> {
        let (at, number) = self.member(structure, member)?;
        let pointer = self.by_number(number).filter(|found| found.kind == KIND_PTR)?;
        self.is_structure(pointer.size_or_type, target).then_some(at)
    }

    /// As [`integer_member`](Self::integer_member), if it is a structure of this name.
    pub(super) fn structure_member(self, structure: &str, member: &str, target: &str) -> Option<u32> {
        let (at, number) = self.member(structure, member)?;
        self.is_structure(number, target).then_some(at)
    }

    /// Whether the type of this number, which may be a constant, is the structure of this name.
    fn is_structure(self, number: u32, name: &str) -> bool {
        let found = self.by_number(number);
        let found = match found {
            Some(constant) if constant.kind == KIND_CONST => self.by_number(constant.size_or_type),
            other => other,
        };
        found.is_some_and(|found| found.kind == KIND_STRUCT && self.has_name(found.name, name))
    }

    /// Where a member of a structure is, in bytes, and the number of its type.
    fn member(self, structure: &str, member: &str) -> Option<(u32, u32)> {
        let (_, structure) = self.find(KIND_STRUCT, structure)?;
        let (bits, number) = self.member_of(&structure, member, &mut { MAX_MEMBERS })?;
        (bits % 8 == 0).then_some((bits / 8, number))
    }

    /// Where the member is, in bits, and the number of its type. It looks at `remaining` members at most.
    fn member_of(self, structure: &Type<'_>, name: &str, remaining: &mut u32) -> Option<(u32, u32)> {
        if ![KIND_STRUCT, KIND_UNION].contains(&structure.kind) {
            return None;
        }
        (0..structure.tail.0.len()).step_by(MEMBER_BYTES).find_map(|at| {
            *remaining = remaining.checked_sub(1)?;
            let field = |offset| structure.tail.u32(at + offset);
            let (member, number, offset) = (field(0)?, field(4)?, field(8)?);
            if structure.has_bit_fields && offset >> 24 != 0 {
                None
            } else if self.has_name(member, name) {
                Some((offset, number))
            } else if self.has_name(member, "") {
                let (inner, number) = self.member_of(&self.by_number(number)?, name, remaining)?;
                Some((offset.checked_add(inner)?, number))
            } else {
                None
            }
        })
    }

    /// Bytes of an integer type, possibly behind typedefs.
    fn integer_bytes(self, mut number: u32) -> Option<u32> {
        for _ in 0..=MAX_TYPEDEFS {
            let found = self.by_number(number)?;
            match found.kind {
                KIND_INT => return Some(found.size_or_type),
                KIND_TYPEDEF => number = found.size_or_type,
                _ => return None,
            }
        }
        None
    }
}

/// Bytes after the header of a type with `members` members. `None` for a kind that is not known.
fn tail_bytes(kind: u32, members: usize) -> Option<usize> {
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
pub(super) mod tests {
    use super::*;

    /// A file with these types: each has a kind, a count, the offset of its name, and the number of words
    /// behind its head.
    fn file(types: &[(u32, u32, u32, usize)], strings: &[u8]) -> Vec<u8> {
        let words = types.iter().flat_map(|&(kind, members, name, rest)| {
            let head = [name, (kind << 24) | members, 0];
            head.into_iter().chain(std::iter::repeat_n(u32::MAX, rest))
        });
        file_of(words, strings)
    }

    /// A file with the types in these words.
    pub(in crate::bpf) fn file_of(words: impl IntoIterator<Item = u32>, strings: &[u8]) -> Vec<u8> {
        let body: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
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
        let found = |name| find_function(&bytes, name).unwrap().map(|function| function.id);
        assert_eq!(found("one"), Some(19));
        assert_eq!(found("two"), Some(20), "not the type tag of that name");
        for absent in ["on", "one\0", "onetwo", "", "three"] {
            assert_eq!(found(absent), None, "{absent:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_never_read_beyond_its_end() {
        let nested_kernel = nested();
        for bytes in [each_kind(), nested()] {
            for len in 0..bytes.len() {
                assert_eq!(find_function(&bytes[..len], "three"), None, "{len}");
            }
            // Any number in the file may be wrong: no panic, and no endless loop.
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    let _ = find_function(&damaged, "three");
                    let types = Types::read(&damaged);
                    let _ = types.and_then(|types| types.integer_member("outer", "fourth", 8));
                    let _ = types.and_then(|types| types.pointer_member("outer", "fifth", "outer"));
                    // As the kernel's file, and as a module's.
                    let (kernel, module) = (types, nested());
                    for (kernel, module) in [(kernel, &module), (Types::read(&nested_kernel), &damaged)] {
                        let types = kernel.as_ref().and_then(|kernel| Types::read_module(kernel, module));
                        let _ = types.and_then(|types| types.integer_member("outer", "fourth", 8));
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_found_behind_an_unknown_kind() {
        let bytes = file(&[(12, 0, 1, 0), (31, 0, 0, 0), (12, 0, 5, 0)], b"\0one\0two\0");
        assert!(matches!(find_function(&bytes, "one"), Some(Some(KernelFunction { id: 1 }))));
        assert_eq!(find_function(&bytes, "two"), None);
    }

    /// A file with this structure:
    ///
    /// ```text
    /// struct outer { u32 first; union { struct { u32 second; u32 third: 3; }; }; u64 fourth; u32 *fifth; };
    /// ```
    fn nested() -> Vec<u8> {
        let (int, pointer, typedef, bit_fields) = (1 << 24, 2 << 24, 8 << 24, 1 << 31);
        let (structure, union) = (4 << 24, 5 << 24);
        let strings = b"\0outer\0first\0second\0third\0fourth\0fifth\0";
        let [outer, first, second, third, fourth, fifth] = [1, 7, 13, 20, 26, 33];
        let types: [&[u32]; 8] = [
            // 1: an integer of 4 bytes, 2: of 8, 3: a name of the first, 4: a pointer to it
            &[0, int, 4, 32],
            &[0, int, 8, 64],
            &[0, typedef, 1],
            &[0, pointer, 1],
            &[0, structure | bit_fields | 2, 8, second, 3, 0, third, 1, (3 << 24) | 32],
            &[0, union | 1, 8, 0, 5, 0],
            &[outer, union, 0],
            &[outer, structure | 4, 32, first, 1, 0, 0, 6, 64, fourth, 2, 128, fifth, 4, 192],
        ];
        file_of(types.concat(), strings)
    }

    #[test]
    fn a_member_is_found_in_structures_without_a_name() {
        let bytes = nested();
        let types = Types::read(&bytes).unwrap();
        assert!(types.are_understood());
        assert_eq!(types.integer_member("outer", "first", 4), Some(0));
        assert_eq!(types.integer_member("outer", "second", 4), Some(8));
        assert_eq!(types.integer_member("outer", "fourth", 8), Some(16));
        for (member, bytes) in [("third", 4), ("fourth", 4), ("fifth", 8), ("sixth", 4), ("", 4)] {
            assert_eq!(types.integer_member("outer", member, bytes), None, "{member}");
        }
        assert_eq!(types.integer_member("first", "first", 4), None);
    }

    #[test]
    fn a_module_continues_the_numbers_and_names_of_the_kernel() {
        let kernel = nested();
        let kernel = Types::read(&kernel).unwrap();
        let names = kernel.strings.0.len() as u32;
        let (pointer, constant, structure, first) = (2 << 24, 10 << 24, 4 << 24, 7);
        let types: [&[u32]; 4] = [
            // 9: a pointer to 10: a structure with an integer of the kernel's, that pointer, a structure of
            // the kernel's without a name, and 12: a pointer to 11: a constant of a structure of the kernel's
            &[0, pointer, 10],
            &[names + 1, structure | 4, 48, first, 3, 0, names + 7, 9, 64, 0, 6, 128, names + 14, 12, 256],
            &[0, constant, 8],
            &[0, pointer, 11],
        ];
        let module = file_of(types.concat(), b"\0inner\0itself\0kernel\0");
        let types = Types::read_module(&kernel, &module).unwrap();
        assert_eq!(types.structure("inner"), Some(KernelStructure { id: 10 }));
        assert_eq!(types.integer_member("inner", "first", 4), Some(0));
        assert_eq!(types.pointer_member("inner", "itself", "inner"), Some(8));
        assert_eq!(types.pointer_member("inner", "itself", "outer"), None);
        assert_eq!(types.integer_member("inner", "second", 4), Some(16));
        assert_eq!(types.pointer_member("inner", "kernel", "outer"), Some(32));
        assert_eq!(types.pointer_member("inner", "first", "inner"), None);
        assert_eq!(types.structure("outer"), None, "not in this file");
        assert_eq!(kernel.pointer_member("outer", "fifth", "outer"), None, "a pointer to an integer");
    }

    #[test]
    fn nothing_is_found_behind_a_kernel_that_is_not_understood() {
        let kernel = file(&[(12, 0, 1, 0), (31, 0, 0, 0)], b"\0one\0two\0");
        let kernel = Types::read(&kernel).unwrap();
        assert!(Types::read_module(&kernel, &nested()).is_none());
    }

    #[test]
    fn types_that_contain_themselves_end_the_search() {
        let (typedef, structure) = (8 << 24, (4 << 24) | 3);
        let types: [&[u32]; 2] = [
            // 1: a structure with itself in it, twice, and with 2: a typedef of itself
            &[1, structure, 8, 0, 1, 0, 0, 1, 0, 7, 2, 0],
            &[0, typedef, 2],
        ];
        let bytes = file_of(types.concat(), b"\0outer\0inner\0");
        let types = Types::read(&bytes).unwrap();
        assert!(types.are_understood());
        assert_eq!(types.integer_member("outer", "other", 4), None);
        assert_eq!(types.integer_member("outer", "inner", 4), None);
        assert_eq!(types.integer_bytes(2), None);
    }

    #[test]
    fn the_running_kernel_is_understood() {
        match fs::read(VMLINUX) {
            Ok(bytes) => {
                assert_eq!(find_function(&bytes, "no_such_function_in_any_kernel"), Some(None));
                // Every kernel that wirecap runs on has this function: drivers call it.
                let found = find_function(&bytes, "xdp_do_redirect");
                assert!(matches!(found, Some(Some(function)) if function.id > 0), "{found:?}");
            }
            Err(cause) => wirecap_lab::skip(
                "bpf::btf::the_running_kernel_is_understood",
                &format!("this kernel has no type information ({cause})"),
            ),
        }
    }
}
