//! Every flag, declared once: what is here is the help, and what the plan is made from.
//!
//! What one command alone has stands with that command (`capture` here, the others in a `flags.rs` of their own), what several
//! take alike in [`shared`].

mod shared;
mod words;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use wirecap::{Dispatch, Fanout, Mode, Rss, Unmatched};

pub(crate) use self::shared::{
    ConfigFlags, FileFlags, OutputFlags, PoolFlags, PortFlags, SendFlags, SendModeFlag, TimeLimit,
    WorkerFlags, set,
};
pub(crate) use self::words::port_spec;
use crate::{
    exit::Usage,
    forward::flags::ForwardFlags,
    generate::flags::{EXAMPLES as GENERATE_EXAMPLES, GenerateFlags},
    replay::flags::{EXAMPLES as REPLAY_EXAMPLES, ReplayFlags},
    settings::CaptureSettings,
    values::{Cores, Number, choice, cores, count, number},
};

const EXAMPLES: &str = "\
Examples:
  wirecap capture eth1 -w trace.pcapng             until Ctrl-C
  wirecap capture eth1 -c 1000 -w - | tshark -r -  a thousand packets into another program
  wirecap capture eth1 'tcp port 443' -w x.pcapng  only what a filter of tcpdump's language wants
  wirecap capture eth1 eth2 --duration 10s --json  only count, on two interfaces
  wirecap capture eth1 -M 256 -R 500 -T 60 -w x.pcapng --workers 4 --cores 0,2-4
  wirecap capture eth1@0-3 -w half.pcapng          four of its receive queues; others may have the rest
  wirecap capture trace:old.pcap -w new.pcapng    a trace file in the place of an interface
  wirecap forward eth1 eth2                        every packet of one goes out of the other
  wirecap replay old.pcap -i eth1                  a trace file, sent as it was recorded
  wirecap generate -i eth1 --rate 1Mpps            traffic that capture --verify at the other end can judge
  wirecap interfaces                               what there is, and what XDP can do on it

Exit codes:
  0  as asked
  1  it failed, lost an interface or its file, or ended too early; what was captured is kept. With --verify: frames of
     wirecap generate were lost or duplicated, or none came
  2  the command line makes no sense; nothing was done
  3  as asked, but packets were lost: with --fail-on-loss

Signals:
  SIGINT, SIGTERM, SIGHUP  end it: all that was captured is still written. One more gives that up, a third exits at once
  SIGUSR1                  prints the account, or how far it is, and goes on";

/// What the figures of the account mean, under the long help.
const ACCOUNT: &str = "\
The account of each receive queue: seen = filtered + passed + delivered + what was lost
  seen           packets that reached the XDP program, or were read from a trace file
  filtered       packets that the filter did not want
  passed         packets left to the host
  delivered      packets given to workers
  lost           packets lost; those of the following columns that are not 0 say why
  no_free_cell   lost: the pool was used up; raise -R, or have more workers
  rx_ring_full   lost: the kernel's ring was full; leave --ring out
  too_long       lost: longer than a cell, where packets cannot be split; --cell-bytes 4096 (of a trace file: longer
                 than M cells)
  left_at_stop   captured, but taken by no worker before the end
  unexplained    what no other column explains: not there, or a defect of wirecap
  on_the_way     the same before the end: packets that no worker has yet
Of the columns that are 0 in every row only seen, delivered and lost are there. Queues without packets share a row.

The workers:
  packets, bytes  what the worker was given, its own and its buddies'
  offloaded_in    packets of these that it took over from buddies
  offloaded_out   packets of its own queues that buddies took over

An error leaves standard output empty, with --json, too: it is said on standard error.
";

