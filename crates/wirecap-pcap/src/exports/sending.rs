//! Packets are sent.

use std::{
    ffi::{c_int, c_void},
    io, slice,
};

use nix::errno::Errno;

use super::engine_or_libpcap;
use crate::{abi::ERROR, handle::Handle, live::running::Running};

engine_or_libpcap! {
    fn pcap_inject(handle, packet: *const c_void, len: usize) -> c_int {
        missing ERROR;
        engine(handle, running) => {
            if len > c_int::MAX as usize {
                let error = io::Error::last_os_error();
                return handle.fail(ERROR, format_args!("More than {} bytes cannot be injected: {}", c_int::MAX, errno_text(&error)));
            }
            if len == 0 {
                let error = errno_text(&io::Error::last_os_error());
                return handle.fail(ERROR, format_args!("The number of bytes to be injected must not be zero: {error}"));
            }
            // SAFETY: the program says that there are that many bytes.
            unsafe { send(handle, running, packet.cast(), len) }
        };
    }
    fn pcap_sendpacket(handle, packet: *const u8, len: c_int) -> c_int {
        missing ERROR;
        engine(handle, running) => match usize::try_from(len) {
            // SAFETY: as above.
            Ok(len) if len > 0 => unsafe { send(handle, running, packet, len) }.min(0),
            _ => {
                let error = io::Error::last_os_error();
                handle.fail(ERROR, format_args!("The number of bytes to be sent must be positive: {}", errno_text(&error)))
            }
        };
    }
}

/// # Safety
/// There are `len` bytes at `packet`, at least one.
unsafe fn send(handle: &Handle, running: &Running, packet: *const u8, len: usize) -> c_int {
    // SAFETY: by the caller's promise.
    match running.send(unsafe { slice::from_raw_parts(packet, len) }) {
        Ok(sent) => sent as c_int,
        Err(error) => {
            let status = handle.fail(ERROR, format_args!("send: {}", errno_text(&error)));
            // Programs look at it as behind send(2), which a transmit ring does not call.
            Errno::from_raw(error.raw_os_error().unwrap_or(0)).set();
            status
        }
    }
}

/// As strerror(3) words it.
fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
