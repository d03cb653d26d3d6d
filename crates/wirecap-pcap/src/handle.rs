//! What a `pcap_t` of this library points to.
//!
//! ```text
//!   Handle ─┬─ Foreign: a handle of libpcap: savefiles, dead handles, devices that the engine does not serve
//!           └─ Live ─┬─ not activated: libpcap's handle of the same interface answers
//!                    ├─ running: the engine answers for packets, that handle for the rest
//!                    └─ passed on: that handle captures (monitor mode)
//! ```
//!
//! Rule: only shared references to an open handle are made. A callback may call functions of the handle that
//! calls it. `pcap_breakloop` may run in other threads and in signal handlers, so it uses atomics only.

use std::{
    cell::Cell,
    ffi::{c_char, c_int},
    ptr::{self, NonNull},
};

use crate::{
    abi::ForeignPcap,
    libpcap::libpcap,
    live::Live,
    text::{self, ErrorText, write_error},
};

/// What `pcap_t` is to programs, which do not look into it.
pub(crate) type PcapT = Handle;

/// What a `pcap_t` points to.
pub(crate) struct Handle {
    kind: Kind,
    /// The device of a handle of libpcap, until it is activated.
    device: Cell<Option<String>>,
    pub(crate) error: ErrorText,
}

enum Kind {
    Foreign(NonNull<ForeignPcap>),
    Live(Box<Live>),
}

impl Handle {
    /// A handle for one of libpcap's; null if that is null.
    pub(crate) fn foreign(handle: *mut ForeignPcap) -> *mut PcapT {
        NonNull::new(handle).map_or(ptr::null_mut(), |handle| Self::new(Kind::Foreign(handle)))
    }

    /// A handle for one of libpcap's, for this device; null if that is null.
    pub(crate) fn foreign_of(handle: *mut ForeignPcap, device: Option<String>) -> *mut PcapT {
        NonNull::new(handle)
            .map_or(ptr::null_mut(), |handle| Self::with_device(Kind::Foreign(handle), device))
    }

    pub(crate) fn live(live: Live) -> *mut PcapT {
        Self::new(Kind::Live(Box::new(live)))
    }

    fn new(kind: Kind) -> *mut PcapT {
        Self::with_device(kind, None)
    }

    fn with_device(kind: Kind, device: Option<String>) -> *mut PcapT {
        Box::into_raw(Box::new(Self { kind, device: Cell::new(device), error: ErrorText::new() }))
    }

    /// The device of a handle of libpcap that is being activated.
    pub(crate) fn take_device(&self) -> Option<String> {
        self.device.take()
    }

    /// The handle that a program has given.
    ///
    /// # Safety
    /// `pointer` is null or a handle that this library returned and that is not closed; it is not closed
    /// during `'h`.
    pub(crate) unsafe fn of<'h>(pointer: *const PcapT) -> Option<&'h Self> {
        // SAFETY: by the caller's promise.
        unsafe { pointer.as_ref() }
    }

    /// The live handle that it is.
    pub(crate) fn as_live(&self) -> Option<&Live> {
        match &self.kind {
            Kind::Live(live) => Some(live),
            Kind::Foreign(_) => None,
        }
    }

    /// libpcap's handle: its own, or that of the same interface.
    pub(crate) fn as_foreign(&self) -> *mut ForeignPcap {
        match &self.kind {
            Kind::Foreign(handle) => handle.as_ptr(),
            Kind::Live(live) => live.shadow(),
        }
    }

    /// Closes it.
    ///
    /// # Safety
    /// `pointer` is a handle that this library returned and that is not closed. It is closed now.
    ///
    /// While packets are being delivered, in a callback or a signal handler, the call that delivers them
    /// closes it at its end.
    pub(crate) unsafe fn close(pointer: *mut PcapT) {
        // SAFETY: by the caller's promise.
        let live = unsafe { Self::of(pointer) }.and_then(Self::as_live);
        let reading =
            live.and_then(|live| Some((live, live.running().filter(|running| running.is_reading())?)));
        if let Some((live, running)) = reading {
            running.close_later();
            live.breaker.break_loop();
            return;
        }
        // SAFETY: `new` made it by `Box::into_raw`, and it is closed once.
        let handle = unsafe { Box::from_raw(pointer) };
        if let Kind::Foreign(foreign) = handle.kind {
            if let Ok(libpcap) = libpcap() {
                // SAFETY: libpcap's own handle, closed once.
                unsafe { (libpcap.pcap_close)(foreign.as_ptr()) };
            }
        }
    }

    /// The text of the last error, where programs read it.
    pub(crate) fn error_text(&self) -> *mut c_char {
        let answers = self.as_live().is_some_and(|live| live.running().is_some());
        match libpcap() {
            // SAFETY: it is libpcap's own handle, and open.
            Ok(libpcap) if !answers && !self.error.is_set() => unsafe {
                (libpcap.pcap_geterr)(self.as_foreign())
            },
            _ => self.error.as_ptr(),
        }
    }

    /// Makes libpcap's error text the last one, after a call of libpcap has failed.
    pub(crate) fn note_libpcaps_error(&self) {
        match (self.as_live().filter(|live| live.running().is_some()), libpcap()) {
            (Some(live), Ok(libpcap)) => {
                // SAFETY: it is libpcap's own handle, and open.
                let text = unsafe { text::read((libpcap.pcap_geterr)(live.shadow())) };
                self.error.set(text.unwrap_or_default());
            }
            // `error_text` returns libpcap's own.
            _ => self.error.clear(),
        }
    }

    /// Records an error, and returns its code.
    pub(crate) fn fail(&self, status: c_int, text: impl std::fmt::Display) -> c_int {
        self.error.set(text);
        status
    }
}

/// Writes into the program's buffer why libpcap is missing.
///
/// # Safety
/// As [`write_error`].
pub(crate) unsafe fn without_libpcap<T>(buffer: *mut c_char, failed: T) -> T {
    if let Err(reason) = libpcap() {
        // SAFETY: by the caller's promise.
        unsafe { write_error(buffer, reason) };
    }
    failed
}
