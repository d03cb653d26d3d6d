//! The functions that programs call, by what they are about. Those that need no handle are in `libpcap.rs`.
//!
//! Safety, of all of them: pointers are those that <pcap/pcap.h> asks for. A handle is null, or was returned
//! by this library and is not closed; one thread at a time uses it, but for `pcap_breakloop`.

mod data;
mod devices;
mod filters;
mod information;
mod lifecycle;
mod reading;
mod savefiles;
mod sending;
mod settings;

/// Declares functions of a handle that is answered for by libpcap, or by the engine: each with what libpcap
/// gets, what the engine does, and what is returned without libpcap.
macro_rules! answered {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($handle:ident $(, $arg:ident: $Type:ty)*) -> $Result:ty {
            else $nobody:expr;
            engine($engine_handle:pat, $running:pat) => $engine:expr;
        }
    )+) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($handle: *mut $crate::handle::PcapT $(, $arg: $Type)*) -> $Result {
                $crate::edge::guarded($nobody, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    match unsafe { $crate::handle::Handle::responder($handle) } {
                        $crate::handle::Responder::Libpcap(libpcap, foreign) => {
                            // SAFETY: as above; the handle is libpcap's own.
                            let result = unsafe { (libpcap.$name)(foreign $(, $arg)*) };
                            // SAFETY: as above.
                            if let Some(handle) = unsafe { $crate::handle::Handle::of($handle) }
                                .filter(|_| $crate::exports::Outcome::is_failure(&result))
                            {
                                handle.note_libpcaps_error();
                            }
                            result
                        }
                        $crate::handle::Responder::Engine($engine_handle, $running) => $engine,
                        $crate::handle::Responder::Nobody => $nobody,
                    }
                })
            }
        )+
    };
}

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

/// Declares functions that libpcap answers in every state, for a handle of ours by its handle of the same
/// interface; each with what is returned without libpcap.
macro_rules! libpcap_answers {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($handle:ident $(, $arg:ident: $Type:ty)*) -> $Result:ty, else $nobody:expr;
    )+) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($handle: *mut $crate::handle::PcapT $(, $arg: $Type)*) -> $Result {
                $crate::edge::guarded($nobody, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    let handle = unsafe { $crate::handle::Handle::of($handle) };
                    let Ok(libpcap) = $crate::libpcap::libpcap() else { return $nobody };
                    let foreign = handle.map_or(std::ptr::null_mut(), $crate::handle::Handle::as_foreign);
                    // SAFETY: as above; the handle is libpcap's own, or null.
                    let result = unsafe { (libpcap.$name)(foreign $(, $arg)*) };
                    if let Some(handle) = handle.filter(|_| $crate::exports::Outcome::is_failure(&result)) {
                        handle.note_libpcaps_error();
                    }
                    result
                })
            }
        )+
    };
}

use answered;
use libpcap_answers;
