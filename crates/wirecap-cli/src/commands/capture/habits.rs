//! What the flags of tcpdump and dumpcap are here: for the message about a flag that does not exist, and for
//! a page of the book.
//!
//! Rule: each flag of either program is in the table, and means what it means there, or is answered.

use self::{
    Answer::{Instead, Same},
    Program::{Dumpcap, Tcpdump},
};

/// A program that captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Tcpdump,
    Dumpcap,
}

/// What a flag is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The same; with what differs.
    Same(&'static str),
    /// There is no such flag, or it means something else: what to do.
    Instead(&'static str),
}

/// A flag of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habit {
    pub(crate) program: Program,
    /// As on the command line.
    pub(crate) flag: &'static str,
    pub(crate) answer: Answer,
}

const fn habit(program: Program, flag: &'static str, answer: Answer) -> Habit {
    Habit { program, flag, answer }
}

const PRINTED: Answer = Instead(
    "--print prints a line for each packet; for more, pipe them into tcpdump: wirecap capture eth1 -w - | tcpdump -r - -nv",
);
const LINK_TYPE: Answer =
    Instead("the link type is that of the interface; wirecap capture shows it in --json (link_type)");
const MONITOR: Answer =
    Instead("set monitor mode by iw dev wlan0 set type monitor; wirecap captures the interface then");
const CLOCKS: Answer = Instead(
    "--timestamp hardware, kernel or batch chooses the clock; wirecap interfaces lists what a NIC can do",
);

const NAMES: Answer = Instead("a file has the name of its interface");
const LOG: Answer = Instead("-q prints less, --stats more, and 2> FILE keeps the messages");

