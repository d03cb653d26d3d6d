//! Settings of a handle, before it is activated. libpcap checks them; the engine is opened with those that it
//! accepts.

use std::{cell::Cell, ffi::c_int, ptr};

use crate::{
    abi::ERROR,
    edge::guarded,
    handle::{Handle, PcapT},
    libpcap::libpcap,
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
                    let handle = unsafe { Handle::of(handle) };
                    let Ok(libpcap) = libpcap() else { return ERROR };
                    let foreign = handle.map_or(ptr::null_mut(), Handle::as_foreign);
                    // SAFETY: as above; the handle is libpcap's own, or null.
                    let status = unsafe { (libpcap.$name)(foreign, value) };
                    let Some(handle) = handle else { return status };
                    if status < 0 {
                        handle.note_libpcaps_error();
                    }
                    if let Some(live) = handle.as_live().filter(|_| status == 0) {
                        let field: fn(&Settings) -> &Cell<c_int> = $field;
                        field(&live.settings).set(value);
                    }
                    status
                })
            }
        )+
    };
}

sets! {
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
