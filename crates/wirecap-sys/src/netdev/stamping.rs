//! Timestamps of a NIC: whether it takes any, by which clock, and switching them on.
//!
//! ```text
//!  stamp_abilities(name)   ETHTOOL_GET_TS_INFO   what the driver can stamp; the number of its clock, /dev/ptpN
//!  HardwareStamping        SIOCGHWTSTAMP         what is on, kept
//!                          SIOCSHWTSTAMP         every received packet; what was on before, when this is dropped
//! ```
//!
//! The setting is the NIC's, and a PTP daemon may use it too: the setting for sent packets is left alone, and
//! what the daemon sets during the capture stays.

use std::io;

use libc::{
    HWTSTAMP_FILTER_ALL, SIOCGHWTSTAMP, SIOCSHWTSTAMP, SOF_TIMESTAMPING_RAW_HARDWARE,
    SOF_TIMESTAMPING_RX_HARDWARE, SOF_TIMESTAMPING_RX_SOFTWARE,
};

use super::Interface;
use super::error::{Error, Result};
use super::ethtool::{DriverByIndex, Ethtool, Request};

// linux/ethtool.h; not in libc.
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

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
// SAFETY: as the trait demands: integers, a `u32` first (which is no command here); the kernel copies
// sizeof(struct hwtstamp_config) = 12 bytes in each direction.
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
/// A NIC has one setting for all its users. A process that is killed leaves it on; `hwstamp_ctl -i NAME -r 0`
/// switches it off.
#[derive(Debug)]
#[must_use = "stamping ends when this is dropped"]
pub struct HardwareStamping(SettingGuard<DriverByIndex>);

impl HardwareStamping {
    /// Switches it on. Needs CAP_NET_ADMIN. The NIC is found again by its index, in the calling thread's
    /// network namespace, whatever it is called later.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], and [`Error::System`] where the driver does not stamp every packet, or does
    /// not report its setting, which then could not be restored.
    pub fn enable(interface: &Interface) -> Result<Self> {
        SettingGuard::enable(DriverByIndex::open(interface.ifindex)?).map(Self)
    }

    /// Restores the earlier setting, unless another process has changed it since, or the NIC is gone. After
    /// that, a second call and dropping it do nothing.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::System`]: every packet is still stamped. The message names the
    /// command that restores the setting.
    pub fn restore(&mut self) -> Result<()> {
        self.0.restore()
    }

    /// Leaves it on for a forked process, which restores the setting.
    pub fn abandon(mut self) {
        self.0.changed = None;
    }
}

/// A device with a stamping setting.
trait Device {
    /// The current setting.
    fn get(&mut self) -> io::Result<StampConfig>;

    /// Changes the setting, and updates `config` to what the driver made of it.
    fn set(&mut self, config: &mut StampConfig) -> io::Result<()>;

    /// Its name.
    fn name(&mut self) -> Result<String>;
}

impl DriverByIndex {
    fn config(&mut self, number: libc::c_ulong, config: &mut StampConfig) -> io::Result<()> {
        let name = self.name().map_err(|error| match error {
            Error::NoSuchIndex(_) => io::Error::from_raw_os_error(libc::ENODEV),
            error => io::Error::other(error),
        })?;
        self.ethtool.call(number, &name, config)
    }
}

impl Device for DriverByIndex {
    fn get(&mut self) -> io::Result<StampConfig> {
        let mut config = StampConfig { flags: 0, send_kind: 0, receive_filter: 0 };
        self.config(SIOCGHWTSTAMP, &mut config)?;
        Ok(config)
    }

    fn set(&mut self, config: &mut StampConfig) -> io::Result<()> {
        self.config(SIOCSHWTSTAMP, config)
    }

    fn name(&mut self) -> Result<String> {
        self.name()
    }
}

/// A device that stamps every packet, and what it did before.
#[derive(Debug)]
struct SettingGuard<D: Device> {
    device: D,
    /// What to restore unless another process has changed it. `None` if every packet was stamped anyway, and
    /// once it is restored.
    changed: Option<Change>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    earlier: StampConfig,
    set: StampConfig,
}

impl<D: Device> SettingGuard<D> {
    fn enable(mut device: D) -> Result<Self> {
        let action = format!("switching the timestamps of {} on", device.name()?);
        let refused = |source| Error::refused(action.clone(), "CAP_NET_ADMIN", source);
        let earlier = device.get().map_err(refused)?;
        if earlier.receive_filter == HWTSTAMP_FILTER_ALL {
            return Ok(Self { device, changed: None });
        }
        let mut set = StampConfig { receive_filter: HWTSTAMP_FILTER_ALL, ..earlier };
        device.set(&mut set).map_err(refused)?;
        let guard = Self { device, changed: Some(Change { earlier, set }) };
        // A driver that stamps less than requested reports it in its answer.
        if set.receive_filter != HWTSTAMP_FILTER_ALL {
            let source = io::Error::other("its driver stamps packets of the precision time protocol only");
            return Err(Error::system(action, source));
        }
        Ok(guard)
    }

    fn restore(&mut self) -> Result<()> {
        let Some(Change { mut earlier, set }) = self.changed.take() else { return Ok(()) };
        let current = self.device.get();
        let restored =
            current.and_then(|now| if now == set { self.device.set(&mut earlier) } else { Ok(()) });
        restored.or_else(|source| {
            // When the interface is gone, there is nothing to restore.
            if source.raw_os_error() == Some(libc::ENODEV) {
                return Ok(());
            }
            let name = self.device.name().unwrap_or_else(|_| "NAME".into());
            let filter = earlier.receive_filter;
            let command = format!("hwstamp_ctl -i {name} -r {filter}");
            let action = format!("restoring the timestamp setting of {name}, as `{command}` does");
            Err(Error::refused(action, "CAP_NET_ADMIN", source))
        })
    }
}

impl<D: Device> Drop for SettingGuard<D> {
    fn drop(&mut self) {
        // Callers that need the error call `restore` first.
        let _ = self.restore();
    }
}

#[cfg(test)]
mod tests;
