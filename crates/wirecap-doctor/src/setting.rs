//! Settings that can be changed, and changed back.
//!
//! ```text
//!   Setting: which one ──► Value: what it is ──► Change: from, to
//! ```
//!
//! Rule: a value is everything that the kernel keeps for its setting, as it was read. Writing it back
//! restores the setting exactly. No setting holds a path, so a journal cannot name a file.

use serde::{Deserialize, Serialize};
use wirecap_core::choices;
use wirecap_sys::netdev::{ChannelCounts, Coalescing, PauseFrames, RingSizes};

use crate::snapshot::Sysctl;

/// A setting of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "setting", rename_all = "kebab-case")]
pub enum Setting {
    /// `ethtool -G`
    Rings {
        /// The interface.
        interface: String,
    },
    /// `ethtool -L`
    Channels {
        /// The interface.
        interface: String,
    },
    /// `ethtool -C`
    Coalescing {
        /// The interface.
        interface: String,
    },
    /// `ethtool -A`
    Pause {
        /// The interface.
        interface: String,
    },
    /// `ethtool -K`
    Offload {
        /// The interface.
        interface: String,
        /// The kernel's name.
        name: String,
    },
    /// `ethtool -X`
    RssTable {
        /// The interface.
        interface: String,
    },
    /// A file in `/sys/class/net/NAME`.
    Napi {
        /// The interface.
        interface: String,
        /// The file.
        file: NapiFile,
    },
    /// `/sys/class/net/NAME/queues/rx-N/rps_cpus`
    Rps {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// A file in `/proc/sys`.
    Kernel {
        /// Its name.
        name: Sysctl,
    },
    /// `/proc/irq/N/smp_affinity`
    InterruptMask {
        /// The number of the interrupt.
        number: u32,
    },
    /// How the clock frequency of a processor is chosen.
    Governor {
        /// The processor.
        cpu: u32,
    },
    /// Whether an idle processor avoids a state.
    IdleState {
        /// The processor.
        cpu: u32,
        /// The number of the state.
        state: u32,
    },
}

choices! {
    /// A file in `/sys/class/net/NAME` that says how its queues are polled.
    #[derive(PartialOrd, Ord)]
    pub enum NapiFile {
        /// Empty polls before the interrupt is switched on again.
        DeferHardIrqs = "napi_defer_hard_irqs",
        /// The interval at which the kernel then polls, in nanoseconds.
        GroFlushTimeout = "gro_flush_timeout",
        /// Whether kernel threads poll.
        Threaded = "threaded",
    }
}

/// What changing a setting interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The interface: most drivers restart it, and the link is down for up to some seconds.
    Link,
}

impl Setting {
    /// The interface that it is of.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Rings { interface }
            | Self::Channels { interface }
            | Self::Coalescing { interface }
            | Self::Pause { interface }
            | Self::Offload { interface, .. }
            | Self::RssTable { interface }
            | Self::Napi { interface, .. }
            | Self::Rps { interface, .. } => Some(interface),
            Self::Kernel { .. }
            | Self::InterruptMask { .. }
            | Self::Governor { .. }
            | Self::IdleState { .. } => None,
        }
    }

    /// The same setting of an interface of this name; a setting of the machine stays as it is.
    #[must_use]
    pub(crate) fn of_interface(mut self, name: &str) -> Self {
        match &mut self {
            Self::Rings { interface }
            | Self::Channels { interface }
            | Self::Coalescing { interface }
            | Self::Pause { interface }
            | Self::Offload { interface, .. }
            | Self::RssTable { interface }
            | Self::Napi { interface, .. }
            | Self::Rps { interface, .. } => name.clone_into(interface),
            Self::Kernel { .. }
            | Self::InterruptMask { .. }
            | Self::Governor { .. }
            | Self::IdleState { .. } => {}
        }
        self
    }

    /// What changing it interrupts.
    pub fn disturbs(&self) -> Option<Disturbance> {
        match self {
            Self::Rings { .. } | Self::Channels { .. } | Self::Pause { .. } => Some(Disturbance::Link),
            _ => None,
        }
    }

    /// Whether drivers change it by themselves: the RSS table with the number of queues, coalescing while
    /// that is adaptive, and flow control when the link comes up.
    pub(crate) fn varies(&self) -> bool {
        matches!(self, Self::RssTable { .. } | Self::Coalescing { .. } | Self::Pause { .. })
    }

    /// Whether it is changed only if its rule is asked for by name: it moves queues away from other users, or
    /// costs power.
    pub fn needs_request(&self) -> bool {
        matches!(
            self,
            Self::Channels { .. } | Self::RssTable { .. } | Self::Governor { .. } | Self::IdleState { .. }
        )
    }
}

/// What a setting is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Of [`Setting::Rings`].
    Rings(RingSizes),
    /// Of [`Setting::Channels`].
    Channels(ChannelCounts),
    /// Of [`Setting::Coalescing`].
    Coalescing(Coalescing),
    /// Of [`Setting::Pause`].
    Pause(PauseFrames),
    /// Of [`Setting::Offload`].
    Switch(bool),
    /// Of [`Setting::RssTable`].
    Table(Vec<u32>),
    /// Of settings that are files: what is in it, without the line break.
    Text(String),
}

/// A change of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// What it is.
    pub from: Value,
    /// What it becomes.
    pub to: Value,
}

impl Change {
    /// A change of a setting that is a file.
    pub fn text(setting: Setting, from: impl ToString, to: impl ToString) -> Self {
        Self { setting, from: Value::Text(from.to_string()), to: Value::Text(to.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_back_from_a_line() {
        let name = "r0".to_owned();
        let changes = [
            Change {
                setting: Setting::Rings { interface: name.clone() },
                from: Value::Rings(RingSizes { rx: 512, rx_max: 4096, ..RingSizes::default() }),
                to: Value::Rings(RingSizes { rx: 4096, rx_max: 4096, ..RingSizes::default() }),
            },
            Change {
                setting: Setting::Offload { interface: name.clone(), name: "rx-lro".into() },
                from: Value::Switch(true),
                to: Value::Switch(false),
            },
            Change::text(Setting::Napi { interface: name, file: NapiFile::Threaded }, 1, 0),
            Change::text(Setting::Kernel { name: Sysctl::NetdevBudget }, 300, 600),
            Change {
                setting: Setting::RssTable { interface: "eth1".into() },
                from: Value::Table(vec![0, 0]),
                to: Value::Table(vec![0, 1]),
            },
        ];
        for change in changes {
            let line = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&line).unwrap(), change, "{line}");
        }
    }
}
