//! Timestamps of a NIC: whether it takes any, by which clock, and switching them on.
//!
//! ```text
//!  stamp_abilities(name)   ETHTOOL_GET_TS_INFO   what the driver can stamp; the number of its clock, /dev/ptpN
//!  HardwareStamping        SIOCGHWTSTAMP         what is on, kept
//!                          SIOCSHWTSTAMP         every received packet; what was on before, when this is dropped
//!
//! The setting is the NIC's, and a PTP daemon has its own wishes: what it sends is left as it is, and what it sets meanwhile
//! stays.
//! ```

use std::io;

use super::Interface;
use super::error::{Error, Result};
use super::ethtool::{Ethtool, Request};

// linux/ethtool.h, linux/sockios.h and linux/net_tstamp.h; not in libc.
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
const SOF_TIMESTAMPING_RX_HARDWARE: u32 = 1 << 2;
const SOF_TIMESTAMPING_RX_SOFTWARE: u32 = 1 << 3;
const SOF_TIMESTAMPING_RAW_HARDWARE: u32 = 1 << 6;
const HWTSTAMP_FILTER_ALL: u32 = 1;

/// `struct ethtool_ts_info`
#[repr(C)]
struct TimestampInfo {
    command: u32,
    abilities: u32,
    /// Number of its clock, or -1.
    clock: i32,
    send_kinds: u32,
    send_reserved: [u32; 3],
    receive_filters: u32,
    receive_reserved: [u32; 3],
}
const _: () = assert!(size_of::<TimestampInfo>() == 44);

/// `struct hwtstamp_config`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StampConfig {
    flags: u32,
    send_kind: u32,
    receive_filter: u32,
}
const _: () = assert!(size_of::<StampConfig>() == 12);

// SAFETY: as the trait demands; the kernel copies sizeof(struct ethtool_ts_info) = 44 bytes.
unsafe impl Request for TimestampInfo {}
// SAFETY: as the trait demands: integers, a `u32` first (which is no command here); the kernel copies sizeof(struct
// hwtstamp_config) = 12 bytes in each direction.
unsafe impl Request for StampConfig {}

/// What a driver can stamp of what it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampAbilities {
    /// The NIC stamps packets.
    pub hardware: bool,
    /// It can stamp every packet, not only those of the precision time protocol.
    pub all_packets: bool,
    /// The kernel stamps packets when the driver hands them over.
    pub software: bool,
    /// Number of the NIC's clock: `/dev/ptp` and this.
    pub clock: Option<u32>,
}

/// What the driver of an interface says it can stamp; nothing, if it does not say.
///
/// # Errors
/// [`Error::System`] if there is no socket to ask through.
pub fn stamp_abilities(interface: &str) -> Result<StampAbilities> {
    let mut info = TimestampInfo::new(ETHTOOL_GET_TS_INFO);
    if Ethtool::open()?.ask(interface, &mut info).is_none() {
        return Ok(StampAbilities::default());
    }
    Ok(StampAbilities::of(&info))
}

impl StampAbilities {
    fn of(info: &TimestampInfo) -> Self {
        const HARDWARE: u32 = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
        Self {
            hardware: info.abilities & HARDWARE == HARDWARE,
            all_packets: info.receive_filters & (1 << HWTSTAMP_FILTER_ALL) != 0,
            software: info.abilities & SOF_TIMESTAMPING_RX_SOFTWARE != 0,
            clock: u32::try_from(info.clock).ok(),
        }
    }
}

/// Keeps a NIC stamping every packet it receives as long as it lives.
///
/// A NIC has one setting for all its users. A process that is killed leaves it on; `hwstamp_ctl -i NAME -r 0` switches it
/// off.
#[derive(Debug)]
#[must_use = "stamping ends when this is dropped"]
pub struct HardwareStamping {
    ethtool: Ethtool,
    interface: String,
    /// What is given back, as long as nobody has set something else: what was on before, and what was set then. `None` if
    /// every packet was stamped anyway.
    changed: Option<Change>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    earlier: StampConfig,
    set: StampConfig,
}

impl HardwareStamping {
    /// Switches it on. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], and [`Error::System`] where the driver does not stamp every packet, or does not say what
    /// is on: it could not be given back.
    pub fn enable(interface: &Interface) -> Result<Self> {
        let name = &interface.name;
        let ethtool = Ethtool::open()?;
        let action = || format!("switching the timestamps of {name} on");
        let refused = |source| explain(action(), source);
        let earlier = current(&ethtool, name).map_err(refused)?;
        if earlier.receive_filter == HWTSTAMP_FILTER_ALL {
            return Ok(Self { ethtool, interface: name.clone(), changed: None });
        }
        let mut set = StampConfig { receive_filter: HWTSTAMP_FILTER_ALL, ..earlier };
        ethtool.call(SIOCSHWTSTAMP, name, &mut set).map_err(refused)?;
        let stamping = Self { ethtool, interface: name.clone(), changed: Some(Change { earlier, set }) };
        // A driver that stamps less than it was asked for says so in its answer.
        if set.receive_filter != HWTSTAMP_FILTER_ALL {
            let source = io::Error::other("its driver stamps packets of the precision time protocol only");
            return Err(Error::system(action(), source));
        }
        Ok(stamping)
    }
}

impl Drop for HardwareStamping {
    fn drop(&mut self) {
        let Some(Change { mut earlier, set }) = self.changed else { return };
        // When the interface is gone there is nothing to give back.
        if current(&self.ethtool, &self.interface).is_ok_and(|current| current == set) {
            let _ = self.ethtool.call(SIOCSHWTSTAMP, &self.interface, &mut earlier);
        }
    }
}

/// What is on.
fn current(ethtool: &Ethtool, interface: &str) -> io::Result<StampConfig> {
    let mut config = StampConfig { flags: 0, send_kind: 0, receive_filter: 0 };
    ethtool.call(SIOCGHWTSTAMP, interface, &mut config)?;
    Ok(config)
}

fn explain(action: String, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted { action, capability: "CAP_NET_ADMIN" },
        _ => Error::system(action, source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(abilities: u32, clock: i32, receive_filters: u32) -> TimestampInfo {
        TimestampInfo { abilities, clock, receive_filters, ..TimestampInfo::new(ETHTOOL_GET_TS_INFO) }
    }

    #[test]
    fn abilities_are_read_bit_by_bit() {
        let software = StampAbilities { software: true, ..StampAbilities::default() };
        assert_eq!(StampAbilities::of(&info(0b11010, -1, 0)), software);
        // A stamp that cannot be had as the NIC took it is none.
        assert!(!StampAbilities::of(&info(0b0000100, 0, 0b11)).hardware);
        let all = StampAbilities { hardware: true, all_packets: true, software: true, clock: Some(3) };
        assert_eq!(StampAbilities::of(&info(0b1011111, 3, 0b11)), all);
        assert!(!StampAbilities::of(&info(0b1011111, 3, 0b01)).all_packets, "only 'none' is a filter");
    }

    #[test]
    fn the_loopback_interface_is_stamped_by_software_and_cannot_be_switched_on() {
        let abilities = stamp_abilities("lo").unwrap();
        assert!(!abilities.hardware && abilities.clock.is_none(), "{abilities:?}");
        let error = HardwareStamping::enable(&super::super::interface("lo").unwrap()).unwrap_err();
        assert!(error.to_string().contains("timestamps of lo"), "{error}");
    }
}