/// Lossless packet capture on multi-queue interfaces, over AF_XDP.
#[derive(Debug, Parser)]
#[command(name = "wirecap", version, after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Capture every packet of one or more interfaces or trace files, into a file or just counted.
    ///
    /// An interface belongs to the capture while it runs: the host does not see its packets. One that the host uses
    /// is left to it and captured beside it (AF_PACKET), both directions. xdp:NAME takes an interface in any case,
    /// packet:NAME leaves it to the host in any case. NAME@0-3 takes these receive queues only: other processes may have
    /// the others at the same time. trace:FILE is a trace file in the place of an interface.
    ///
    /// What follows the interfaces and is none is a filter, in the language of tcpdump (man 7 pcap-filter): it runs in the
    /// kernel where that can be had. Quote it, so that the shell leaves it alone.
    #[command(
        after_help = EXAMPLES,
        after_long_help = format!("{EXAMPLES}\n\n{ACCOUNT}"),
        allow_negative_numbers = true,
        override_usage = "wirecap capture [OPTIONS] <IFACE>... [FILTER]"
    )]
    Capture(Box<CaptureFlags>),
    /// Forward every packet between two interfaces, in both directions, as a cable would.
    ///
    /// Packets are sent from the cells they were captured into: nothing is copied in user space. The interfaces belong to it
    /// while it runs, and are given back at the end.
    Forward(Box<ForwardFlags>),
    /// Generate traffic: frames that `capture --verify` at the other end can tell apart.
    ///
    /// Each frame bears a sequence number and the time at which it was sent. Sending takes no packets from the host, also where
    /// it uses the interface.
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(Box<GenerateFlags>),
    /// Send trace files from an interface: at the speed at which they were recorded, or any other.
    ///
    /// The packets are sent byte for byte as they are in the files, also damaged ones. Needs no address on the interface, and
    /// the host keeps it.
    #[command(after_help = REPLAY_EXAMPLES, override_usage = "wirecap replay [OPTIONS] -i <IFACE> <FILE>...")]
    Replay(Box<ReplayFlags>),
    /// List the interfaces: queues, speed, what XDP can do, and who holds XDP on them now.
    Interfaces(InterfacesFlags),
}

/// What to capture, how, and where to.
#[derive(Debug, Args)]
pub(crate) struct CaptureFlags {
    /// Interfaces, by name or alternative name. xdp:NAME takes one from the host, packet:NAME captures beside it;
    /// NAME@2, NAME@0-3 and NAME@0,2 are receive queues of one. trace:FILE is a trace file (trace:- standard input).
    /// Then, if not everything is wanted, a filter: 'tcp port 443 and net 10.0.0.0/8'.
    #[arg(value_name = "IFACE", required_unless_present_any = ["config", "print_config"])]
    words: Vec<String>,
    /// The filter, for one that could be taken for an interface or a flag.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// What becomes of packets that the filter does not want, on interfaces taken from the host [default: pass, where the
    /// filter runs in the kernel].
    #[arg(long, value_parser = choice::<Unmatched>())]
    unmatched: Option<Unmatched>,

    #[command(flatten)]
    pub(crate) settings: ConfigFlags,
    #[command(flatten)]
    file: FileFlags,
    /// Stop after N packets (10k, 5M and 1G are thousands, millions, billions): exactly N are in the file.
    /// Without -w, what the workers have in hand is counted, too.
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    #[command(flatten)]
    limit: TimeLimit,

    #[command(flatten)]
    pool: PoolFlags,
    /// Entries of the kernel's rings, a power of two [default: as many as the pool has cells].
    #[arg(long, value_name = "N", value_parser = number::<u32>(Number::of("--ring 4096")))]
    ring: Option<u32>,
    /// T: how full a worker's pools are, in percent, when its buddies begin to help (advanced mode)
    /// [default: 60].
    #[arg(short = 'T', value_name = "PERCENT", value_parser = number::<u32>(Number::of("-T 60").from(0).to(100)))]
    threshold_percent: Option<u32>,
    /// Whether workers help each other [default: advanced].
    #[arg(long, value_parser = choice::<Mode>())]
    mode: Option<Mode>,
    /// How chunks get from receive queues to workers [default: pull].
    #[arg(long, value_parser = choice::<Dispatch>())]
    dispatch: Option<Dispatch>,
    #[command(flatten)]
    workers: WorkerFlags,
    /// Number of capture threads (push) [default: 1].
    #[arg(long, value_name = "N", value_parser = number::<u16>(Number::of("--capture-threads 2").from(1).to(u16::MAX.into())))]
    capture_threads: Option<u16>,
    /// Cores for the capture threads (push), in turn [default: not bound].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    capture_cores: Option<Cores>,
    #[command(flatten)]
    port: PortFlags,
    /// How the NIC spreads packets over its receive queues while it is captured [default: keep].
    #[arg(long, value_parser = choice::<Rss>())]
    rss: Option<Rss>,
    /// How packets of an interface that is captured beside the host are spread over the workers [default: hash].
    #[arg(long, value_parser = choice::<Fanout>())]
    fanout: Option<Fanout>,
    /// Leave out packets that are for other stations.
    #[arg(long)]
    no_promiscuous: bool,

    /// Tell what became of frames of `wirecap generate`: lost, duplicated, reordered, and how long they took. Lost or
    /// duplicated frames, or none at all, are exit code 1.
    #[arg(long)]
    verify: bool,
    /// Each run that comes has so many frames, as `wirecap generate` has said: those that are missing at its beginning or end are lost,
    /// too.
    #[arg(long, value_name = "FRAMES", value_parser = count)]
    expect: Option<u64>,
    #[command(flatten)]
    output: OutputFlags,
}

