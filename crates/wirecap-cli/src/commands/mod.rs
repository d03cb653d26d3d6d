//! The command line: the commands, and their common help.
//!
//! ```text
//!   commands/NAME/  flags ──► settings or plan ──► run ──► report
//! ```
//!
//! Rule: a flag is declared once, and its doc comment is the help: in the folder of its command, or in
//! `flags` if several commands share it.

pub(crate) mod capture;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod extcap;
pub(crate) mod forward;
pub(crate) mod generate;
pub(crate) mod handle;
pub(crate) mod help;
pub(crate) mod interfaces;
pub(crate) mod profile;
pub(crate) mod refusal;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod size;
pub(crate) mod top;
pub(crate) mod version;

use clap::{Parser, Subcommand};

use self::{
    capture::flags::CaptureFlags,
    control::{rotate::RotateFlags, set::SetFlags, status::StatusFlags, stop::StopFlags},
    doctor::flags::{DoctorFlags, EXAMPLES as DOCTOR_EXAMPLES},
    extcap::flags::ExtcapFlags,
    forward::flags::ForwardFlags,
    generate::flags::{EXAMPLES as GENERATE_EXAMPLES, GenerateFlags},
    handle::flags::{EXAMPLES as HANDLE_EXAMPLES, HandleFlags},
    interfaces::InterfacesFlags,
    profile::flags::{EXAMPLES as PROFILE_EXAMPLES, ProfileFlags},
    replay::flags::{EXAMPLES as REPLAY_EXAMPLES, ReplayFlags},
    run::flags::{EXAMPLES as RUN_EXAMPLES, RunFlags},
    size::flags::{EXAMPLES as SIZE_EXAMPLES, SizeFlags},
    top::flags::{EXAMPLES as TOP_EXAMPLES, TopFlags},
};

const EXAMPLES: &str = "\
Examples:
  wirecap capture eth1 -w trace.pcapng             until Ctrl-C
  wirecap capture eth1 -c 1000 -w - | tshark -r -  a thousand packets into another program
  wirecap capture eth1 'tcp port 443' -w x.pcapng  only packets that match a tcpdump filter
  wirecap capture eth1 eth2 --duration 10s --json  only count, on two interfaces
  wirecap capture eth1 -M 256 -R 500 -T 60 -w x.pcapng --workers 4 --cores 0,2-4
  wirecap capture eth1@0-3 -w half.pcapng          four of its receive queues; others may capture the rest
  wirecap capture trace:old.pcap -w new.pcapng    a trace file instead of an interface
  wirecap forward eth1 eth2                        every packet of one interface leaves by the other
  wirecap replay old.pcap -i eth1                  a trace file, sent as it was recorded
  wirecap generate -i eth1 --rate 1Mpps            traffic that capture --verify can check at the other end
  wirecap run tcpdump -i eth1                      a libpcap program on the engine, unchanged
  wirecap top eth1                                 rates, pools and losses, live in the terminal
  wirecap profile eth1                             packets per receive queue in bins of 10 ms, and how uneven they are
  wirecap handle eth1 -x 300                       a slow application: the WireCAP paper's pkt_handler
  wirecap interfaces                               the interfaces, and what XDP can do on each
  wirecap doctor eth1                              settings of this machine that cost packets, and what helps

Exit codes:
  0  as asked
  1  it failed, lost an interface or its file, or ended too early; what was captured is kept. With --verify: frames of
     wirecap generate were lost or duplicated, or none came
  2  the command line, or a file of settings or routes, is wrong; nothing was done
  3  as asked, but packets were lost: with --fail-on-loss
  4  as asked, but wirecap doctor found a problem or a warning: with --fail-on-findings

Signals:
  SIGINT, SIGTERM, SIGHUP  end the command: what was captured is still written. A second signal, at least a second
                           after the first, gives that up, a third exits at once
  SIGUSR1                  prints the account or the progress; the command continues";

