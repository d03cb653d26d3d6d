//! Filters, and directions.

use std::{
    ffi::{c_char, c_int},
    slice,
};

use super::{engine_or_libpcap, libpcap_answers};
use crate::{
    abi::{BpfProgram, DIRECTION_IN, DIRECTION_INOUT, DIRECTION_OUT, ERROR},
    handle::Handle,
    live::running::Running,
};

libpcap_answers! {
    fn pcap_compile(handle, program: *mut BpfProgram, expression: *const c_char, optimize: c_int, netmask: u32)
        -> c_int, missing ERROR;
}

engine_or_libpcap! {
    fn pcap_setfilter(handle, program: *mut BpfProgram) -> c_int {
        missing ERROR;
        // SAFETY: as above.
        engine(handle, running) => unsafe { set_filter(handle, running, program) };
    }
    fn pcap_setdirection(handle, direction: c_int) -> c_int {
        missing ERROR;
        engine(handle, running) => match direction {
            DIRECTION_INOUT | DIRECTION_IN | DIRECTION_OUT => {
                running.set_direction(direction);
                0
            }
            _ => handle.fail(ERROR, "Invalid direction"),
        };
    }
}

/// # Safety
/// `program` is null or a program of <pcap/bpf.h>.
unsafe fn set_filter(handle: &Handle, running: &Running, program: *const BpfProgram) -> c_int {
    // SAFETY: by the caller's promise.
    let Some(program) = (unsafe { program.as_ref() }) else {
        return handle.fail(ERROR, "setfilter: No filter specified");
    };
    let insns = if program.insns.is_null() {
        &[][..]
    } else {
        // SAFETY: a program points to that number of instructions.
        unsafe { slice::from_raw_parts(program.insns, program.len as usize) }
    };
    match running.set_filter(insns) {
        Ok(()) => 0,
        // libpcap says no more.
        Err(_) => handle.fail(ERROR, "BPF program is not valid"),
    }
}
