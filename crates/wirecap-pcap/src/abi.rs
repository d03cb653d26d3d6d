//! Types and numbers of <pcap/pcap.h> and <pcap/bpf.h>, as libpcap 1.10 has them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use wirecap_filter::Insn;

/// A `pcap_t` of the system's libpcap.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ForeignPcap {
    _opaque: [u8; 0],
}

/// `FILE`, `pcap_dumper_t`, `struct addrinfo`, `struct pcap_etherent`: passed on, never looked into.
pub(crate) type Opaque = c_void;

/// `struct pcap_pkthdr`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PacketHeader {
    pub(crate) ts: libc::timeval,
    pub(crate) caplen: u32,
    pub(crate) len: u32,
}

impl PacketHeader {
    pub(crate) const EMPTY: Self = Self { ts: libc::timeval { tv_sec: 0, tv_usec: 0 }, caplen: 0, len: 0 };
}

/// `struct bpf_program`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BpfProgram {
    pub(crate) len: c_uint,
    pub(crate) insns: *mut Insn,
}

/// `struct pcap_stat`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Stat {
    pub(crate) received: c_uint,
    pub(crate) dropped: c_uint,
    pub(crate) dropped_by_interface: c_uint,
}

/// `struct pcap_if`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Interface {
    pub(crate) next: *mut Interface,
    pub(crate) name: *mut c_char,
    pub(crate) description: *mut c_char,
    pub(crate) addresses: *mut Address,
    pub(crate) flags: u32,
}

/// `struct pcap_addr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Address {
    pub(crate) next: *mut Address,
    pub(crate) address: *mut libc::sockaddr,
    pub(crate) netmask: *mut libc::sockaddr,
    pub(crate) broadcast: *mut libc::sockaddr,
    pub(crate) destination: *mut libc::sockaddr,
}

/// `pcap_handler`.
pub(crate) type Handler = unsafe extern "C" fn(*mut u8, *const PacketHeader, *const u8);

/// `PCAP_ERRBUF_SIZE`.
pub(crate) const ERROR_BYTES: usize = 256;

pub(crate) const ERROR: c_int = -1;
pub(crate) const ERROR_BREAK: c_int = -2;
pub(crate) const ERROR_ACTIVATED: c_int = -4;
/// libpcap's text for it.
pub(crate) const ACTIVATED: &str = "can't perform  operation on activated capture";
pub(crate) const ERROR_NO_SUCH_DEVICE: c_int = -5;
pub(crate) const ERROR_PERM_DENIED: c_int = -8;
pub(crate) const ERROR_IFACE_NOT_UP: c_int = -9;
pub(crate) const ERROR_PROMISC_PERM_DENIED: c_int = -11;
pub(crate) const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;

pub(crate) const DIRECTION_INOUT: c_int = 0;
pub(crate) const DIRECTION_IN: c_int = 1;
pub(crate) const DIRECTION_OUT: c_int = 2;

pub(crate) const TSTAMP_HOST: c_int = 0;
pub(crate) const TSTAMP_ADAPTER: c_int = 3;
pub(crate) const TSTAMP_ADAPTER_UNSYNCED: c_int = 4;
pub(crate) const TSTAMP_PRECISION_NANO: c_int = 1;

/// `MAXIMUM_SNAPLEN` of libpcap: a length that is not given, or larger, becomes this one.
pub(crate) const MAX_SNAPLEN: u32 = 262_144;
