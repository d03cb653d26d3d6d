//! libpcap's own interpreter, which says what a filter means.

use std::{
    ffi::{c_int, c_uint},
    sync::OnceLock,
};

use super::{
    error::Error,
    insn::Insn,
    library::{Library, NAMES, function, open},
};

/// libpcap's `bpf_validate`.
type ValidateFn = unsafe extern "C" fn(*const Insn, c_int) -> c_int;
/// libpcap's `bpf_filter`.
type FilterFn = unsafe extern "C" fn(*const Insn, *const u8, c_uint, c_uint) -> c_uint;

/// What `bpf_filter` knows, one row for each class. Before 1.11 `bpf_validate` looks at parts of a code only,
/// and `bpf_filter` ends the process at one it does not know.
#[rustfmt::skip]
const CODES: [u16; 49] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x00, 0x60, // LD
    0x81, 0xb1, 0x01, 0x61, // LDX
    0x02, 0x03, // ST, STX
    0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x84, // ALU, constant
    0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c, 0x7c, 0x9c, 0xac, // ALU, X
    0x05, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, // JMP
    0x06, 0x16, // RET
    0x07, 0x87, // MISC
];

/// Instructions that libpcap has validated, to be run by its `bpf_filter`.
///
/// A slot of the scratch memory that is read before it is written holds anything: libpcap initialises it
/// since 1.11 only.
#[derive(Debug, Clone, Copy)]
pub struct LibpcapFilter<'a> {
    filter: FilterFn,
    /// INVARIANT: `bpf_validate` took them and `bpf_filter` knows them, so it stays inside.
    insns: &'a [Insn],
}

/// Both functions of a loaded libpcap.
type Functions = (ValidateFn, FilterFn);

fn functions() -> Result<Functions, Error> {
    let shared = open(&NAMES)?;
    // SAFETY: the types are those of the functions' declarations in <pcap/bpf.h>, unchanged since libpcap
    // 0.8.
    unsafe {
        Ok((
            function(&shared, c"bpf_validate", "bpf_validate")?,
            function(&shared, c"bpf_filter", "bpf_filter")?,
        ))
    }
}

impl Library {
    /// libpcap's interpreter for these instructions; `None` if its validator does not take them, or it does
    /// not know one.
    ///
    /// # Panics
    /// If this libpcap has no interpreter; every version since 0.8 has.
    pub fn filter<'a>(&self, insns: &'a [Insn]) -> Option<LibpcapFilter<'a>> {
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        let (validate, filter) = *FUNCTIONS.get_or_init(|| functions().expect("libpcap is loaded"));
        LibpcapFilter::new(validate, filter, insns)
    }
}

impl<'a> LibpcapFilter<'a> {
    fn new(validate: ValidateFn, filter: FilterFn, insns: &'a [Insn]) -> Option<Self> {
        let len = c_int::try_from(insns.len()).ok()?;
        let unknown = |insn: &Insn| !CODES.contains(&insn.code);
        // SAFETY: the pointer is good for `len` instructions, which are only read.
        let valid = len > 0 && unsafe { validate(insns.as_ptr(), len) } != 0;
        (valid && !insns.iter().any(unknown)).then_some(Self { filter, insns })
    }

    /// What `bpf_filter` returns for a packet of which `packet` was captured and which was `wirelen` bytes
    /// long.
    ///
    /// Where a jump goes backward, as in what libpcap makes of `protochain`, there are packets for which it
    /// never returns: callers make sure that this is none of them.
    pub fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        let captured = packet.len() as c_uint;
        // SAFETY: the instructions are valid by the invariant; loads are checked against `captured`, and the
        // packet is good for that many bytes.
        unsafe { (self.filter)(self.insns.as_ptr(), packet.as_ptr(), wirelen, captured) }
    }
}
