//! The flags of the engine between receive queues and workers, which `wirecap handle` takes, too.

use anyhow::Result;
use clap::Args;
use wirecap::{Config, Dispatch, Mode};

use crate::{
    flags::set,
    values::{ANY, Cores, choice, cores, number},
};

/// How chunks get from receive queues to workers.
#[derive(Debug, Args)]
pub(crate) struct EngineFlags {
    /// Entries of the kernel's rings, a power of two [default: as many as the pool has cells].
    #[arg(long, value_name = "N", value_parser = number::<u32>(ANY, "--ring 4096"))]
    ring: Option<u32>,
    /// T: how full, in percent, a worker's pools are when its buddies begin to help (advanced mode) [default:
    /// 60].
    #[arg(short = 'T', value_name = "PERCENT", value_parser = number::<u32>(0..=100, "-T 60"))]
    threshold_percent: Option<u32>,
    /// Whether workers help each other [default: advanced].
    #[arg(long, value_parser = choice::<Mode>())]
    mode: Option<Mode>,
    /// How chunks get from receive queues to workers [default: pull].
    #[arg(long, value_parser = choice::<Dispatch>())]
    dispatch: Option<Dispatch>,
    /// Number of capture threads (push) [default: 1].
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=u16::MAX.into(), "--capture-threads 2"))]
    capture_threads: Option<u16>,
    /// Cores to pin the capture threads to (push), in turn [default: not pinned].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    capture_cores: Option<Cores>,
}

impl EngineFlags {
    /// Overrides the settings that flags give.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) for a threshold without advanced mode, or an impossible one.
    pub(crate) fn apply(self, config: &mut Config) -> Result<()> {
        config.ring_entries = self.ring.or(config.ring_entries);
        config.mode = mode(config.mode, self.mode, self.threshold_percent)?;
        set(&mut config.dispatch, self.dispatch);
        set(&mut config.capture_threads, self.capture_threads.map(usize::from));
        set(&mut config.capture_cores, self.capture_cores.map(|cores| cores.0));
        Ok(())
    }
}

/// The mode, overridden by the flags.
fn mode(before: Mode, name: Option<Mode>, threshold_percent: Option<u32>) -> Result<Mode> {
    let mode = match (name, before) {
        // Keep its threshold.
        (Some(Mode::Advanced { .. }) | None, before @ Mode::Advanced { .. }) => before,
        (name, before) => name.unwrap_or(before),
    };
    match (mode, threshold_percent) {
        (Mode::Basic, Some(_)) => {
            Err(usage!("-T is for advanced mode: leave it out, or add --mode advanced").into())
        }
        (Mode::Advanced { .. }, Some(percent)) => Ok(Mode::advanced(percent)?),
        (mode, None) => Ok(mode),
    }
}
