//! Making, activating and closing handles.

use std::{
    ffi::{c_char, c_int, c_uint},
    ptr::{self, NonNull},
};

use super::ask_libpcap;
use crate::{
    abi::{ERROR, ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED, ERROR_PROMISC_PERM_DENIED, Opaque},
    account_file,
    edge::catch_panic,
    handle::{Handle, PcapT, without_libpcap},
    libpcap::libpcap,
    live::{Live, device::Device},
    text::{self, write_error},
};

/// The device of this name; `None` if libpcap serves it, which is not to be silent if the engine might.
fn look_up(name: &str) -> Option<Device> {
    Device::look_up(name).unwrap_or_else(|error| {
        account_file::note_unknown(name, &error);
        None
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_create(device: *const c_char, error: *mut c_char) -> *mut PcapT {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        unsafe {
            let Ok(libpcap) = libpcap() else { return without_libpcap(error, ptr::null_mut()) };
            let given = text::read(device);
            let served = given.as_deref().and_then(look_up);
            let name = served.as_ref().map_or(device, |served| served.interface.as_ptr());
            let foreign = (libpcap.pcap_create)(name, error);
            match (NonNull::new(foreign), served) {
                (Some(shadow), Some(device)) => Handle::live(Live::new(libpcap, shadow, device)),
                // Without a name it is the device for all.
                _ => Handle::foreign_of(foreign, given.or_else(|| Some("any".into()))),
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_activate(pointer: *mut PcapT) -> c_int {
    catch_panic(ERROR, || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        let handle = unsafe { Handle::of(pointer) };
        match handle.and_then(|handle| Some((handle, handle.as_live()?))) {
            Some((handle, live)) => live.activate(&handle.error),
            None => ask_libpcap(handle, ERROR, |libpcap, foreign| {
                // SAFETY: as above; the handle is libpcap's own, or null.
                let status = unsafe { (libpcap.pcap_activate)(foreign) };
                let device = handle.filter(|_| status >= 0).and_then(Handle::take_device);
                device.iter().for_each(|device| account_file::note_passed_on(device));
                status
            }),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_close(handle: *mut PcapT) {
    catch_panic((), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        unsafe {
            match (handle.is_null(), libpcap()) {
                (false, _) => Handle::close(handle),
                (true, Ok(libpcap)) => (libpcap.pcap_close)(ptr::null_mut()),
                (true, Err(_)) => {}
            }
        }
    })
}

/// As in libpcap: creates a handle, sets it up and activates it. The error text begins with the device.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_open_live(
    device: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout_ms: c_int,
    error: *mut c_char,
) -> *mut PcapT {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        unsafe {
            let Ok(libpcap) = libpcap() else { return without_libpcap(error, ptr::null_mut()) };
            let name = text::read(device);
            let Some(served) = name.as_deref().and_then(look_up) else {
                let foreign = (libpcap.pcap_open_live)(device, snaplen, promiscuous, timeout_ms, error);
                if !foreign.is_null() {
                    account_file::note_passed_on(name.as_deref().unwrap_or("any"));
                }
                return Handle::foreign(foreign);
            };
            let Some(shadow) = NonNull::new((libpcap.pcap_create)(served.interface.as_ptr(), error)) else {
                return ptr::null_mut();
            };
            let live = Live::new(libpcap, shadow, served);
            (libpcap.pcap_set_timeout)(shadow.as_ptr(), timeout_ms);
            (libpcap.pcap_set_snaplen)(shadow.as_ptr(), snaplen);
            live.settings.timeout_ms.set(timeout_ms);
            live.settings.snaplen.set(snaplen);
            live.settings.promiscuous.set(promiscuous);
            let handle = Handle::live(live);
            let status = pcap_activate(handle);
            if status < 0 {
                let name = name.unwrap_or_default();
                write_error(error, failure(&name, status, handle));
                pcap_close(handle);
                return ptr::null_mut();
            }
            handle
        }
    })
}

/// The text of `pcap_open_live`.
///
/// # Safety
/// The handle was returned by this library and is open.
unsafe fn failure(device: &str, status: c_int, handle: *mut PcapT) -> String {
    // SAFETY: by the caller's promise.
    let detail = unsafe { text::read(super::information::pcap_geterr(handle)) }.unwrap_or_default();
    let meaning = libpcap().ok().and_then(|libpcap| {
        // SAFETY: libpcap returns a constant text for every status.
        unsafe { text::read((libpcap.pcap_statustostr)(status)) }
    });
    let meaning = meaning.unwrap_or_default();
    match status {
        ERROR => format!("{device}: {detail}"),
        ERROR_NO_SUCH_DEVICE | ERROR_PERM_DENIED | ERROR_PROMISC_PERM_DENIED if !detail.is_empty() => {
            format!("{device}: {meaning} ({detail})")
        }
        _ => format!("{device}: {meaning}"),
    }
}

/// Declares functions that make a handle for no device: libpcap does.
macro_rules! opens_dead {
    ($(fn $name:ident($($arg:ident: $Type:ty),+);)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $Type),+) -> *mut PcapT {
                catch_panic(ptr::null_mut(), || match libpcap() {
                    // SAFETY: no pointers go in.
                    Ok(libpcap) => Handle::foreign(unsafe { (libpcap.$name)($($arg),+) }),
                    Err(_) => ptr::null_mut(),
                })
            }
        )+
    };
}

opens_dead! {
    fn pcap_open_dead(link_type: c_int, snaplen: c_int);
    fn pcap_open_dead_with_tstamp_precision(link_type: c_int, snaplen: c_int, precision: c_uint);
}

/// Declares functions that open a savefile: libpcap does.
macro_rules! opens_savefile {
    ($(fn $name:ident($($arg:ident: $Type:ty),+);)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $Type,)+ error: *mut c_char) -> *mut PcapT {
                catch_panic(ptr::null_mut(), || {
                    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
                    unsafe {
                        match libpcap() {
                            Ok(libpcap) => Handle::foreign((libpcap.$name)($($arg,)+ error)),
                            Err(_) => without_libpcap(error, ptr::null_mut()),
                        }
                    }
                })
            }
        )+
    };
}

opens_savefile! {
    fn pcap_open_offline(path: *const c_char);
    fn pcap_open_offline_with_tstamp_precision(path: *const c_char, precision: c_uint);
    fn pcap_fopen_offline(file: *mut Opaque);
    fn pcap_fopen_offline_with_tstamp_precision(file: *mut Opaque, precision: c_uint);
}
