//! Settings of a handle, before it is activated. libpcap checks them on its own handle; what it takes, the
//! engine is opened with.

use std::{cell::Cell, ffi::c_int};

use super::answered;
use crate::{
    abi::{ACTIVATED, ERROR, ERROR_ACTIVATED},
    edge::guarded,
    handle::{Handle, PcapT, Responder},
    live::Settings,
};

/// Declares functions that set something. `field` of the settings notes what libpcap has taken.
macro_rules! sets {
    ($(fn $name:ident => $field:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(handle: *mut PcapT, value: c_int) -> c_int {
                guarded(ERROR, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    match unsafe { Handle::responder(handle) } {
                        Responder::Engine(handle, _) => handle.fail(ERROR_ACTIVATED, ACTIVATED),
                        Responder::Nobody => ERROR,
                        Responder::Libpcap(libpcap, foreign) => {
                            // SAFETY: as above; the handle is libpcap's own.
                            let status = unsafe { (libpcap.$name)(foreign, value) };
                            // SAFETY: as above.
                            let handle = unsafe { Handle::of(handle) };
                            if let Some(handle) = handle {
                                handle.error.clear();
                                if let Some(live) = handle.as_live().filter(|_| status == 0) {
                                    let field: fn(&Settings) -> Option<&Cell<c_int>> = $field;
                                    if let Some(field) = field(&live.settings) {
                                        field.set(value);
                                    }
                                }
                            }
                            status
                        }
                    }
                })
            }
        )+
    };
}

sets! {
    fn pcap_set_snaplen => |settings| Some(&settings.snaplen);
    fn pcap_set_promisc => |settings| Some(&settings.promiscuous);
    fn pcap_set_rfmon => |settings| Some(&settings.monitor);
    fn pcap_set_buffer_size => |settings| Some(&settings.buffer_bytes);
    fn pcap_set_tstamp_type => |settings| Some(&settings.timestamp_type);
    fn pcap_set_protocol_linux => |settings| Some(&settings.protocol);
    // libpcap's handle keeps the precision; a packet is delivered as soon as it is there, so nothing waits
    // for a timeout, and every handle is in immediate mode.
    fn pcap_set_tstamp_precision => |_| None;
    fn pcap_set_timeout => |_| None;
    fn pcap_set_immediate_mode => |_| None;
}

answered! {
    fn pcap_can_set_rfmon(handle) -> c_int {
        else ERROR;
        engine(_, _) => 0;
    }
    fn pcap_get_tstamp_precision(handle) -> c_int {
        else ERROR;
        engine(_, running) => running.precision();
    }
}
