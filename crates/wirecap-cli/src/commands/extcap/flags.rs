//! The flags of `wirecap extcap`: those of Wireshark, and the settings in its dialogue.

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use clap::Args;
use wirecap::{Config, Mode, PoolSize};

use crate::{
    exit::Usage,
    flags::set,
    values::{ANY, bytes, number},
};

/// A call by Wireshark.
#[derive(Debug, Args)]
pub(crate) struct ExtcapFlags {
    /// List the interfaces.
    #[arg(long, group = "action")]
    extcap_interfaces: bool,
    /// The version of Wireshark.
    #[arg(long, value_name = "VERSION")]
    extcap_version: Option<String>,
    /// List the link types of the interface.
    #[arg(long, group = "action")]
    extcap_dlts: bool,
    /// List the settings of the interface.
    #[arg(long, group = "action")]
    extcap_config: bool,
    /// The interface, as it was listed.
    #[arg(long, value_name = "IFACE")]
    extcap_interface: Option<String>,
    /// The filter; without --capture it is checked.
    #[arg(
        long = "extcap-capture-filter",
        id = "extcap_capture_filter",
        value_name = "FILTER",
        allow_hyphen_values = true
    )]
    pub(super) filter: Option<String>,
    /// Capture into a pipe.
    #[arg(long, group = "action", requires = "fifo")]
    capture: bool,
    /// The pipe.
    #[arg(long, value_name = "FILE")]
    fifo: Option<OsString>,
    /// Take the interface from the host.
    #[arg(long)]
    pub(super) take: bool,
    /// M, cells per chunk.
    #[arg(long, value_name = "CELLS", value_parser = number::<u32>(ANY, "--cells-per-chunk 256"))]
    cells_per_chunk: Option<u32>,
    /// R, chunks per receive queue.
    #[arg(long, value_name = "CHUNKS", value_parser = number::<u32>(ANY, "--chunks-per-queue 128"))]
    chunks_per_queue: Option<u32>,
    /// T: how full, in percent, a worker's pools are when its buddies begin to help.
    #[arg(long, value_name = "PERCENT", value_parser = number::<u32>(0..=100, "--threshold 60"))]
    threshold: Option<u32>,
    /// Keep at most this many bytes of each packet; 0 keeps all.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = bytes("--snaplen 128"))]
    pub(super) snaplen: u32,
    /// Capture packets addressed to other stations, too: true or false.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    promiscuous: bool,
}

/// What Wireshark asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action<'f> {
    Interfaces,
    LinkTypes,
    Settings,
    Check(&'f str),
    Capture { interface: &'f str, pipe: &'f OsStr },
}

impl ExtcapFlags {
    /// What is asked for.
    ///
    /// # Errors
    /// [`Usage`] if that is nothing.
    pub(super) fn action(&self) -> Result<Action<'_>, Usage> {
        if self.extcap_interfaces {
            return Ok(Action::Interfaces);
        }
        let interface = self.extcap_interface.as_deref().ok_or_else(|| {
            usage!("wirecap extcap is for Wireshark, which runs it: see the chapter on Wireshark")
        })?;
        match (&self.fifo, &self.filter) {
            _ if self.extcap_dlts => Ok(Action::LinkTypes),
            _ if self.extcap_config => Ok(Action::Settings),
            (Some(pipe), _) if self.capture => Ok(Action::Capture { interface, pipe }),
            (_, Some(filter)) => Ok(Action::Check(filter)),
            _ => Err(usage!(
                "write what to do with {interface}: --extcap-dlts, --extcap-config, or --capture --fifo FILE"
            )),
        }
    }

    /// Stores the settings of the dialogue.
    ///
    /// # Errors
    /// The threshold is out of range.
    pub(super) fn apply(&self, config: &mut Config) -> Result<()> {
        set(&mut config.cells_per_chunk, self.cells_per_chunk);
        // Wireshark sends the default of the dialogue as well, which stays bounded by the memory of the host.
        let is_default = |chunks: &u32| config.pool_size == PoolSize::AtMost(*chunks);
        let chunks = self.chunks_per_queue.filter(|chunks| !is_default(chunks));
        set(&mut config.pool_size, chunks.map(PoolSize::Chunks));
        set(&mut config.mode, self.threshold.map(Mode::advanced).transpose()?);
        config.promiscuous = self.promiscuous;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Call {
        #[command(flatten)]
        flags: ExtcapFlags,
    }

    fn config(arguments: &[&str]) -> Config {
        let call = Call::try_parse_from([&["wirecap"], arguments].concat()).unwrap();
        let mut config = Config::default();
        call.flags.apply(&mut config).unwrap();
        config
    }

    #[test]
    fn the_defaults_of_the_dialogue_are_those_of_the_library() {
        let usual = ["--chunks-per-queue", "128", "--cells-per-chunk", "256", "--threshold", "60"];
        assert_eq!(config(&usual), Config::default());
        assert_eq!(config(&["--chunks-per-queue", "64"]).pool_size, PoolSize::Chunks(64));
    }
}
