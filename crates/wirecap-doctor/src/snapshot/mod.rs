//! What is known of a machine: plain values, read at one moment.
//!
//! | to read about | open |
//! |---|---|
//! | a network interface | [`interface`] |
//! | processors, memory, the kernel | [`machine`] |
//! | where packets are written | [`disk`] |
//! | what an earlier capture reported | [`account`] |
//!
//! Rule: `None`, or an absent entry, is "unknown": the driver does not say, the file is not there. A snapshot
//! of another version of wirecap is read as far as it is understood.

pub mod account;
pub mod disk;
pub mod interface;
pub mod machine;

use serde::{Deserialize, Serialize};

pub use account::{AccountSettings, CaptureMode, LostPackets, PortAccount, QueueAccount};
pub use disk::{Disk, FileSystem};
pub use interface::{Counters, HostUse, Interface, Interrupt, Napi, Rss, Xdp, XdpProgram};
pub use machine::{CgroupMemory, Clock, Cpus, IdleState, KernelVersion, Machine, Memory, Softirq, Sysctl};

/// The size of a cell unless it is set.
const CELL_BYTES: u32 = 2048;

/// A machine, the interfaces that are examined, and what is planned on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The size of a cell in the planned capture, in bytes.
    pub cell_bytes: u32,
    /// The machine.
    pub machine: Machine,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// Where packets are to be written.
    pub disk: Option<Disk>,
    /// The ports of an earlier capture.
    pub account: Vec<PortAccount>,
    /// Its settings.
    pub account_settings: AccountSettings,
    /// How long its process hardly ran, in seconds.
    pub account_stood_seconds: f64,
}

impl Snapshot {
    /// What the links of the interfaces bring together, in bytes per second; `None` if no speed is known.
    pub fn link_bytes_per_second(&self) -> Option<u64> {
        let links = self.interfaces.iter().filter_map(|interface| interface.speed_mbps);
        links.map(|mbps| u64::from(mbps) * 1_000_000 / 8).reduce(|sum, link| sum + link)
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            cell_bytes: CELL_BYTES,
            machine: Machine::default(),
            interfaces: Vec::new(),
            disk: None,
            account: Vec::new(),
            account_settings: AccountSettings::default(),
            account_stood_seconds: 0.0,
        }
    }
}
