//! The functions that programs call, by what they are about. Those that need no handle are in `libpcap.rs`.
//!
//! Safety, of all of them: pointers are those that <pcap/pcap.h> asks for. A handle is null, or was returned
//! by this library and is not closed; one thread at a time uses it, except in `pcap_breakloop`.

mod data;
mod devices;
mod filters;
mod information;
mod lifecycle;
mod reading;
mod savefiles;
mod sending;
mod settings;

use std::ptr;

use crate::{
    abi::ForeignPcap,
    handle::Handle,
    libpcap::{Loaded, libpcap},
};

/// What a function returns when it fails.
trait Outcome {
    fn is_failure(&self) -> bool;
}

impl Outcome for std::ffi::c_int {
    fn is_failure(&self) -> bool {
        *self < 0
    }
}

impl<T> Outcome for *mut T {
    fn is_failure(&self) -> bool {
        self.is_null()
    }
}

impl<T> Outcome for *const T {
    fn is_failure(&self) -> bool {
        self.is_null()
    }
}

/// Calls libpcap for its handle of the same interface, or for its own; with a null pointer if the program
/// gave one. Returns `missing` on a machine without libpcap.
fn ask_libpcap<T: Outcome>(
    handle: Option<&Handle>,
    missing: T,
    call: impl FnOnce(Loaded, *mut ForeignPcap) -> T,
) -> T {
    let Ok(libpcap) = libpcap() else { return missing };
    let outcome = call(libpcap, handle.map_or(ptr::null_mut(), Handle::as_foreign));
    if let Some(handle) = handle.filter(|_| outcome.is_failure()) {
        handle.note_libpcaps_error();
    }
    outcome
}

/// Declares functions of a handle: while it runs, `engine` is the result; otherwise libpcap is called.
/// `missing` is the result on a machine without libpcap.
macro_rules! engine_or_libpcap {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($pointer:ident $(, $arg:ident: $Type:ty)*) -> $Result:ty {
            missing $missing:expr;
            engine($handle:pat, $running:pat) => $engine:expr;
        }
    )+) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($pointer: *mut $crate::handle::PcapT $(, $arg: $Type)*) -> $Result {
                $crate::edge::catch_panic($missing, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    let given = unsafe { $crate::handle::Handle::of($pointer) };
                    match given.and_then(|handle| Some((handle, handle.as_live()?.running()?))) {
                        Some(($handle, $running)) => $engine,
                        // SAFETY: as above; the handle is libpcap's own, or null.
                        None => $crate::exports::ask_libpcap(given, $missing, |libpcap, foreign| unsafe {
                            (libpcap.$name)(foreign $(, $arg)*)
                        }),
                    }
                })
            }
        )+
    };
}

/// Declares functions for which libpcap is called in every state of a handle.
macro_rules! libpcap_answers {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($pointer:ident $(, $arg:ident: $Type:ty)*) -> $Result:ty, missing $missing:expr;
    )+) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($pointer: *mut $crate::handle::PcapT $(, $arg: $Type)*) -> $Result {
                $crate::edge::catch_panic($missing, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    let given = unsafe { $crate::handle::Handle::of($pointer) };
                    // SAFETY: as above; the handle is libpcap's own, or null.
                    $crate::exports::ask_libpcap(given, $missing, |libpcap, foreign| unsafe {
                        (libpcap.$name)(foreign $(, $arg)*)
                    })
                })
            }
        )+
    };
}

use engine_or_libpcap;
use libpcap_answers;
