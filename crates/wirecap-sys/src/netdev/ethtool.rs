//! What the driver says of itself, by the SIOCETHTOOL ioctl.
//!
//! ```text
//!  ifreq { name, data ──► request struct, which begins with the command and is overwritten with the answer }
//! ```
//!
//! A driver may leave any of these questions open (the loopback interface answers none), and one that is
//! suspended or being removed answers with all kinds of errors. None of that makes an interface unusable for
//! capture, so each answer is an `Option`: `None` is "the driver does not say".

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use super::attributes::{Driver, QueueSource, Queues};
use super::error::{Error, Result};
use super::link::{self, Selector, text};
use super::netlink::Conversation;
use crate::interface_name::MAX_NAME_BYTES;
use crate::socket_option;

// linux/ethtool.h; not in libc.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
/// `ETH_FLAG_RXVLAN`
const FLAG_RX_VLAN: u32 = 1 << 8;
const SPEED_UNKNOWN: u32 = u32::MAX;

/// Most 32-bit words a bit map of link modes can have: the count is a signed byte.
const MAX_LINK_MODE_WORDS: usize = i8::MAX as usize;

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    /// From `erom_version` to `regdump_len`.
    not_read: [u8; 64],
}
const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_channels`
#[repr(C)]
struct ChannelInfo {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}
const _: () = assert!(size_of::<ChannelInfo>() == 36);

/// `struct ethtool_link_settings` with room for the three largest bit maps (supported, advertising,
/// partner's).
#[repr(C)]
struct LinkSettings {
    command: u32,
    speed_mbps: u32,
    /// From `duplex` to `eth_tp_mdix_ctrl`.
    not_read: [u8; 7],
    link_mode_words: i8,
    /// From `transceiver` to `reserved`.
    nor_these: [u8; 32],
    link_modes: [u32; 3 * MAX_LINK_MODE_WORDS],
}
const _: () = assert!(mem::offset_of!(LinkSettings, link_mode_words) == 15);
const _: () = assert!(mem::offset_of!(LinkSettings, link_modes) == 48);

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}
const _: () = assert!(size_of::<Value>() == 8);

/// The structures that SIOCETHTOOL fills in.
///
/// # Safety
/// The type is `repr(C)`, consists of integers only, begins with the `u32` command, and has at least as many
/// bytes as the kernel reads and writes for the calls that it is passed to.
pub(super) unsafe trait Request: Sized {
    /// A request of zeros except for the command.
    fn new(command: u32) -> Self {
        // SAFETY: implementors consist of integers, for which all zero bytes are a value.
        let mut request: Self = unsafe { mem::zeroed() };
        // SAFETY: implementors begin with the `u32` command and are `repr(C)`, so a pointer to one is aligned
        // for u32.
        unsafe { (&raw mut request).cast::<u32>().write(command) };
        request
    }
}

// SAFETY: as the trait demands; the kernel copies sizeof(struct ethtool_drvinfo) = 196 bytes.
unsafe impl Request for DriverInfo {}
// SAFETY: as the trait demands; the kernel copies sizeof(struct ethtool_channels) = 36 bytes.
unsafe impl Request for ChannelInfo {}
// SAFETY: as the trait demands; the kernel copies sizeof(struct ethtool_value) = 8 bytes.
unsafe impl Request for Value {}
// SAFETY: as the trait demands; the kernel copies 48 bytes and three bit maps of `link_mode_words` words
// each, a number that is the kernel's own when it does so, and at most 127.
unsafe impl Request for LinkSettings {}

/// A socket to ask drivers through, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens the socket. Needs no privilege.
    pub fn open() -> Result<Self> {
        let socket = socket_option::open(libc::AF_INET, libc::SOCK_DGRAM);
        let failed = |source| Error::system("opening a socket to ask network drivers", source);
        socket.map(|socket| Self { socket }).map_err(failed)
    }

    /// Name and bus address of the driver.
    pub fn driver(&self, interface: &str) -> Option<Driver> {
        let mut info = DriverInfo::new(ETHTOOL_GDRVINFO);
        self.ask(interface, &mut info)?;
        let known = |bytes: &[u8]| Some(text(bytes)).filter(|text| !text.is_empty() && text != "N/A");
        Some(Driver {
            name: known(&info.driver)?,
            version: known(&info.version),
            firmware: known(&info.firmware_version),
            bus: known(&info.bus_info),
        })
    }

    /// Receive queues: those with a transmit queue of their own ("combined") and those without.
    pub fn channels(&self, interface: &str) -> Option<Queues> {
        let mut info = ChannelInfo::new(ETHTOOL_GCHANNELS);
        self.ask(interface, &mut info)?;
        let current = info.rx_count.saturating_add(info.combined_count);
        // The two maxima are alternatives in the drivers that have both, so they must not be added.
        let max = info.max_rx.max(info.max_combined).max(current);
        (current > 0).then_some(Queues { current, max, source: QueueSource::Driver })
    }

    /// Whether VLAN tags are taken off packets that come in ("rx-vlan-offload").
    pub fn takes_vlan_tags(&self, interface: &str) -> Option<bool> {
        let mut flags = Value::new(ETHTOOL_GFLAGS);
        self.ask(interface, &mut flags)?;
        Some(flags.data & FLAG_RX_VLAN != 0)
    }

    /// Whether the kernel finishes packets that leave, and not the NIC: it fills in checksums, or cuts up
    /// segments.
    pub fn finishes_in_software(&self, interface: &str) -> Option<bool> {
        let is_on = |command| {
            let mut value = Value::new(command);
            self.ask(interface, &mut value)?;
            Some(value.data != 0)
        };
        // TCP makes long segments whether GSO is on or off (`sk_setup_caps` in net/core/sock.c).
        Some(!is_on(ETHTOOL_GTXCSUM)? || !is_on(ETHTOOL_GTSO)?)
    }

    /// Transmit queues in use: those with a receive queue of their own ("combined") and those without.
    pub fn transmit_queues(&self, interface: &str) -> Option<u32> {
        let mut info = ChannelInfo::new(ETHTOOL_GCHANNELS);
        self.ask(interface, &mut info)?;
        Some(info.tx_count.saturating_add(info.combined_count)).filter(|queues| *queues > 0)
    }

    /// Link speed in Mb/s.
    pub fn speed_mbps(&self, interface: &str) -> Option<u32> {
        let mut settings = LinkSettings::new(ETHTOOL_GLINKSETTINGS);
        self.ask(interface, &mut settings)?;
        // To the first question the kernel answers only how many words its bit maps have, as a negative
        // number; the second has to repeat that number.
        let words = settings.link_mode_words.checked_neg().filter(|words| *words > 0)?;
        settings = LinkSettings::new(ETHTOOL_GLINKSETTINGS);
        settings.link_mode_words = words;
        self.ask(interface, &mut settings)?;
        (settings.speed_mbps != 0 && settings.speed_mbps != SPEED_UNKNOWN).then_some(settings.speed_mbps)
    }

    /// Has the driver fill in `request`; `None` if it refuses.
    pub(super) fn ask<R: Request>(&self, interface: &str, request: &mut R) -> Option<()> {
        self.request(interface, request).ok()
    }

    /// Has the driver do what `request` says, and fill it in.
    pub(super) fn request<R: Request>(&self, interface: &str, request: &mut R) -> io::Result<()> {
        self.call(libc::SIOCETHTOOL, interface, request)
    }

    /// Makes a request of the driver by another ioctl that takes an `ifreq` with a pointer.
    pub(super) fn call<R: Request>(
        &self,
        number: libc::c_ulong,
        interface: &str,
        request: &mut R,
    ) -> io::Result<()> {
        if interface.len() > MAX_NAME_BYTES {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: ifreq is made of integers, and a pointer that may be null.
        let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_data = (&raw mut *request).cast();
        // SAFETY: the name is zero-terminated, having at most IFNAMSIZ - 1 bytes; the data pointer is valid
        // for writes of as much as the kernel writes (trait Request), and outlives the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number as _, &raw mut ifreq) };
        if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The driver of the interface with an index, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct DriverByIndex {
    rtnetlink: Conversation,
    pub ethtool: Ethtool,
    pub ifindex: u32,
}

impl DriverByIndex {
    /// Opens the sockets. Needs no privilege.
    pub fn open(ifindex: u32) -> Result<Self> {
        Ok(Self { rtnetlink: link::open()?, ethtool: Ethtool::open()?, ifindex })
    }

    /// The name of the interface now: the driver has to be asked by it, and it may have changed.
    pub fn name(&mut self) -> Result<String> {
        Ok(link::link(&mut self.rtnetlink, Selector::Index(self.ifindex))?.interface.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_answers_no_question() {
        let ethtool = Ethtool::open().unwrap();
        assert_eq!(ethtool.channels("lo"), None);
        assert_eq!(ethtool.speed_mbps("lo"), None);
    }

    /// The kernel itself answers these.
    #[test]
    fn the_loopback_interface_leaves_packets_unfinished() {
        let ethtool = Ethtool::open().unwrap();
        assert_eq!(ethtool.finishes_in_software("lo"), Some(false));
        assert_eq!(ethtool.finishes_in_software("none0"), None);
    }

    #[test]
    fn a_long_name_is_not_cut() {
        let ethtool = Ethtool::open().unwrap();
        assert!(ethtool.driver("lo_and_a_lot_more_behind_it").is_none());
    }
}
