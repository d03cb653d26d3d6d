//! Files that packets are written to: libpcap writes them, for a handle of the same link type.

use std::{ffi::c_char, ptr};

use super::answered;
use crate::{abi::Opaque, handle::Handle, live::running::Running, text};

/// Has libpcap open a file for its handle of the same packets.
fn opened(handle: &Handle, running: &Running, open: impl FnOnce() -> *mut Opaque) -> *mut Opaque {
    let dumper = open();
    if dumper.is_null() {
        // SAFETY: it is libpcap's own handle, and open.
        let reason = unsafe { text::read((running.libpcap().pcap_geterr)(running.dead())) };
        handle.error.set(reason.unwrap_or_default());
    }
    dumper
}

answered! {
    fn pcap_dump_open(handle, path: *const c_char) -> *mut Opaque {
        else ptr::null_mut();
        // SAFETY: the program keeps the promises of <pcap/pcap.h>, and the handle is libpcap's own.
        engine(handle, running) => opened(handle, running, || unsafe {
            (running.libpcap().pcap_dump_open)(running.dead(), path)
        });
    }
    fn pcap_dump_open_append(handle, path: *const c_char) -> *mut Opaque {
        else ptr::null_mut();
        // SAFETY: as above.
        engine(handle, running) => opened(handle, running, || unsafe {
            (running.libpcap().pcap_dump_open_append)(running.dead(), path)
        });
    }
    fn pcap_dump_fopen(handle, file: *mut Opaque) -> *mut Opaque {
        else ptr::null_mut();
        // SAFETY: as above.
        engine(handle, running) => opened(handle, running, || unsafe {
            (running.libpcap().pcap_dump_fopen)(running.dead(), file)
        });
    }
}
