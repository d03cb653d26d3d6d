//! Files that packets are written to.

use std::{ffi::c_char, ptr};

use super::libpcap_answers;
use crate::abi::Opaque;

libpcap_answers! {
    fn pcap_dump_open(handle, path: *const c_char) -> *mut Opaque, missing ptr::null_mut();
    fn pcap_dump_open_append(handle, path: *const c_char) -> *mut Opaque, missing ptr::null_mut();
    fn pcap_dump_fopen(handle, file: *mut Opaque) -> *mut Opaque, missing ptr::null_mut();
}
