//! The system's own libpcap, loaded at run time beside this library, which may bear its name.
//!
//! ```text
//!   $WIRECAP_LIBPCAP, $LD_LIBRARY_PATH, the directories of the system ── a copy ──► Libpcap: a table of functions
//! ```
//!
//! It is opened by path, because by name the loader would return this library. It is bound to itself, so that
//! it calls its own functions and not ours of the same name: libpcap writes into handles that its own
//! `pcap_create` returns. It still uses the program's allocator: what is opened is a copy that is marked for
//! this, and only where that fails, the file itself with `RTLD_DEEPBIND`, which crashes in programs with an
//! allocator of their own.

use std::{
    env,
    ffi::{CString, c_char, c_int, c_long, c_uint, c_void},
    fs,
    ops::Deref,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::OnceLock,
};

use wirecap_filter::Insn;
use wirecap_sys::shared_object::SharedObject;

use crate::{
    abi::{BpfProgram, ForeignPcap, Handler, Interface, Opaque, PacketHeader, Stat},
    account_file, environment,
};

/// Names of libpcap: Debian's, and upstream's.
const NAMES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];

/// Where distributions have it.
const DIRECTORIES: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
    "/usr/local/lib",
];

/// The name of a symbol that only this library exports, as it is in its file.
const OUR_MARK: &[u8] = b"\0wirecap_version\0";

/// Declares the table of libpcap's functions. Those under `pass` need no handle: programs that call them get
/// libpcap's own function, or the value after the arrow on a machine without libpcap. In those under `read` a
/// thread may be cancelled.
macro_rules! functions {
    (
        pass { $(fn $passed:ident($($parg:ident: $PType:ty),*) $(-> $PResult:ty)? => $missing:expr;)+ }
        call { $(fn $called:ident($($CType:ty),*) $(-> $CResult:ty)?;)+ }
        read { $(fn $read:ident($($RType:ty),*) $(-> $RResult:ty)?;)+ }
    ) => {
        /// The functions of libpcap.
        pub(crate) struct Libpcap {
            $(pub(crate) $passed: unsafe extern "C" fn($($PType),*) $(-> $PResult)?,)+
            $(pub(crate) $called: unsafe extern "C" fn($($CType),*) $(-> $CResult)?,)+
            $(pub(crate) $read: unsafe extern "C-unwind" fn($($RType),*) $(-> $RResult)?,)+
        }

        impl Libpcap {
            fn bind(object: &SharedObject) -> Result<Self, String> {
                // SAFETY: the types are those of the declarations in <pcap/pcap.h> and <pcap/bpf.h>.
                unsafe {
                    Ok(Self {
                        $($passed: function(object, stringify!($passed))?,)+
                        $($called: function(object, stringify!($called))?,)+
                        $($read: function(object, stringify!($read))?,)+
                    })
                }
            }
        }

        /// Functions that are libpcap's own.
        mod passed_on {
            use super::*;

            $(
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $passed($($parg: $PType),*) $(-> $PResult)? {
                    match libpcap() {
                        // SAFETY: the caller keeps the promises that libpcap asks for.
                        Ok(libpcap) => unsafe { (libpcap.$passed)($($parg),*) },
                        Err(_) => $missing,
                    }
                }
            )+
        }
    };
}

