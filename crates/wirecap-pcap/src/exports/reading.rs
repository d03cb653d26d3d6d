//! Reading packets, and breaking it off.
//!
//! Rule: a function that may wait does so in steps. A step is Rust; between two there is nothing to drop, and
//! the thread may be cancelled. Where libpcap reads, its own function is called from there.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use super::{Outcome, ask_libpcap, engine_or_libpcap};
use crate::{
    abi::{ERROR, ERROR_BREAK, ForeignPcap, Handler, PacketHeader},
    edge::{cancellation_point, catch_panic},
    handle::{Handle, PcapT},
    libpcap::{Loaded, libpcap},
    live::{
        Live,
        delivery::{AfterDelivery, Delivery},
        running::Running,
    },
};

/// What a step of a function that reads has come to.
#[derive(Clone, Copy)]
enum Step<T> {
    /// The function returns this.
    Done(T),
    /// Another step.
    Again,
    /// The handle is libpcap's, which reads from it.
    Libpcap(Loaded, *mut ForeignPcap),
}

/// Why a call in a callback is refused.
const NESTED: &str = "the handle is being read: a callback cannot read from it";

/// Makes a step. The function returns `failed` if the handle was closed during the step, and on a machine
/// without libpcap; `nested` if a callback of the handle has called it.
///
/// # Safety
/// The program keeps the promises of <pcap/pcap.h> for the pointer.
unsafe fn step<T: Copy>(
    pointer: *mut PcapT,
    [failed, nested]: [T; 2],
    read: impl FnOnce(&Handle, &Live, &Running) -> Step<T>,
) -> Step<T> {
    catch_panic(Step::Done(failed), || {
        // SAFETY: by the caller's promise.
        let handle = unsafe { Handle::of(pointer) };
        let live = handle.and_then(Handle::as_live);
        let Some((handle, live, running)) =
            handle.zip(live).and_then(|(handle, live)| Some((handle, live, live.running()?)))
        else {
            let Ok(libpcap) = libpcap() else { return Step::Done(failed) };
            return Step::Libpcap(libpcap, handle.map_or(ptr::null_mut(), Handle::as_foreign));
        };
        let Some(reading) = running.begin_reading() else {
            handle.error.set(NESTED);
            return Step::Done(nested);
        };
        let step = read(handle, live, running);
        // The program has closed it, in a callback or a signal handler.
        let is_closing = running.is_closing();
        drop(reading);
        if !is_closing {
            return step;
        }
        // SAFETY: the pointer is the program's, and no reference to the handle is used any more.
        unsafe { Handle::close(pointer) };
        Step::Done(failed)
    })
}

/// What libpcap has returned; if it failed, its error text becomes the handle's.
///
/// # Safety
/// As [`step`].
unsafe fn noted<T: Outcome>(pointer: *mut PcapT, outcome: T) -> T {
    if outcome.is_failure() {
        catch_panic((), || {
            // SAFETY: by the caller's promise.
            if let Some(handle) = unsafe { Handle::of(pointer) } {
                handle.note_libpcaps_error();
            }
        });
    }
    outcome
}

/// Delivers packets once, at most `count`; any number if that is not positive.
fn dispatch(
    (handle, live, running): (&Handle, &Live, &Running),
    count: c_int,
    handler: Option<Handler>,
    user: *mut u8,
) -> Step<c_int> {
    let Some(handler) = handler else { return Step::Done(handle.fail(ERROR, "no callback")) };
    let limit = u32::try_from(count).ok().filter(|&count| count > 0);
    let (breaker, error) = (&live.breaker, &handle.error);
    let delivery = running.deliver(breaker, error, limit, AfterDelivery::Release, |header, data| {
        // SAFETY: the program has given us a function of this type; header and data are there during the
        // call.
        unsafe { handler(user, header, data) }
    });
    match delivery {
        Delivery::Status(status) => Step::Done(status),
        Delivery::Waits => Step::Again,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_dispatch(
    pointer: *mut PcapT,
    count: c_int,
    handler: Option<Handler>,
    user: *mut u8,
) -> c_int {
    loop {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>; there is nothing to drop here.
        unsafe {
            let step = step(pointer, [ERROR_BREAK, ERROR], |handle, live, running| {
                dispatch((handle, live, running), count, handler, user)
            });
            cancellation_point();
            match step {
                Step::Done(status) => return status,
                Step::Again => {}
                Step::Libpcap(libpcap, foreign) => {
                    return noted(pointer, (libpcap.pcap_dispatch)(foreign, count, handler, user));
                }
            }
        }
    }
}

/// As libpcap: until `count` packets were delivered, an error, or a break.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_loop(
    pointer: *mut PcapT,
    count: c_int,
    handler: Option<Handler>,
    user: *mut u8,
) -> c_int {
    let mut left = count;
    loop {
        // SAFETY: as above.
        unsafe {
            let step = step(pointer, [ERROR_BREAK, ERROR], |handle, live, running| {
                dispatch((handle, live, running), left, handler, user)
            });
            cancellation_point();
            match step {
                Step::Done(status) if status < 0 => return status,
                Step::Done(delivered) if count > 0 => {
                    left -= delivered;
                    if left <= 0 {
                        return 0;
                    }
                }
                Step::Done(_) | Step::Again => {}
                Step::Libpcap(libpcap, foreign) => {
                    return noted(pointer, (libpcap.pcap_loop)(foreign, count, handler, user));
                }
            }
        }
    }
}

/// What `pcap_next_ex` returns, and the packet: its header and its bytes.
#[derive(Clone, Copy)]
struct Next {
    status: c_int,
    header: *mut PacketHeader,
    data: *const u8,
}

impl Next {
    fn none(status: c_int) -> Self {
        Self { status, header: ptr::null_mut(), data: ptr::null() }
    }
}

fn next(handle: &Handle, live: &Live, running: &Running) -> Step<Next> {
    match running.next(&live.breaker, &handle.error) {
        (Delivery::Status(status), data) => Step::Done(Next { status, header: running.header_place(), data }),
        (Delivery::Waits, _) => Step::Again,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_next(pointer: *mut PcapT, header: *mut PacketHeader) -> *const u8 {
    loop {
        // SAFETY: as above; the program gives room for a header.
        unsafe {
            let step =
                step(pointer, [Next::none(ERROR_BREAK), Next::none(ERROR)], |handle, live, running| {
                    let step = next(handle, live, running);
                    match step {
                        Step::Done(next) if !next.data.is_null() => header.write(next.header.read()),
                        _ => {}
                    }
                    step
                });
            cancellation_point();
            match step {
                Step::Done(next) => return next.data,
                Step::Again => {}
                Step::Libpcap(libpcap, foreign) => {
                    return noted(pointer, (libpcap.pcap_next)(foreign, header));
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_next_ex(
    pointer: *mut PcapT,
    header: *mut *mut PacketHeader,
    data: *mut *const u8,
) -> c_int {
    loop {
        // SAFETY: as above; the program gives room for both pointers.
        unsafe {
            let step = step(pointer, [Next::none(ERROR_BREAK), Next::none(ERROR)], next);
            cancellation_point();
            match step {
                Step::Done(next) => {
                    header.write(next.header);
                    if !next.data.is_null() {
                        data.write(next.data);
                    }
                    return next.status;
                }
                Step::Again => {}
                Step::Libpcap(libpcap, foreign) => {
                    return noted(pointer, (libpcap.pcap_next_ex)(foreign, header, data));
                }
            }
        }
    }
}

engine_or_libpcap! {
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
