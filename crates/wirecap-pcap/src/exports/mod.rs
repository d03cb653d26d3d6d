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
                            unsafe { (libpcap.$name)(foreign $(, $arg)*) }
                        }
                        $crate::handle::Responder::Engine($engine_handle, $running) => $engine,
                        $crate::handle::Responder::Nobody => $nobody,
                    }
                })
            }
        )+
    };
}

use answered;