functions! {
    pass {
        fn bpf_dump(program: *const BpfProgram, option: c_int) => ();
        fn bpf_filter(insns: *const Insn, packet: *const u8, len: c_uint, captured: c_uint) -> c_uint => 0;
        fn bpf_image(insn: *const Insn, number: c_int) -> *mut c_char => std::ptr::null_mut();
        fn bpf_validate(insns: *const Insn, len: c_int) -> c_int => 0;
        fn pcap_compile_nopcap(snaplen: c_int, link_type: c_int, program: *mut BpfProgram, text: *const c_char,
            optimize: c_int, netmask: u32) -> c_int => -1;
        fn pcap_datalink_name_to_val(name: *const c_char) -> c_int => -1;
        fn pcap_datalink_val_to_description(value: c_int) -> *const c_char => std::ptr::null();
        fn pcap_datalink_val_to_description_or_dlt(value: c_int) -> *const c_char => c"unknown".as_ptr();
        fn pcap_datalink_val_to_name(value: c_int) -> *const c_char => std::ptr::null();
        fn pcap_dump(dumper: *mut u8, header: *const PacketHeader, data: *const u8) => ();
        fn pcap_dump_close(dumper: *mut Opaque) => ();
        fn pcap_dump_file(dumper: *mut Opaque) -> *mut Opaque => std::ptr::null_mut();
        fn pcap_dump_flush(dumper: *mut Opaque) -> c_int => -1;
        fn pcap_dump_ftell(dumper: *mut Opaque) -> c_long => -1;
        fn pcap_dump_ftell64(dumper: *mut Opaque) -> i64 => -1;
        fn pcap_ether_aton(text: *const c_char) -> *mut u8 => std::ptr::null_mut();
        fn pcap_ether_hostton(name: *const c_char) -> *mut u8 => std::ptr::null_mut();
        fn pcap_freecode(program: *mut BpfProgram) => ();
        fn pcap_init(options: c_uint, error: *mut c_char) -> c_int => -1;
        fn pcap_lookupdev(error: *mut c_char) -> *mut c_char => std::ptr::null_mut();
        fn pcap_nametoaddr(name: *const c_char) -> *mut *mut u32 => std::ptr::null_mut();
        fn pcap_nametoaddrinfo(name: *const c_char) -> *mut Opaque => std::ptr::null_mut();
        fn pcap_nametoeproto(name: *const c_char) -> c_int => -1;
        fn pcap_nametollc(name: *const c_char) -> c_int => -1;
        fn pcap_nametonetaddr(name: *const c_char) -> u32 => 0;
        fn pcap_nametoport(name: *const c_char, port: *mut c_int, protocol: *mut c_int) -> c_int => 0;
        fn pcap_nametoportrange(name: *const c_char, first: *mut c_int, last: *mut c_int, protocol: *mut c_int)
            -> c_int => 0;
        fn pcap_nametoproto(name: *const c_char) -> c_int => -1;
        fn pcap_next_etherent(file: *mut Opaque) -> *mut Opaque => std::ptr::null_mut();
        fn pcap_offline_filter(program: *const BpfProgram, header: *const PacketHeader, data: *const u8)
            -> c_int => 0;
        fn pcap_statustostr(status: c_int) -> *const c_char => c"libpcap is not installed".as_ptr();
        fn pcap_strerror(errno: c_int) -> *const c_char => c"unknown error".as_ptr();
        fn pcap_tstamp_type_name_to_val(name: *const c_char) -> c_int => -1;
        fn pcap_tstamp_type_val_to_description(value: c_int) -> *const c_char => std::ptr::null();
        fn pcap_tstamp_type_val_to_name(value: c_int) -> *const c_char => std::ptr::null();
    }
    call {
        fn pcap_activate(*mut ForeignPcap) -> c_int;
        fn pcap_breakloop(*mut ForeignPcap);
        fn pcap_bufsize(*mut ForeignPcap) -> c_int;
        fn pcap_can_set_rfmon(*mut ForeignPcap) -> c_int;
        fn pcap_close(*mut ForeignPcap);
        fn pcap_compile(*mut ForeignPcap, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
        fn pcap_create(*const c_char, *mut c_char) -> *mut ForeignPcap;
        fn pcap_datalink(*mut ForeignPcap) -> c_int;
        fn pcap_datalink_ext(*mut ForeignPcap) -> c_int;
        fn pcap_dump_fopen(*mut ForeignPcap, *mut Opaque) -> *mut Opaque;
        fn pcap_dump_open(*mut ForeignPcap, *const c_char) -> *mut Opaque;
        fn pcap_dump_open_append(*mut ForeignPcap, *const c_char) -> *mut Opaque;
        fn pcap_file(*mut ForeignPcap) -> *mut Opaque;
        fn pcap_fileno(*mut ForeignPcap) -> c_int;
        fn pcap_findalldevs(*mut *mut Interface, *mut c_char) -> c_int;
        fn pcap_fopen_offline(*mut Opaque, *mut c_char) -> *mut ForeignPcap;
        fn pcap_fopen_offline_with_tstamp_precision(*mut Opaque, c_uint, *mut c_char) -> *mut ForeignPcap;
        fn pcap_free_datalinks(*mut c_int);
        fn pcap_free_tstamp_types(*mut c_int);
        fn pcap_freealldevs(*mut Interface);
        fn pcap_get_required_select_timeout(*mut ForeignPcap) -> *const libc::timeval;
        fn pcap_get_selectable_fd(*mut ForeignPcap) -> c_int;
        fn pcap_get_tstamp_precision(*mut ForeignPcap) -> c_int;
        fn pcap_geterr(*mut ForeignPcap) -> *mut c_char;
        fn pcap_getnonblock(*mut ForeignPcap, *mut c_char) -> c_int;
        fn pcap_inject(*mut ForeignPcap, *const c_void, usize) -> c_int;
        fn pcap_is_swapped(*mut ForeignPcap) -> c_int;
        fn pcap_lib_version() -> *const c_char;
        fn pcap_list_datalinks(*mut ForeignPcap, *mut *mut c_int) -> c_int;
        fn pcap_list_tstamp_types(*mut ForeignPcap, *mut *mut c_int) -> c_int;
        fn pcap_lookupnet(*const c_char, *mut u32, *mut u32, *mut c_char) -> c_int;
        fn pcap_major_version(*mut ForeignPcap) -> c_int;
        fn pcap_minor_version(*mut ForeignPcap) -> c_int;
        fn pcap_open_dead(c_int, c_int) -> *mut ForeignPcap;
        fn pcap_open_dead_with_tstamp_precision(c_int, c_int, c_uint) -> *mut ForeignPcap;
        fn pcap_open_live(*const c_char, c_int, c_int, c_int, *mut c_char) -> *mut ForeignPcap;
        fn pcap_open_offline(*const c_char, *mut c_char) -> *mut ForeignPcap;
        fn pcap_open_offline_with_tstamp_precision(*const c_char, c_uint, *mut c_char) -> *mut ForeignPcap;
        fn pcap_sendpacket(*mut ForeignPcap, *const u8, c_int) -> c_int;
        fn pcap_set_buffer_size(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_datalink(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_immediate_mode(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_promisc(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_protocol_linux(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_rfmon(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_snaplen(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_timeout(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_tstamp_precision(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_set_tstamp_type(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_setdirection(*mut ForeignPcap, c_int) -> c_int;
        fn pcap_setfilter(*mut ForeignPcap, *mut BpfProgram) -> c_int;
        fn pcap_setnonblock(*mut ForeignPcap, c_int, *mut c_char) -> c_int;
        fn pcap_snapshot(*mut ForeignPcap) -> c_int;
        fn pcap_stats(*mut ForeignPcap, *mut Stat) -> c_int;
    }
    read {
        fn pcap_dispatch(*mut ForeignPcap, c_int, Option<Handler>, *mut u8) -> c_int;
        fn pcap_loop(*mut ForeignPcap, c_int, Option<Handler>, *mut u8) -> c_int;
        fn pcap_next(*mut ForeignPcap, *mut PacketHeader) -> *const u8;
        fn pcap_next_ex(*mut ForeignPcap, *mut *mut PacketHeader, *mut *const u8) -> c_int;
    }
}

/// libpcap, once it is loaded.
#[derive(Clone, Copy)]
pub(crate) struct Loaded(&'static Libpcap);

impl Deref for Loaded {
    type Target = Libpcap;

    fn deref(&self) -> &Libpcap {
        self.0
    }
}

/// The system's libpcap; loaded by the first call.
///
/// # Errors
/// The reason, and what to do; the same at every call.
pub(crate) fn libpcap() -> Result<Loaded, &'static str> {
    static LIBPCAP: OnceLock<Result<Libpcap, String>> = OnceLock::new();
    LIBPCAP.get_or_init(load).as_ref().map(Loaded).map_err(String::as_str)
}

fn load() -> Result<Libpcap, String> {
    account_file::note_use();
    let reason = match object() {
        Ok(object) => match Libpcap::bind(object) {
            Ok(libpcap) => return Ok(libpcap),
            Err(missing) => format!("the one that was found has no {missing}"),
        },
        Err(reason) => reason.clone(),
    };
    Err(format!(
        "wirecap needs the system's libpcap 1.10 ({reason}); install it with `apt install libpcap0.8`, or name \
         it in WIRECAP_LIBPCAP"
    ))
}

/// The first file that is libpcap, opened.
fn object() -> &'static Result<SharedObject, String> {
    static OBJECT: OnceLock<Result<SharedObject, String>> = OnceLock::new();
    OBJECT.get_or_init(|| {
        let mut reasons = Vec::new();
        for path in candidates().into_iter().filter(|path| path.exists()) {
            let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { continue };
            let contents = fs::read(&path).unwrap_or_default();
            // A copy of this library.
            if contents.windows(OUR_MARK.len()).any(|bytes| bytes == OUR_MARK) {
                continue;
            }
            // The copy first: what both need is opened as for the first of them.
            let copy = SharedObject::open_copy_bound_to_itself(contents);
            match (copy, SharedObject::open_bound_to_itself(&name)) {
                (Ok(object), _) | (Err(_), Ok(object)) => return Ok(object),
                (Err(_), Err(reason)) => reasons.push(reason),
            }
        }
        Err(if reasons.is_empty() { "none was found".into() } else { reasons.join("; ") })
    })
}

/// Opens libpcap before the program can: if the program opened the same file by its path first, that libpcap
/// would call our functions of the same name, and write into handles that are not its own. So the file itself
/// is opened as well, though a copy is used.
extern "C" fn open_early() {
    crate::edge::catch_panic((), || {
        let _ = object();
    });
}

#[used]
#[unsafe(link_section = ".init_array")]
static OPEN_EARLY: extern "C" fn() = open_early;

/// The function of this name, or an error that names it.
///
/// # Safety
/// As [`SharedObject::function`].
unsafe fn function<F: Copy>(object: &SharedObject, name: &str) -> Result<F, String> {
    let symbol = CString::new(name).map_err(|_| name)?;
    // SAFETY: by the caller's promise.
    Ok(unsafe { object.function(&symbol) }.ok_or(name)?)
}

/// Files that may be libpcap, best first.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = environment::variable("WIRECAP_LIBPCAP") {
        return vec![path.into()];
    }
    let listed = environment::variable("LD_LIBRARY_PATH").unwrap_or_default();
    let directories = env::split_paths(&listed).filter(|directory| directory.is_absolute());
    let directories = directories.chain(DIRECTORIES.iter().map(PathBuf::from));
    directories.flat_map(|directory| NAMES.map(|name| directory.join(name))).collect()
}
