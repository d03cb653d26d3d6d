//! Settings of a handle, before it is activated. libpcap checks them; the engine is opened with those that it
//! accepts.

use std::{cell::Cell, ffi::c_int};

use super::ask_libpcap;
use crate::{
    abi::ERROR,
    edge::catch_panic,
    handle::{Handle, PcapT},
    live::Settings,
};

/// Declares functions that set something. `field` keeps the value that libpcap has accepted.
macro_rules! setters {
    ($(fn $name:ident => $field:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(pointer: *mut PcapT, value: c_int) -> c_int {
                catch_panic(ERROR, || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    let handle = unsafe { Handle::of(pointer) };
                    let status = ask_libpcap(handle, ERROR, |libpcap, foreign| {
                        // SAFETY: as above; the handle is libpcap's own, or null.
                        unsafe { (libpcap.$name)(foreign, value) }
                    });
                    if let Some(live) = handle.and_then(Handle::as_live).filter(|_| status == 0) {
                        let field: fn(&Settings) -> &Cell<c_int> = $field;
                        field(&live.settings).set(value);
                    }
                    status
                })
            }
        )+
    };
}

setters! {
    fn pcap_set_snaplen => |settings| &settings.snaplen;
    fn pcap_set_promisc => |settings| &settings.promiscuous;
    fn pcap_set_rfmon => |settings| &settings.monitor;
    fn pcap_set_buffer_size => |settings| &settings.buffer_bytes;
    fn pcap_set_tstamp_type => |settings| &settings.timestamp_type;
    fn pcap_set_protocol_linux => |settings| &settings.protocol;
    fn pcap_set_timeout => |settings| &settings.timeout_ms;
    fn pcap_set_immediate_mode => |settings| &settings.immediate;
    fn pcap_set_tstamp_precision => |settings| &settings.timestamp_precision;
}
