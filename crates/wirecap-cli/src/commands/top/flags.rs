//! The flags of `wirecap top`.

use std::{ffi::OsString, time::Duration};

use clap::Args;

use crate::values::duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap top                                      the only capture that runs
  wirecap top uplink                               the capture with this name
  wirecap top eth1                                 the capture of eth1, or a new one if nothing captures it
  wirecap top eth1 eth2 -- -T 40 'tcp port 443'    a capture of its own, with flags of wirecap capture

Keys:
  q, Esc, Ctrl-C   quit
  Ctrl-Z           stop, until fg in the shell continues it
  p, space         pause, resume
  up, down         scroll queues and workers
  home, end        to the first, to the last";

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct TopFlags {
    /// A capture that runs: its process id, its --name, the path of its control socket, or an interface that
    /// it captures. If no capture has the interfaces, the command counts their packets until it ends; an
    /// interface in use by the host is captured alongside it.
    #[arg(value_name = "CAPTURE|IFACE")]
    pub(super) targets: Vec<String>,
    /// The interval between updates: 100ms to 1m.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    pub(super) interval: Duration,
    /// Flags and filter of wirecap capture, for the capture that the command starts.
    #[arg(last = true, value_name = "FLAGS")]
    pub(super) capture: Vec<OsString>,
}
