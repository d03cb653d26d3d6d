//! Reading packets, and breaking it off.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use super::{ask_libpcap, engine_or_libpcap};
use crate::{
    abi::{ERROR, ERROR_BREAK, Handler, PacketHeader},
    edge::catch_panic,
    handle::{Handle, PcapT},
    libpcap::libpcap,
    live::{Live, delivery::AfterDelivery, running::Running},
};

fn live(handle: &Handle) -> &Live {
    handle.as_live().expect("the engine answers for live handles only")
}

/// Delivers packets once, at most `count`; any number if that is not positive.
fn dispatch(handle: &Handle, running: &Running, count: c_int, handler: Handler, user: *mut u8) -> c_int {
    let limit = u32::try_from(count).ok().filter(|&count| count > 0);
    running.deliver(&live(handle).breaker, &handle.error, limit, AfterDelivery::Release, |header, data| {
        // SAFETY: the program has given us a function of this type; header and data are there during the
        // call.
        unsafe { handler(user, header, data) }
    })
}

/// Closes the handle if the program has, while its packets were being delivered.
///
/// # Safety
/// As [`Handle::close`] if it is wanted.
unsafe fn close_if_wanted(is_wanted: bool, pointer: *mut PcapT) {
    if is_wanted {
        // SAFETY: by the caller's promise.
        unsafe { Handle::close(pointer) };
    }
}

engine_or_libpcap! {
    fn pcap_dispatch(pointer, count: c_int, handler: Option<Handler>, user: *mut u8) -> c_int {
        missing ERROR;
        engine(handle, running) => match handler {
            Some(handler) => {
                let status = dispatch(handle, running, count, handler, user);
                // SAFETY: the pointer is the program's, and no reference to the handle is used any more.
                unsafe { close_if_wanted(running.is_closing(), pointer) };
                status
            }
            None => handle.fail(ERROR, "no callback"),
        };
    }
    fn pcap_loop(pointer, count: c_int, handler: Option<Handler>, user: *mut u8) -> c_int {
        missing ERROR;
        engine(handle, running) => match handler {
            Some(handler) => {
                let status = run_loop(handle, running, count, handler, user);
                // SAFETY: as above.
                unsafe { close_if_wanted(running.is_closing(), pointer) };
                status
            }
            None => handle.fail(ERROR, "no callback"),
        };
    }
    fn pcap_next(pointer, header: *mut PacketHeader) -> *const u8 {
        missing ptr::null();
        engine(handle, running) => {
            let next = running.next(&live(handle).breaker, &handle.error);
            let is_closing = running.is_closing();
            let data = match next {
                Ok(Some((place, data))) if !is_closing => {
                    // SAFETY: the program gives room for a header, and the place has one.
                    unsafe { header.write(place.read()) };
                    data
                }
                _ => ptr::null(),
            };
            // SAFETY: as above.
            unsafe { close_if_wanted(is_closing, pointer) };
            data
        };
    }
    fn pcap_next_ex(pointer, header: *mut *mut PacketHeader, data: *mut *const u8) -> c_int {
        missing ERROR;
        engine(handle, running) => {
            // SAFETY: the program gives room for both pointers.
            unsafe { header.write(running.header_place()) };
            let next = running.next(&live(handle).breaker, &handle.error);
            let is_closing = running.is_closing();
            let status = match next {
                Ok(Some(_)) if is_closing => ERROR_BREAK,
                Ok(Some((_, bytes))) => {
                    // SAFETY: as above.
                    unsafe { data.write(bytes) };
                    1
                }
                Ok(None) => 0,
                Err(status) => status,
            };
            // SAFETY: the pointer is the program's, and no reference to the handle is used any more.
            unsafe { close_if_wanted(is_closing, pointer) };
            status
        };
    }
    fn pcap_getnonblock(handle, error: *mut c_char) -> c_int {
        missing ERROR;
        engine(_, running) => {
            let _ = error;
            running.is_nonblocking().into()
        };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_setnonblock(pointer: *mut PcapT, wanted: c_int, error: *mut c_char) -> c_int {
    catch_panic(ERROR, || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        let handle = unsafe { Handle::of(pointer) };
        let live = handle.and_then(Handle::as_live);
        if let Some(running) = live.and_then(Live::running) {
            running.set_nonblocking(wanted != 0);
            return 0;
        }
        // SAFETY: as above; the handle is libpcap's own, or null.
        let status = ask_libpcap(handle, ERROR, |libpcap, foreign| unsafe {
            (libpcap.pcap_setnonblock)(foreign, wanted, error)
        });
        if let Some(live) = live.filter(|_| status == 0) {
            live.settings.is_nonblocking.set(wanted != 0);
        }
        status
    })
}

/// As libpcap: until `count` packets were delivered, an error, or a break.
fn run_loop(handle: &Handle, running: &Running, count: c_int, handler: Handler, user: *mut u8) -> c_int {
    let mut left = count;
    loop {
        match dispatch(handle, running, left, handler, user) {
            0 => {}
            status if status < 0 => return status,
            _ if count <= 0 => {}
            delivered => {
                left -= delivered;
                if left <= 0 {
                    return 0;
                }
            }
        }
    }
}

/// From any thread, and from signal handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_breakloop(handle: *mut PcapT) {
    catch_panic((), || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        let handle = unsafe { Handle::of(handle) };
        match handle.and_then(Handle::as_live).filter(|live| !live.is_passed_on()) {
            Some(live) => live.breaker.break_loop(),
            None => {
                if let Ok(libpcap) = libpcap() {
                    // SAFETY: as above; the handle is libpcap's own, or null.
                    unsafe { (libpcap.pcap_breakloop)(handle.map_or(ptr::null_mut(), Handle::as_foreign)) };
                }
            }
        }
    })
}
