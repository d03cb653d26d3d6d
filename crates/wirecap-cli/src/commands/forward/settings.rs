//! The settings of `wirecap forward`: its rules, and those of the capture that it is based on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wirecap::{Config, Grouping, Homes, Mode, PoolSize, Reach, Wait};
use wirecap_core::choices;
use wirecap_headers::{Ttl, VlanMap};

use crate::{
    settings::{OutputSettings, ProcessSettings, ServiceSettings, Settings, fixed, refuse, text},
    sources::RefusedSettings,
};

/// The settings of `wirecap forward`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ForwardSettings {
    /// What is captured, and how; some of it cannot be chosen.
    pub(crate) capture: Config,
    /// What is forwarded, and how.
    pub(crate) forward: ForwardRules,
    /// What else becomes of the packets.
    pub(crate) output: OutputSettings,
    /// What the process may do once everything is open.
    pub(crate) process: ProcessSettings,
    /// How the running capture is reached and supervised.
    pub(crate) service: ServiceSettings,
}

impl Default for ForwardSettings {
    fn default() -> Self {
        let capture = Config {
            // A buddy would send packets of a queue while others of that queue are on the way.
            mode: Mode::Basic,
            homes: Homes::ByQueue,
            reach: Reach::Worker,
            pool_size: PoolSize::AtMost(32),
            wait: Wait::Block,
            transmit_entries: 2048,
            ..Config::default()
        };
        Self {
            capture,
            forward: ForwardRules::default(),
            output: OutputSettings::default(),
            process: ProcessSettings::default(),
            service: ServiceSettings::default(),
        }
    }
}

impl Settings for ForwardSettings {
    const FIXED_KEYS: &'static [&'static str] = &["mode"];

    fn output(&self) -> &OutputSettings {
        &self.output
    }
}

impl ForwardSettings {
    /// Refuses settings that do not apply to forwarding.
    pub(super) fn check(&self) -> Result<(), RefusedSettings> {
        let usual = Self::default();
        let (config, needed) = (&self.capture, &usual.capture);
        let by_rules = "pass and drop in [forward] select packets";
        let in_order = "packets of a queue stay in order only if one worker sends them";
        refuse(
            "forward",
            [
                fixed("filter", config.filter.is_none(), by_rules),
                fixed("unmatched", config.unmatched.is_none(), by_rules),
                fixed("mode", config.mode == needed.mode, in_order),
                fixed("dispatch", config.dispatch == needed.dispatch, in_order),
                fixed("grouping", config.grouping == Grouping::All, in_order),
                fixed("homes", config.homes == needed.homes, in_order),
                fixed("reach", config.reach == needed.reach, "a worker sends what its own queues receive"),
                fixed(
                    "allocators",
                    config.allocators == needed.allocators,
                    "their number follows from the number of workers",
                ),
                fixed("rx_hash", !config.rx_hash, "nothing uses the hashes"),
                fixed(
                    "count",
                    self.output.count.is_none(),
                    "it counts packets that are only written or captured",
                ),
                fixed(
                    "copy_to",
                    self.output.copy_interface().is_none(),
                    "packets are sent on already; a pipe may have a copy of the file",
                ),
                fixed(
                    "file_per_queue",
                    !self.output.file_per_queue,
                    "one file has the packets of both directions",
                ),
                fixed(
                    "verify",
                    !self.output.verify && self.output.expect.is_none(),
                    "verify at the end of the wire",
                ),
            ],
        )
    }
}

/// What is forwarded, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ForwardRules {
    /// Forward only packets that match this filter.
    pub(crate) pass: Option<String>,
    /// Drop packets that match this filter.
    pub(crate) drop: Option<String>,
    /// What happens to a packet for which the other port has no room.
    pub(crate) on_full: FullRingPolicy,
    /// Translation of VLANs between the two sides.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) vlan: Option<VlanMap>,
    /// What becomes of the TTL. `None`: a cable keeps it, a router decrements it.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) ttl: Option<Ttl>,
    /// A file of routes; without it, there is a cable between two interfaces.
    pub(crate) route: Option<PathBuf>,
    /// `IFACE=MAC`: the source address of packets that leave by the interface.
    pub(crate) set_source: Vec<String>,
    /// `IFACE=MAC`: the destination address of packets that leave by the interface.
    pub(crate) set_destination: Vec<String>,
    /// Whether to complete checksums that a sender left to its NIC.
    pub(crate) checksums: Checksums,
}

choices! {
    /// What happens to a packet for which the other port's ring has no room.
    pub(crate) enum FullRingPolicy = Wait {
        /// Wait for room, while the pools buffer packets.
        Wait = "wait",
        /// Drop and count it.
        Drop = "drop",
    }
}

choices! {
    /// Whether to complete checksums that a sender left to its NIC.
    pub(crate) enum Checksums = Auto {
        /// Complete them on veth and virtio, where a sender may have left them; leave packets of NICs
        /// unchanged.
        Auto = "auto",
        /// Change nothing.
        Keep = "keep",
        /// Complete them on every port.
        Complete = "complete",
    }
}
