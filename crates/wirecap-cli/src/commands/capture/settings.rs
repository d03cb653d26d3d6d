//! The settings of `wirecap capture`.

use serde::{Deserialize, Serialize};
use wirecap::Config;

use crate::{
    settings::{OutputSettings, ProcessSettings, ServiceSettings, Settings, fixed, refuse},
    sources::RefusedSettings,
};

/// The settings of `wirecap capture`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CaptureSettings {
    /// What is captured, and how.
    pub(crate) capture: Config,
    /// What becomes of the packets.
    pub(crate) output: OutputSettings,
    /// What the process may do once everything is open.
    pub(crate) process: ProcessSettings,
    /// How the running capture is reached and supervised.
    pub(crate) service: ServiceSettings,
}

impl Settings for CaptureSettings {
    fn output(&self) -> &OutputSettings {
        &self.output
    }
}

impl CaptureSettings {
    /// Refuses settings that have no effect on a capture.
    ///
    /// # Errors
    /// [`RefusedSettings`] that names the setting.
    pub(crate) fn check(&self) -> Result<(), RefusedSettings> {
        let (config, usual) = (&self.capture, Config::default());
        refuse(
            "capture",
            [
                fixed(
                    "transmit_entries",
                    config.transmit_entries == usual.transmit_entries,
                    "nothing is sent",
                ),
                fixed("allocators", config.allocators == usual.allocators, "nothing is sent"),
                fixed("reach", config.reach == usual.reach, "nothing is sent"),
                fixed("rx_hash", config.rx_hash == usual.rx_hash, "nothing uses the hashes"),
            ],
        )
    }
}