/// All flags of tcpdump 4.99 and of dumpcap 4.
pub(crate) const HABITS: &[Habit] = &[
    habit(Tcpdump, "-i", Same("-i eth1, or the plain name; several times for several interfaces")),
    habit(Tcpdump, "--interface", Same("the same as -i")),
    habit(Tcpdump, "-D", Same("the same as wirecap interfaces, which has more")),
    habit(Tcpdump, "--list-interfaces", Same("the same as -D")),
    habit(
        Tcpdump,
        "-w",
        Same(
            "the name must end in .pcapng or .pcap, which is the format, or in .zst or .lz4 behind that (compressed); other names \
             are refused: give the file such a name, or write pcapng with -w - > FILE; pipes and devices may have any name",
        ),
    ),
    habit(Tcpdump, "-c", Same("also 10k and 5M")),
    habit(Tcpdump, "--count", Instead("--count is -c here; to count packets, leave -w out")),
    habit(Tcpdump, "-s", Same("0 and the default keep all")),
    habit(Tcpdump, "--snapshot-length", Instead("write -s BYTES, or --snaplen BYTES")),
    habit(Tcpdump, "-p", Same("the same as --no-promiscuous")),
    habit(Tcpdump, "--no-promiscuous-mode", Instead("write -p, or --no-promiscuous")),
    habit(Tcpdump, "-C", Same("-C 100 is 100 million bytes; the number is in front of the extension")),
    habit(Tcpdump, "-G", Same("-G 60 is a minute; 10m and 1h are understood as well")),
    habit(
        Tcpdump,
        "-W",
        Same("with -C a ring from 1, which a later run continues; with -G the end; not with both"),
    ),
    habit(Tcpdump, "-z", Same("it runs for the last file, too; not beside -C -W")),
    habit(Tcpdump, "-F", Same("from # to the end of a line is a comment")),
    habit(Tcpdump, "-Q", Same("in, out or inout; a capture over AF_XDP sees only what comes in")),
    habit(Tcpdump, "--direction", Same("the same as -Q")),
    habit(Tcpdump, "-n", Same("names are never looked up")),
    habit(Tcpdump, "-U", Same("packets are always written at once")),
    habit(Tcpdump, "--packet-buffered", Instead("leave it out: packets are always written at once")),
    habit(Tcpdump, "-l", Same("lines are always printed at once")),
    habit(Tcpdump, "-q", Same("less is printed; --print prints packets")),
    habit(Tcpdump, "-h", Same("help")),
    habit(Tcpdump, "--help", Same("help, in full")),
    habit(Tcpdump, "--version", Instead("write wirecap --version")),
    habit(
        Tcpdump,
        "-B",
        Instead(
            "tcpdump counts -B in KiB; here, as with dumpcap, -B 64 is 64 MiB for all queues together, or write --memory 64M",
        ),
    ),
    habit(Tcpdump, "--buffer-size", Instead("write --memory 64M: all queues together")),
    habit(
        Tcpdump,
        "--immediate-mode",
        Instead(
            "leave it out: workers get packets within 8 ms, or with --wait busy at once; to put several queues in order takes 10 ms more",
        ),
    ),
    habit(
        Tcpdump,
        "-r",
        Instead("a trace file takes the place of an interface: wirecap capture trace:FILE -w out.pcapng"),
    ),
    habit(
        Tcpdump,
        "-V",
        Instead("name the trace files: wirecap capture trace:a.pcap trace:b.pcap -w out.pcapng"),
    ),
    habit(
        Tcpdump,
        "-Z",
        Same("the files belong to that user; the main thread keeps what it needs for giving interfaces back"),
    ),
    habit(Tcpdump, "--relinquish-privileges", Same("the same as -Z")),
    habit(Tcpdump, "-y", LINK_TYPE),
    habit(Tcpdump, "--linktype", LINK_TYPE),
    habit(Tcpdump, "-L", LINK_TYPE),
    habit(Tcpdump, "--list-data-link-types", LINK_TYPE),
    habit(Tcpdump, "-j", CLOCKS),
    habit(Tcpdump, "--time-stamp-type", CLOCKS),
    habit(Tcpdump, "-J", CLOCKS),
    habit(Tcpdump, "--list-time-stamp-types", CLOCKS),
    habit(Tcpdump, "--time-stamp-precision", Instead("leave it out: files always have nanoseconds")),
    habit(Tcpdump, "--nano", Instead("leave it out: files always have nanoseconds")),
    habit(Tcpdump, "--micro", Instead("files always have nanoseconds; editcap converts them")),
    habit(Tcpdump, "-I", MONITOR),
    habit(Tcpdump, "--monitor-mode", MONITOR),
    habit(Tcpdump, "-d", Instead("tcpdump -d shows the program of a filter")),
    habit(Tcpdump, "-O", Instead("filters are always optimised")),
    habit(Tcpdump, "--no-optimize", Instead("filters are always optimised")),
    habit(Tcpdump, "-f", Instead("-f gives the filter here, as with dumpcap")),
    habit(Tcpdump, "-M", Instead("-M is the number of cells per chunk here; tcpdump -r checks digests")),
    habit(Tcpdump, "-T", Instead("-T is a threshold here; tcpdump -r -T interprets packets")),
    habit(Tcpdump, "-A", PRINTED),
    habit(
        Tcpdump,
        "-b",
        Instead("-b begins the next file here, as with dumpcap; tcpdump -r -b prints the numbers of BGP"),
    ),
    habit(Tcpdump, "-e", PRINTED),
    habit(Tcpdump, "-E", PRINTED),
    habit(Tcpdump, "-H", PRINTED),
    habit(Tcpdump, "-K", PRINTED),
    habit(Tcpdump, "--dont-verify-checksums", PRINTED),
    habit(Tcpdump, "-N", PRINTED),
    habit(Tcpdump, "--number", PRINTED),
    habit(Tcpdump, "--print", Same("by tcpdump, beside -w or without it")),
    habit(Tcpdump, "-S", PRINTED),
    habit(Tcpdump, "--absolute-tcp-sequence-numbers", PRINTED),
    habit(Tcpdump, "-t", PRINTED),
    habit(Tcpdump, "-u", PRINTED),
    habit(Tcpdump, "-v", PRINTED),
    habit(Tcpdump, "-m", PRINTED),
    habit(Tcpdump, "-#", PRINTED),
    habit(Tcpdump, "-x", PRINTED),
    habit(Tcpdump, "-X", PRINTED),
    habit(Dumpcap, "-i", Same("-i eth1, or the plain name; by name, not by number")),
    habit(Dumpcap, "-f", Same("the same as --filter, for all interfaces")),
    habit(Dumpcap, "-s", Same("0 and the default keep all")),
    habit(Dumpcap, "-p", Same("the same as --no-promiscuous")),
    habit(Dumpcap, "-B", Same("MiB for all queues together; M and R follow")),
    habit(Dumpcap, "-D", Same("the same as wirecap interfaces, which has more")),
    habit(Dumpcap, "-c", Same("also 10k and 5M")),
    habit(Dumpcap, "-w", Same("the format is that of the extension; without -w, packets are only counted")),
    habit(Dumpcap, "-q", Same("less is printed")),
    habit(Dumpcap, "-h", Same("help")),
    habit(Dumpcap, "-a", Same("duration:, filesize:, files: and packets:; also -a filesize:100M")),
    habit(
        Dumpcap,
        "-b",
        Same(
            "duration:, filesize:, files: and packets:; names have the number, not the time; files: counts those of earlier runs, too",
        ),
    ),
    habit(Dumpcap, "-n", Same("pcapng is the format of FILE.pcapng, and of -w -")),
    habit(Dumpcap, "-P", Instead("write -w FILE.pcap")),
    habit(Dumpcap, "-g", Instead("the group may read files (0640); --file-mode 0600 keeps it out")),
    habit(Dumpcap, "-y", LINK_TYPE),
    habit(Dumpcap, "-L", LINK_TYPE),
    habit(Dumpcap, "-I", MONITOR),
    habit(Dumpcap, "-k", MONITOR),
    habit(Dumpcap, "-d", Instead("tcpdump -d shows the program of a filter")),
    habit(Dumpcap, "-S", Instead("--stats 1s prints the statistics each second")),
    habit(Dumpcap, "-M", Instead("-M is the number of cells per chunk here; --json is for machines")),
    habit(Dumpcap, "-N", Instead("-R and -M, or --memory, limit what waits")),
    habit(Dumpcap, "-C", Instead("-C is the size of files here; --memory limits what waits")),
    habit(Dumpcap, "-t", Instead("--workers N are the threads")),
    habit(Dumpcap, "-v", Instead("write wirecap --version")),
    habit(Dumpcap, "--interface", Same("the same as -i")),
    habit(Dumpcap, "--list-interfaces", Same("the same as -D")),
    habit(Dumpcap, "--snapshot-length", Instead("write -s BYTES, or --snaplen BYTES")),
    habit(Dumpcap, "--no-promiscuous-mode", Instead("write -p, or --no-promiscuous")),
    habit(Dumpcap, "--buffer-size", Instead("write --memory 64M: all queues together")),
    habit(Dumpcap, "--monitor-mode", MONITOR),
    habit(Dumpcap, "--linktype", LINK_TYPE),
    habit(Dumpcap, "--list-data-link-types", LINK_TYPE),
    habit(Dumpcap, "--time-stamp-type", CLOCKS),
    habit(Dumpcap, "--list-time-stamp-types", CLOCKS),
    habit(Dumpcap, "--autostop", Same("the same as -a")),
    habit(Dumpcap, "--ring-buffer", Same("the same as -b")),
    habit(Dumpcap, "--ifname", NAMES),
    habit(Dumpcap, "--ifdescr", NAMES),
    habit(Dumpcap, "--capture-comment", Instead("editcap --capture-comment adds one to a file")),
    habit(Dumpcap, "--temp-dir", Instead("there are no temporary files: name one with -w")),
    habit(Dumpcap, "--log-level", LOG),
    habit(Dumpcap, "--log-fatal", LOG),
    habit(Dumpcap, "--log-domains", LOG),
    habit(Dumpcap, "--log-debug", LOG),
    habit(Dumpcap, "--log-noisy", LOG),
    habit(Dumpcap, "--log-file", LOG),
    habit(Dumpcap, "--version", Instead("write wirecap --version")),
    habit(Dumpcap, "--help", Same("help, in full")),
];

/// What to do instead of using this flag, which there is not.
pub(crate) fn instead_of(flag: &str) -> Option<&'static str> {
    HABITS.iter().filter(|habit| habit.flag == flag).find_map(|habit| match habit.answer {
        Instead(what) => Some(what),
        Same(_) => None,
    })
}
