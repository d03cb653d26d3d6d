//! Data that libpcap exports, for programs that were linked to it.

use std::{ffi::c_char, ptr};

/// `struct eproto` of libpcap: the name of an Ethernet type, and its number.
#[repr(C)]
struct EthernetType {
    name: *const c_char,
    number: u16,
}

// SAFETY: the table and its names are constants.
unsafe impl Sync for EthernetType {}

/// libpcap's table of Ethernet types, which ends with an entry without a name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "programs know it by this name")]
static eproto_db: [EthernetType; 13] = [
    EthernetType { name: c"aarp".as_ptr(), number: 0x80f3 },
    EthernetType { name: c"arp".as_ptr(), number: 0x0806 },
    EthernetType { name: c"atalk".as_ptr(), number: 0x809b },
    EthernetType { name: c"decnet".as_ptr(), number: 0x6003 },
    EthernetType { name: c"ip".as_ptr(), number: 0x0800 },
    EthernetType { name: c"ip6".as_ptr(), number: 0x86dd },
    EthernetType { name: c"lat".as_ptr(), number: 0x6004 },
    EthernetType { name: c"loopback".as_ptr(), number: 0x9000 },
    EthernetType { name: c"mopdl".as_ptr(), number: 0x6001 },
    EthernetType { name: c"moprc".as_ptr(), number: 0x6002 },
    EthernetType { name: c"rarp".as_ptr(), number: 0x8035 },
    EthernetType { name: c"sca".as_ptr(), number: 0x6007 },
    EthernetType { name: ptr::null(), number: 0 },
];

/// libpcap's version as text. libpcap's manual recommends `pcap_lib_version` instead.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "programs know it by this name")]
static pcap_version: [u8; 7] = *b"1.10.0\0";
