//! libpcap, loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::error::Error;
use super::insn::Insn;
use crate::shared_object::{SharedObject, text};

/// Debian's name of the library, then upstream's.
pub(super) const NAMES: [&CStr; 2] = [c"libpcap.so.0.8", c"libpcap.so.1"];
/// `PCAP_NETMASK_UNKNOWN`: `ip broadcast` is refused, everything else compiles as usual.
const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

/// `struct bpf_program`: a length and instructions that libpcap owns until `pcap_freecode`.
#[repr(C)]
struct BpfProgram {
    len: c_uint,
    insns: *mut Insn,
}

const _: () = assert!(core::mem::offset_of!(BpfProgram, insns) == size_of::<usize>());

type Handle = *mut c_void;
type OpenDeadFn = unsafe extern "C" fn(c_int, c_int) -> Handle;
type CloseFn = unsafe extern "C" fn(Handle);
type CompileFn = unsafe extern "C" fn(Handle, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
type GetErrorFn = unsafe extern "C" fn(Handle) -> *const c_char;
type FreeCodeFn = unsafe extern "C" fn(*mut BpfProgram);
type VersionFn = unsafe extern "C" fn() -> *const c_char;

/// The functions of a loaded libpcap. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Library {
    open_dead: OpenDeadFn,
    close: CloseFn,
    compile: CompileFn,
    get_error: GetErrorFn,
    free_code: FreeCodeFn,
    version: VersionFn,
    /// The compiler kept its state in globals before libpcap 1.8.
    compiling: Mutex<()>,
}

/// The libpcap of this machine; loaded by the first call, which may take a few milliseconds.
///
/// # Errors
/// [`Error::Missing`], [`Error::NoSymbol`]; the same again at every call.
pub fn library() -> Result<&'static Library, Error> {
    static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::load(&NAMES)).as_ref().map_err(Clone::clone)
}

impl Library {
    fn load(names: &[&CStr]) -> Result<Self, Error> {
        let shared = open(names)?;
        // SAFETY: the types are those of the functions' declarations in <pcap/pcap.h> and <pcap/bpf.h>,
        // unchanged since libpcap 0.8.
        unsafe {
            Ok(Self {
                open_dead: function(&shared, c"pcap_open_dead", "pcap_open_dead")?,
                close: function(&shared, c"pcap_close", "pcap_close")?,
                compile: function(&shared, c"pcap_compile", "pcap_compile")?,
                get_error: function(&shared, c"pcap_geterr", "pcap_geterr")?,
                free_code: function(&shared, c"pcap_freecode", "pcap_freecode")?,
                version: function(&shared, c"pcap_lib_version", "pcap_lib_version")?,
                compiling: Mutex::new(()),
            })
        }
    }

    /// What it says of itself: `libpcap version 1.10.3 (with TPACKET_V3)`.
    pub fn version(&self) -> String {
        // SAFETY: no pointers go in; the text is zero-terminated and stays as it is.
        unsafe { text((self.version)()) }
    }

    /// Compiles a filter expression for packets of a link type (a `DLT_` number), optimised. What is let
    /// through returns `snaplen`.
    ///
    /// One compilation at a time in the process. Host names in the expression are looked up, which may take
    /// seconds.
    ///
    /// # Errors
    /// [`Error::Expression`] with libpcap's words, [`Error::SnapshotLength`], [`Error::NoHandle`].
    pub fn compile(&self, expression: &CStr, link_type: i32, snaplen: u32) -> Result<Vec<Insn>, Error> {
        let snapshot = c_int::try_from(snaplen).ok().filter(|&length| length > 0);
        let snapshot = snapshot.ok_or(Error::SnapshotLength(snaplen))?;
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no pointers go in; the handle that comes back is closed by the value that holds it.
        let handle = NonNull::new(unsafe { (self.open_dead)(link_type, snapshot) });
        let handle = DeadHandle { library: self, handle: handle.ok_or(Error::NoHandle(link_type))? };
        handle.compile(expression)
    }
}

/// A handle of `pcap_open_dead`, closed on drop.
struct DeadHandle<'a> {
    library: &'a Library,
    handle: NonNull<c_void>,
}

impl DeadHandle<'_> {
    fn compile(&self, expression: &CStr) -> Result<Vec<Insn>, Error> {
        let mut program = BpfProgram { len: 0, insns: std::ptr::null_mut() };
        let handle = self.handle.as_ptr();
        // SAFETY: the handle is open, `program` is ours to fill, the text is zero-terminated and only read,
        // and we hold the lock on the compiler.
        if unsafe { (self.library.compile)(handle, &mut program, expression.as_ptr(), 1, NETMASK_UNKNOWN) }
            < 0
        {
            // SAFETY: the handle is open; the message is its own, and is copied before the handle is closed.
            return Err(Error::Expression(unsafe { text((self.library.get_error)(handle)) }));
        }
        let insns = if program.insns.is_null() {
            Vec::new()
        } else {
            // SAFETY: on success libpcap leaves `len` initialised instructions there, which are ours until
            // freed.
            unsafe { std::slice::from_raw_parts(program.insns, program.len as usize) }.to_vec()
        };
        // SAFETY: the program is what `compile` filled, freed once; nothing refers to it any more.
        unsafe { (self.library.free_code)(&mut program) };
        Ok(insns)
    }
}

impl Drop for DeadHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `pcap_open_dead` and is closed once.
        unsafe { (self.library.close)(self.handle.as_ptr()) };
    }
}

/// Opens the first of these libraries that there is.
pub(super) fn open(names: &[&CStr]) -> Result<SharedObject, Error> {
    let mut reasons = Vec::new();
    for name in names {
        match SharedObject::open(name) {
            Ok(object) => return Ok(object),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(Error::Missing(reasons.join("; ")))
}

/// The function of this name.
///
/// # Safety
/// `F` is the type of a pointer to exactly this C function.
pub(super) unsafe fn function<F: Copy>(
    object: &SharedObject,
    name: &CStr,
    symbol: &'static str,
) -> Result<F, Error> {
    // SAFETY: by the caller's promise.
    unsafe { object.function(name) }.ok_or(Error::NoSymbol(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let error = Library::load(&[c"libpcap-that-is-not-there.so.9"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("libpcap-that-is-not-there.so.9") && text.contains("libpcap0.8t64"), "{text}");
    }

    #[test]
    fn a_library_that_is_not_libpcap_is_recognised() {
        let error = Library::load(&[c"libc.so.6"]).unwrap_err();
        assert_eq!(error, Error::NoSymbol("pcap_open_dead"));
    }

    #[test]
    fn snapshot_lengths_out_of_range_are_refused_before_libpcap_sees_them() {
        let library = library().expect("these tests need libpcap");
        for snaplen in [0, 1 << 31, u32::MAX] {
            assert_eq!(library.compile(c"ip", 1, snaplen), Err(Error::SnapshotLength(snaplen)));
        }
    }
}
