//! Properties and statistics of a handle.

use std::{
    ffi::{CString, c_char, c_int},
    ptr,
    sync::OnceLock,
};

use super::{engine_or_libpcap, libpcap_answers};
use crate::{
    abi::{ERROR, Opaque, Stat},
    edge::catch_panic,
    environment,
    handle::{Handle, PcapT},
    libpcap::libpcap,
    live::running::Running,
    text,
};

libpcap_answers! {
    fn pcap_datalink(handle) -> c_int, missing ERROR;
    fn pcap_datalink_ext(handle) -> c_int, missing ERROR;
    fn pcap_set_datalink(handle, link_type: c_int) -> c_int, missing ERROR;
    fn pcap_snapshot(handle) -> c_int, missing ERROR;
    fn pcap_bufsize(handle) -> c_int, missing ERROR;
    fn pcap_is_swapped(handle) -> c_int, missing ERROR;
    fn pcap_major_version(handle) -> c_int, missing ERROR;
    fn pcap_minor_version(handle) -> c_int, missing ERROR;
    fn pcap_get_tstamp_precision(handle) -> c_int, missing ERROR;
    fn pcap_can_set_rfmon(handle) -> c_int, missing ERROR;
}

engine_or_libpcap! {
    fn pcap_file(handle) -> *mut Opaque {
        missing ptr::null_mut();
        engine(_, _) => ptr::null_mut();
    }
    fn pcap_fileno(handle) -> c_int {
        missing ERROR;
        engine(handle, running) => selectable_fd(handle, running);
    }
    fn pcap_get_selectable_fd(handle) -> c_int {
        missing ERROR;
        engine(handle, running) => selectable_fd(handle, running);
    }
    /// Null: the descriptor alone suffices.
    fn pcap_get_required_select_timeout(handle) -> *const libc::timeval {
        missing ptr::null();
        engine(_, _) => ptr::null();
    }
    fn pcap_stats(handle, statistics: *mut Stat) -> c_int {
        missing ERROR;
        engine(_, running) => {
            // SAFETY: the program gives room for the figures.
            unsafe { statistics.write(running.statistics()) };
            0
        };
    }
}

fn selectable_fd(handle: &Handle, running: &Running) -> c_int {
    let descriptor = running.selectable_fd();
    descriptor.unwrap_or_else(|error| handle.fail(ERROR, format_args!("no descriptor to wait on: {error}")))
}

/// The text of the handle's last error. It stays the handle's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pcap_geterr(handle: *mut PcapT) -> *mut c_char {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        match (unsafe { Handle::of(handle) }, libpcap()) {
            (Some(handle), _) => handle.error_text(),
            // SAFETY: as libpcap does it.
            (None, Ok(libpcap)) => unsafe { (libpcap.pcap_geterr)(ptr::null_mut()) },
            (None, Err(_)) => ptr::null_mut(),
        }
    })
}

/// Prints the text of the handle's last error.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_perror(handle: *mut PcapT, prefix: *const c_char) {
    catch_panic((), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>; the texts are strings of C.
        unsafe {
            let prefix = text::read(prefix).unwrap_or_default();
            let error = text::read(pcap_geterr(handle)).unwrap_or_default();
            let line = format!("{prefix}: {error}\n");
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        }
    });
}

/// libpcap's version, followed by wirecap's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_lib_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    catch_panic(c"".as_ptr(), || {
        let version = VERSION.get_or_init(|| {
            // SAFETY: libpcap's text is a constant.
            let libpcap =
                libpcap().ok().and_then(|libpcap| unsafe { text::read((libpcap.pcap_lib_version)()) });
            let libpcap = libpcap.unwrap_or_else(|| "no libpcap".into());
            let text = match environment::is_off() {
                true => libpcap,
                false => format!("{libpcap}, on wirecap {}", env!("CARGO_PKG_VERSION")),
            };
            CString::new(text).unwrap_or_default()
        });
        version.as_ptr()
    })
}