/// The meaning of the figures of the account, for the long help.
const ACCOUNT: &str = "\
The account of each receive queue: seen = filtered + passed + delivered + what was lost
  seen           packets that reached the XDP program, on a passive port the program of the tap or the socket,
                 or were read from a trace file
  filtered       packets that did not match the filter
  passed         packets left to the host
  delivered      packets given to workers
  lost           packets lost; the following columns say why
  no_free_cell   lost: the pool was used up; raise -R, or have more workers
  no_free_block  the same where packets lie in blocks: in the modes packed, tap and packet
  rx_ring_full   lost: the kernel's ring was full; leave --ring out
  too_long       lost: longer than a cell, where packets cannot be split; --cell-bytes 4096 (of a trace file: longer
                 than M cells)
  left_at_stop   captured, but not taken by a worker before the end
  unexplained    packets that no other column explains; a defect of wirecap
  on_the_way     before the end, in its place: packets that no worker has yet
Of the columns that are 0 in every row, only seen, delivered and lost are printed. Queues without packets share a row.

The workers:
  packets, bytes  what the worker got, from its own queues and from buddies
  offloaded_in    of these, packets that it took over from buddies
  offloaded_out   packets of its own queues that buddies took over

When a command cannot start, standard output stays empty, also with --json: the error is on standard error.
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
    /// Capture every packet of one or more interfaces or trace files, into a file or only counted.
    ///
    /// An interface belongs to the capture while it runs: the host does not see its packets. An interface
    /// that the host uses is left to it and captured beside it, in both directions. xdp:NAME always takes an
    /// interface, tap:NAME and packet:NAME always leave it to the host. NAME@0-3 takes only these receive
    /// queues: other processes may capture the others at the same time. trace:FILE is a trace file instead of
    /// an interface.
    ///
    /// A filter in the language of tcpdump (man 7 pcap-filter) may follow the interfaces: it runs in the
    /// kernel where possible. Quote it, so that the shell leaves it alone.
    #[command(
        after_help = EXAMPLES,
        after_long_help = format!("{EXAMPLES}\n\n{ACCOUNT}"),
        allow_negative_numbers = true,
        override_usage = "wirecap capture [OPTIONS] <IFACE>... [FILTER]"
    )]
    Capture(Box<CaptureFlags>),
    /// Forward every packet between two interfaces, in both directions, as a cable would.
    ///
    /// Packets are sent from the cells they were captured into: user space copies nothing. The interfaces
    /// belong to the command while it runs, and are given back at the end.
    Forward(Box<ForwardFlags>),
    /// Generate traffic: numbered frames, which `capture --verify` at the other end checks.
    ///
    /// Each frame has a sequence number and the time at which it was sent. Sending takes no packets from the
    /// host, even where the host uses the interface.
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(Box<GenerateFlags>),
    /// Send trace files from an interface, at the recorded speed or any other.
    ///
    /// The packets are sent byte for byte as they are in the files, even damaged ones. The interface needs no
    /// address and stays with the host.
    #[command(after_help = REPLAY_EXAMPLES, override_usage = "wirecap replay [OPTIONS] -i <IFACE> <FILE>...")]
    Replay(Box<ReplayFlags>),
    /// Profile the receive queues: packets of each in bins of time, and how uneven they are.
    ///
    /// Packets are only counted: in bins of 10 ms, each by its own time. What is uneven is named at the end:
    /// long-term imbalance, a queue with far more than an even share, and short-term imbalance, a queue with
    /// a burst. For a trace file, or with --queues, the queue of each packet is computed as a NIC chooses it
    /// (RSS, Toeplitz).
    #[command(
        after_help = PROFILE_EXAMPLES,
        allow_negative_numbers = true,
        override_usage = "wirecap profile [OPTIONS] <IFACE>... [FILTER]"
    )]
    Profile(Box<ProfileFlags>),
    /// Handle packets as a slow application does: a filter N times for each, or a given pace.
    ///
    /// This is pkt_handler and multi_pkt_handler of the WireCAP paper: each thread takes packets from its
    /// receive queues, applies a filter -x times to each, and drops them or sends them on. With --pace it
    /// sleeps instead, so more threads than cores can be studied. Batches keep their cells until they are
    /// handled, so pools fill as they would behind an application of that speed.
    #[command(
        after_help = HANDLE_EXAMPLES,
        allow_negative_numbers = true,
        override_usage = "wirecap handle [OPTIONS] <-x <N>|--pace <PPS>> <IFACE>... [FILTER]"
    )]
    Handle(Box<HandleFlags>),
    /// Run a program that captures by libpcap, unchanged, with the engine in libpcap's place.
    ///
    /// Ethernet interfaces are captured by the engine: beside the host if the host uses them. Files, any, lo
    /// and other devices are served by libpcap itself. The program's exit code is the command's.
    #[command(after_help = RUN_EXAMPLES, override_usage = "wirecap run [OPTIONS] [--] <PROGRAM> [ARGUMENTS]...")]
    Run(RunFlags),
    /// Answer Wireshark and tshark, which run this command through a link to it.
    ///
    /// The link is in the directory that tshark -G folders shows as the Extcap path.
    Extcap(Box<ExtcapFlags>),
    /// List the captures that run, or print the account of one.
    ///
    /// CAPTURE is a process id, a --name or the path of a control socket. With it, the account so far is
    /// printed as the capture prints it on SIGUSR1.
    Status(StatusFlags),
    /// Show a capture live in the terminal: rates, pools, losses, helping workers, talkers.
    ///
    /// Watching does not slow down a running capture, which continues when the command ends. If no capture
    /// has the interfaces, the command captures on them until it ends, and only counts packets.
    #[command(after_help = TOP_EXAMPLES, override_usage = "wirecap top [OPTIONS] [CAPTURE|IFACE]... [-- FLAGS...]")]
    Top(TopFlags),
    /// End a capture as SIGINT does, wait until it has ended, and print how it ended.
    ///
    /// The exit code is that of the capture.
    Stop(StopFlags),
    /// Begin the next file of a capture that writes a series (-C, -G).
    ///
    /// Packets that arrive from now on go to the next file; all earlier ones are in the previous file, which
    /// is complete when the command ends.
    Rotate(RotateFlags),
    /// Change settings of a capture that runs.
    ///
    /// The capture prints each change, and records it in its account.
    Set(SetFlags),
    /// List the interfaces: queues, speed, what XDP can do, and which programs are attached.
    Interfaces(InterfacesFlags),
    /// Compute how large pools have to be for some traffic, by simulation.
    ///
    /// The engine's own core runs in virtual time, with packets that come at a constant rate and workers of a
    /// constant pace. Nothing is captured, and no privilege is needed. The exit code is 1 if no pool is
    /// large enough.
    #[command(after_help = SIZE_EXAMPLES)]
    Size(SizeFlags),
    /// Examine the settings of this machine that cost packets, and change them if asked.
    ///
    /// Reads the settings of the interfaces, the processors, the kernel and the disk, and reports what costs
    /// packets: the evidence, the cost, the remedy, and the way back. Nothing is changed without --fix.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Box<DoctorFlags>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use wirecap::{
        Config, PoolSize, Wait,
        config::{Choice, NamedValue},
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
        for NamedValue { name, explanation, .. } in Wait::ALL {
            let line = format!("- {name}:");
            assert!(capture.contains(&line) && forward.contains(&line), "{name}");
            assert!(
                capture.contains(explanation.split([';', ',']).next().unwrap().trim_end_matches('.')),
                "{name}"
            );
        }
        assert!(!capture.contains("trace file, whatever is asked for"), "no flag asks for times of a file");
        let (of_capture, of_forward) = (CaptureSettings::default(), ForwardSettings::default());
        let Config { cells_per_chunk, cell_bytes, dispatch, wait, xdp_mode, rss, tap_hook, .. } =
            of_capture.capture;
        for default in [
            cells_per_chunk.to_string(),
            cell_bytes.to_string(),
            dispatch.to_string(),
            wait.to_string(),
            xdp_mode.to_string(),
            rss.to_string(),
            tap_hook.to_string(),
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
