//! Captures and workers.

use std::{
    ffi::{c_char, c_int, c_uint},
    ptr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use wirecap::{Batch, Builder, Homes, PortSpec, Transmitter, WaitOutcome, Worker};

use super::{
    account::Account,
    batch::BatchHandle,
    handles::{CaptureHandle, WorkerHandle},
};
use crate::{
    edge::{catch_panic, set_errno},
    live::{
        failure,
        options::{self, OptionError, Options},
    },
    text,
};

/// `WIRECAP_ENDED`.
const ENDED: c_int = -2;

/// Why a capture was not opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("{}", failure::describe(.0))]
    Engine(#[from] wirecap::Error),
    #[error("group={0} is for handles of libpcap; several workers of one capture are a group")]
    Group(String),
    #[error("{0}: {1}")]
    Device(String, wirecap::config::PortSpecError),
    #[error("invalid {0:?}: workers takes a whole number, such as workers=4, and keep is 0 or 1")]
    Number(String),
}

fn open(devices: &str, settings: &str) -> Result<CaptureHandle, OpenError> {
    // An expression may have any characters, so it comes last.
    let (settings, filter) = match settings.split_once("filter=") {
        Some((settings, filter)) => (settings, Some(filter.to_owned())),
        None => (settings, None),
    };
    let is_own = |part: &&str| ["workers=", "keep="].iter().any(|own| part.starts_with(own));
    let (own, engine): (Vec<_>, Vec<_>) = settings.split('&').partition(is_own);
    let Options { mut config, group, .. } = options::read(&engine.join("&"))?;
    if let Some(group) = group {
        return Err(OpenError::Group(group));
    }
    for part in own {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let number: usize = value.parse().map_err(|_| OpenError::Number(part.into()))?;
        match name {
            "workers" => config.workers = Some(number),
            _ if number <= 1 => config.keep_packets = number == 1,
            _ => return Err(OpenError::Number(part.into())),
        }
    }
    if config.transmit_entries > 0 {
        // So each worker can send from each device.
        config.homes = Homes::ByQueue;
    }
    config.filter = filter.or(config.filter);
    let ports = devices
        .split_whitespace()
        .map(|name| name.parse::<PortSpec>().map_err(|error| OpenError::Device(name.into(), error)));
    config.ports = ports.collect::<Result<_, _>>()?;
    let mut capture = Builder::from(config).open()?;
    let mut transmitters = capture.take_transmitters();
    let workers = capture.take_workers().into_iter().map(|worker| {
        let is_own = |transmitter: &Transmitter| transmitter.worker() == worker.index();
        let (own, others) = std::mem::take(&mut transmitters).into_iter().partition(is_own);
        transmitters = others;
        Some(WorkerHandle { worker, transmitters: own })
    });
    let (workers, stopper) = (Mutex::new(workers.collect()), capture.stopper());
    Ok(CaptureHandle { stopper, capture: Mutex::new(capture), workers })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_open(
    devices: *const c_char,
    settings: *const c_char,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut CaptureHandle {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program gives strings, or null.
        let (devices, settings) = unsafe { (text::read(devices), text::read(settings)) };
        match open(&devices.unwrap_or_default(), &settings.unwrap_or_default()) {
            Ok(capture) => Box::into_raw(Box::new(capture)),
            Err(failure) => {
                // SAFETY: the program says that there is room for that many bytes.
                unsafe { text::write(error, error_bytes, failure) };
                ptr::null_mut()
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_workers(capture: *const CaptureHandle) -> c_uint {
    // SAFETY: the program gives a capture, or null.
    catch_panic(0, || unsafe { capture.as_ref() }.map_or(0, |capture| capture.workers().len() as c_uint))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_take_worker(capture: *const CaptureHandle, index: c_uint) -> *mut WorkerHandle {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program gives a capture, or null.
        let worker =
            unsafe { capture.as_ref() }.and_then(|capture| capture.workers().get_mut(index as usize)?.take());
        worker.map_or(ptr::null_mut(), |worker| Box::into_raw(Box::new(worker)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_worker_free(worker: *mut WorkerHandle) {
    catch_panic((), || {
        if !worker.is_null() {
            // SAFETY: it is of `wirecap_take_worker`, and freed once.
            drop(unsafe { Box::from_raw(worker) });
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_next_batch(
    worker: *mut WorkerHandle,
    timeout_ms: c_int,
    batch: *mut *mut BatchHandle,
) -> c_int {
    catch_panic(ENDED, || {
        // SAFETY: the program gives a worker, or null, that no other thread uses.
        let Some(worker) = (unsafe { worker.as_mut() }) else { return ENDED };
        match next_batch(&mut worker.worker, timeout_ms) {
            WaitOutcome::Batch(found) => {
                // SAFETY: the program gives room for a pointer.
                unsafe { batch.write(Box::into_raw(Box::new(BatchHandle::new(found)))) };
                1
            }
            WaitOutcome::Idle => 0,
            WaitOutcome::Ended => ENDED,
        }
    })
}

fn next_batch(worker: &mut Worker, timeout_ms: c_int) -> WaitOutcome {
    match u64::try_from(timeout_ms) {
        Ok(timeout_ms) => worker.next_batch_within(Duration::from_millis(timeout_ms)),
        Err(_) => worker.next_batch().map_or(WaitOutcome::Ended, |batch: Batch| WaitOutcome::Batch(batch)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_flush(worker: *mut WorkerHandle) -> c_int {
    catch_panic(-1, || {
        // SAFETY: the program gives a worker, or null, that no other thread uses.
        let Some(worker) = (unsafe { worker.as_mut() }) else { return -1 };
        let mut status = 0;
        for transmitter in &mut worker.transmitters {
            if let Err(error) = transmitter.flush() {
                status = -1;
                set_errno(error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        status
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_look_after(capture: *const CaptureHandle) -> c_uint {
    catch_panic(0, || {
        // SAFETY: the program gives a capture, or null.
        let Some(capture) = (unsafe { capture.as_ref() }) else { return 0 };
        let mut capture = capture.capture();
        let _ = capture.events();
        capture.removed_ports().len() as c_uint
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_stop(capture: *const CaptureHandle) {
    catch_panic((), || {
        // SAFETY: the program gives a capture, or null; a stopper may be used from any thread.
        if let Some(capture) = unsafe { capture.as_ref() } {
            capture.stopper.stop();
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_close(capture: *mut CaptureHandle, account: *mut Account) {
    catch_panic((), || {
        if capture.is_null() {
            return;
        }
        // SAFETY: it is of `wirecap_open`, and freed once.
        let CaptureHandle { capture, workers, .. } = *unsafe { Box::from_raw(capture) };
        drop(workers);
        let report = capture.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
        if !account.is_null() {
            // SAFETY: the program gives room for an account.
            unsafe { account.write(Account::of(&report)) };
        }
    });
}

/// The version of this library; libpcap has no such symbol.
#[unsafe(no_mangle)]
extern "C" fn wirecap_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