impl CaptureFlags {
    /// The settings in force. `is_interface` says whether there is an interface of that name.
    ///
    /// # Errors
    /// [`Usage`] for words that contradict each other, and for what is wrong in the file.
    pub(crate) fn into_settings(self, is_interface: impl FnMut(&str) -> bool) -> Result<CaptureSettings> {
        let mut settings: CaptureSettings = self.settings.settings()?;
        let CaptureSettings { capture, output } = &mut settings;
        self.pool.apply(capture);
        capture.ring_entries = self.ring.or(capture.ring_entries);
        capture.mode = mode(capture.mode, self.mode, self.threshold_percent)?;
        set(&mut capture.dispatch, self.dispatch);
        self.workers.apply(capture);
        set(&mut capture.capture_threads, self.capture_threads.map(usize::from));
        set(&mut capture.capture_cores, self.capture_cores.map(|cores| cores.0));
        self.port.apply(capture);
        set(&mut capture.rss, self.rss);
        set(&mut capture.fanout, self.fanout);
        capture.promiscuous &= !self.no_promiscuous;
        capture.unmatched = self.unmatched.or(capture.unmatched);
        words::apply(&self.words, self.filter, capture, is_interface)?;

        self.file.apply(output);
        output.count = self.count.or(output.count);
        output.duration = self.limit.duration.or(output.duration);
        output.verify |= self.verify;
        output.expect = self.expect.or(output.expect);
        self.output.apply(output);
        // Counting needs no times. What is written or verified is of no use with wrong ones.
        capture.stamp_packets |= output.keeps_times();
        Ok(settings)
    }
}

/// The mode that the flags make of one.
fn mode(before: Mode, name: Option<Mode>, threshold_percent: Option<u32>) -> Result<Mode> {
    let mode = match (name, before) {
        // Its threshold is kept.
        (Some(Mode::Advanced { .. }) | None, before @ Mode::Advanced { .. }) => before,
        (name, before) => name.unwrap_or(before),
    };
    match (mode, threshold_percent) {
        (Mode::Basic, Some(_)) => {
            Err(Usage("-T is for advanced mode: leave it out, or say --mode advanced".into()).into())
        }
        (Mode::Advanced { .. }, Some(percent)) => Ok(Mode::advanced(percent)?),
        (mode, None) => Ok(mode),
    }
}

/// How the interfaces are listed.
#[derive(Debug, Args)]
pub(crate) struct InterfacesFlags {
    /// Print one JSON array.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use wirecap::{
        Config, PoolSize, Wait,
        config::{Choice, Named},
    };

    use super::*;
    use crate::forward::settings::ForwardSettings;

    #[test]
    fn the_declaration_is_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn the_help_has_every_name_and_default() {
        let mut command = Flags::command();
        let mut help = |name: &str| command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        let (capture, forward) = (help("capture"), help("forward"));
        for Named { name, explanation, .. } in Wait::ALL {
            let line = format!("- {name}:");
            assert!(capture.contains(&line) && forward.contains(&line), "{name}");
            assert!(
                capture.contains(explanation.split([';', ',']).next().unwrap().trim_end_matches('.')),
                "{name}"
            );
        }
        assert!(!capture.contains("trace file, whatever is asked for"), "no flag asks for times of a file");
        let (of_capture, of_forward) = (CaptureSettings::default(), ForwardSettings::default());
        let Config { cells_per_chunk, cell_bytes, dispatch, wait, xdp_mode, rss, fanout, .. } =
            of_capture.capture;
        for default in [
            cells_per_chunk.to_string(),
            cell_bytes.to_string(),
            dispatch.to_string(),
            wait.to_string(),
            xdp_mode.to_string(),
            rss.to_string(),
            fanout.to_string(),
        ] {
            assert!(capture.contains(&format!("[default: {default}]")), "{default}");
        }
        let of_forward = of_forward.capture;
        for default in [of_forward.wait.to_string(), of_forward.transmit_entries.to_string()] {
            assert!(forward.contains(&format!("[default: {default}]")), "{default}");
        }
        for (help, size) in [(capture, of_capture.capture.pool_size), (forward, of_forward.pool_size)] {
            let PoolSize::AtMost(chunks) = size else { unreachable!() };
            assert!(help.contains(&format!("[default: {chunks}, or fewer")), "{chunks}");
        }
    }
}
