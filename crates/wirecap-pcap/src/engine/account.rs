//! The account.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use wirecap::{QueueAccount, Report};

use super::handles::CaptureHandle;
use crate::edge::catch_panic;

/// `struct wirecap_account`.
#[repr(C)]
pub(super) struct Account {
    seen: u64,
    filtered: u64,
    passed: u64,
    delivered: u64,
    lost: u64,
    no_free_cell: u64,
    no_free_block: u64,
    rx_ring_full: u64,
    too_long: u64,
    left_at_stop: u64,
    dropped_before_xdp: u64,
    unexplained: i64,
}

impl Account {
    pub(super) fn of(report: &Report) -> Self {
        let total = report.total();
        let unexplained = total.unexplained();
        let QueueAccount { seen, filtered, passed, delivered, lost } = total;
        Self {
            seen,
            filtered,
            passed,
            delivered,
            lost: lost.total(),
            no_free_cell: lost.no_free_cell,
            no_free_block: lost.no_free_block,
            rx_ring_full: lost.rx_ring_full,
            too_long: lost.too_long,
            left_at_stop: lost.left_at_stop,
            dropped_before_xdp: report.ports.iter().map(|port| port.dropped_before_xdp).sum(),
            unexplained,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_get_account(capture: *const CaptureHandle, account: *mut Account) {
    catch_panic((), || {
        // SAFETY: the program gives a capture, or null, and room for an account.
        if let Some(capture) = unsafe { capture.as_ref() } {
            let report = capture.capture().report();
            // SAFETY: as above.
            unsafe { account.write(Account::of(&report)) };
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_report_json(capture: *const CaptureHandle) -> *mut c_char {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program gives a capture, or null.
        let report = unsafe { capture.as_ref() }.map(|capture| capture.capture().report());
        let text = report.and_then(|report| serde_json::to_string(&report).ok());
        text.and_then(|text| CString::new(text).ok()).map_or(ptr::null_mut(), CString::into_raw)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_text_free(text: *mut c_char) {
    catch_panic((), || {
        if !text.is_null() {
            // SAFETY: it is of `wirecap_report_json`, and freed once.
            drop(unsafe { CString::from_raw(text) });
        }
    });
}
