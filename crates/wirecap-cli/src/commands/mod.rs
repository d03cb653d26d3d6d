//! The command line: each command, and the help that they share.
//!
//! ```text
//!   commands/NAME/  flags ──► settings or plan ──► run ──► report
//! ```
//!
//! Rule: a flag is declared once, and its doc comment is the help: flags of one command in its folder, those
//! that several commands take alike in `flags`.

pub(crate) mod capture;
pub(crate) mod forward;
pub(crate) mod generate;
pub(crate) mod interfaces;
pub(crate) mod refusal;
pub(crate) mod replay;

use clap::{Parser, Subcommand};

use self::{
    capture::flags::CaptureFlags,
    forward::flags::ForwardFlags,
    generate::flags::{EXAMPLES as GENERATE_EXAMPLES, GenerateFlags},
    interfaces::InterfacesFlags,
    replay::flags::{EXAMPLES as REPLAY_EXAMPLES, ReplayFlags},
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

An error leaves standard output empty, also with --json: it is printed on standard error.
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
    /// An interface belongs to the capture while it runs: the host does not see its packets. One that the
    /// host uses is left to it and captured beside it (AF_PACKET), both directions. xdp:NAME takes an
    /// interface in any case, packet:NAME leaves it to the host in any case. NAME@0-3 takes these receive
    /// queues only: other processes may have the others at the same time. trace:FILE is a trace file in the
    /// place of an interface.
    ///
    /// A filter may follow the interfaces, in the language of tcpdump (man 7 pcap-filter): it runs in the
    /// kernel where that is possible. Quote it, so that the shell leaves it alone.
    #[command(
        after_help = EXAMPLES,
        after_long_help = format!("{EXAMPLES}\n\n{ACCOUNT}"),
        allow_negative_numbers = true,
        override_usage = "wirecap capture [OPTIONS] <IFACE>... [FILTER]"
    )]
    Capture(Box<CaptureFlags>),
    /// Forward every packet between two interfaces, in both directions, as a cable would.
    ///
    /// Packets are sent from the cells they were captured into: nothing is copied in user space. The
    /// interfaces belong to it while it runs, and are given back at the end.
    Forward(Box<ForwardFlags>),
    /// Generate traffic: numbered frames, which `capture --verify` at the other end checks.
    ///
    /// Each frame bears a sequence number and the time at which it was sent. Sending takes no packets from
    /// the host, also where it uses the interface.
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(Box<GenerateFlags>),
    /// Send trace files from an interface: at the speed at which they were recorded, or any other.
    ///
    /// The packets are sent byte for byte as they are in the files, also damaged ones. Needs no address on
    /// the interface, and the host keeps it.
    #[command(after_help = REPLAY_EXAMPLES, override_usage = "wirecap replay [OPTIONS] -i <IFACE> <FILE>...")]
    Replay(Box<ReplayFlags>),
    /// List the interfaces: queues, speed, what XDP can do, and who holds XDP on them now.
    Interfaces(InterfacesFlags),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use wirecap::{
        Config, PoolSize, Wait,
        config::{Choice, Named},
    };

    use super::*;
    use super::{capture::settings::CaptureSettings, forward::settings::ForwardSettings};

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
