//! A live capture: from the name of a device to packets.
//!
//! ```text
//!   device.rs ──► Live: settings ── activation.rs ──► Running ─┬─ delivery.rs: packets, to callbacks
//!                                                              ├─ held.rs: packets that wait, merged by time
//!                  options.rs                                  ├─ sieve.rs, changes.rs: which of them
//!                                                              ├─ selectable.rs: for select(2), poll(2), epoll(7)
//!                                                              ├─ workers.rs, group.rs: from which queues they come
//!                                                              ├─ inject.rs, ring_sender.rs: what the program sends
//!                                                              └─ statistics.rs, account.rs
//! ```

mod account;
pub(crate) mod activation;
mod changes;
mod counts;
pub(crate) mod delivery;
pub(crate) mod device;
pub(crate) mod failure;
pub(crate) mod group;
mod held;
pub(crate) mod inject;
mod last_stat;
pub(crate) mod options;
mod ring_sender;
pub(crate) mod running;
mod selectable;
pub(crate) mod sieve;
pub(crate) mod statistics;
mod workers;

use std::{
    cell::{Cell, OnceCell},
    ffi::c_int,
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use wirecap::Interrupter;

use self::{device::Device, running::Running};
use crate::{abi::ForeignPcap, libpcap::Loaded};

/// A handle for a device that the engine serves.
pub(crate) struct Live {
    pub(crate) libpcap: Loaded,
    /// libpcap's handle of the same interface. Until activation it answers every call; afterwards, the calls
    /// that do not depend on packets. So codes and texts are libpcap's.
    shadow: Cell<NonNull<ForeignPcap>>,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    running: OnceCell<Running>,
    /// libpcap has activated its handle, and captures with it (monitor mode).
    is_passed_on: AtomicBool,
    pub(crate) breaker: Breaker,
}

/// The program's settings before activation, as far as libpcap accepted them.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Snapshot length in bytes.
    pub(crate) snaplen: Cell<c_int>,
    pub(crate) promiscuous: Cell<c_int>,
    pub(crate) monitor: Cell<c_int>,
    /// Bytes; 0 if it is not set.
    pub(crate) buffer_bytes: Cell<c_int>,
    pub(crate) timeout_ms: Cell<c_int>,
    pub(crate) immediate: Cell<c_int>,
    /// `PCAP_TSTAMP_…`.
    pub(crate) timestamp_type: Cell<c_int>,
    /// `PCAP_TSTAMP_PRECISION_…`.
    pub(crate) timestamp_precision: Cell<c_int>,
    /// An Ethernet type; 0 for all.
    pub(crate) protocol: Cell<c_int>,
    pub(crate) is_nonblocking: Cell<bool>,
}

impl Settings {
    fn protocol(&self) -> u16 {
        const ETH_P_ALL: u16 = 3;
        u16::try_from(self.protocol.get()).ok().filter(|&protocol| protocol != ETH_P_ALL).unwrap_or(0)
    }
}

impl Live {
    pub(crate) fn new(libpcap: Loaded, shadow: NonNull<ForeignPcap>, device: Device) -> Self {
        Self {
            libpcap,
            shadow: Cell::new(shadow),
            device,
            settings: Settings::default(),
            running: OnceCell::new(),
            is_passed_on: AtomicBool::new(false),
            breaker: Breaker::default(),
        }
    }

    /// libpcap's handle of the same interface.
    pub(crate) fn shadow(&self) -> *mut ForeignPcap {
        self.shadow.get().as_ptr()
    }

    /// The capture, once it is activated.
    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    pub(crate) fn is_passed_on(&self) -> bool {
        self.is_passed_on.load(Ordering::Relaxed)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let is_activated = self.running.get().is_some() || self.is_passed_on();
        // SAFETY: it is libpcap's own handle, closed once.
        unsafe { close_shadow(self.libpcap, self.shadow(), is_activated) };
    }
}

/// Closes a handle of libpcap's.
///
/// # Safety
/// It is open, and not used any more.
unsafe fn close_shadow(libpcap: Loaded, shadow: *mut ForeignPcap, is_activated: bool) {
    // SAFETY: by the caller's promise.
    unsafe {
        // libpcap 1.10 leaks a descriptor if a handle is closed without an attempt to activate it. This
        // attempt fails, since the interface has no monitor mode, and frees it.
        if !is_activated && (libpcap.pcap_can_set_rfmon)(shadow) == 0 {
            (libpcap.pcap_set_rfmon)(shadow, 1);
            (libpcap.pcap_activate)(shadow);
        }
        (libpcap.pcap_close)(shadow);
    }
}

/// Breaks the loop of a handle, from any thread and from signal handlers.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    is_broken: AtomicBool,
    interrupter: OnceLock<Interrupter>,
}

impl Breaker {
    pub(crate) fn break_loop(&self) {
        self.is_broken.store(true, Ordering::Release);
        if let Some(interrupter) = self.interrupter.get() {
            interrupter.interrupt();
        }
    }

    /// Whether the loop was broken, and has not ended yet.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Whether the loop was broken since the last call.
    pub(crate) fn take(&self) -> bool {
        let is_broken =
            self.is_broken.load(Ordering::Relaxed) && self.is_broken.swap(false, Ordering::Acquire);
        if let Some(interrupter) = self.interrupter.get().filter(|_| is_broken) {
            // It must not end a later wait.
            interrupter.reset();
        }
        is_broken
    }

    pub(crate) fn set_interrupter(&self, interrupter: Interrupter) {
        let _ = self.interrupter.set(interrupter);
    }
}
