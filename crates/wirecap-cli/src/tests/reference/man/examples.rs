//! Examples, written by hand: a command line, and what it is for.
//!
//! Rule: each one is parsed by the command it is for. A command without examples here shows those of its
//! help.

use clap::Command;

use super::help_text::list_of;

/// A command line, and what it is for.
type Example = (&'static str, &'static str);

const CAPTURE: &[Example] = &[
    ("wirecap capture eth1 -w trace.pcapng", "Write every packet of an interface to a file, until Ctrl-C:"),
    (
        "wirecap capture eth1 'tcp port 443 and net 10.0.0.0/8' -w https.pcapng",
        "Only packets that match a filter, which runs in the kernel where possible. Others stay with the host:",
    ),
    (
        "wirecap capture eth1 eth2 --duration 10s --json | jq '[.ports[].queues[].delivered] | add'",
        "Count the packets of two interfaces for ten seconds:",
    ),
    (
        "wirecap capture eth1 -w '/var/tmp/%Y-%m-%d_%H%M.pcapng' -G 10m -C 1G -z gzip",
        "A file for every ten minutes, and a new one before one has more than a gigabyte; each is compressed when it is complete:",
    ),
    (
        "wirecap capture eth1 -w ring.pcapng -C 100 -W 10",
        "Keep the last ten files of 100 million bytes each:",
    ),
    (
        "wirecap capture eth1 -M 256 -R 500 -T 40 --workers 4 --cores 0,2-4 -w trace.pcapng",
        "Larger pools for longer bursts, four workers on cores of their own, and help for a worker from 40 percent on:",
    ),
    (
        "wirecap capture eth1 --file-per-queue -w queue.pcapng",
        "A file for each receive queue, without merging:",
    ),
    (
        "wirecap capture tap:eth0 -c 1000 -w - | tshark -r -",
        "A thousand packets of an interface that the host keeps, into another program:",
    ),
    (
        "wirecap capture eth1@0-3 --fail-on-loss --stats 10s",
        "Four receive queues of an interface; others may capture the rest. Statistics every ten seconds, and exit status 3 if a packet is lost:",
    ),
    (
        "wirecap capture trace:old.pcap 'udp port 53' -w dns.pcapng",
        "A trace file in the place of an interface; needs no privilege:",
    ),
    (
        "wirecap capture --config /etc/wirecap/capture/sensor.toml --duration 1h",
        "Settings from a file, one of which a flag overrides:",
    ),
    ("wirecap capture eth1 --verify", "Verify what wirecap generate sends at the other end:"),
];

const FORWARD: &[Example] = &[
    ("wirecap forward eth1 eth2", "Forward every packet between two interfaces, as a cable would:"),
    (
        "wirecap forward eth1 eth2 --drop 'udp port 53' -w all.pcapng",
        "Drop some packets, and record all that arrive:",
    ),
    (
        "wirecap forward eth1 eth2 --vlan 10=20,none=30",
        "Translate VLANs from one side to the other, and back:",
    ),
    (
        "wirecap forward eth1 eth2 eth3 --route table.txt",
        "Be a small router, by a table of routes like those of ip route:",
    ),
];

const GENERATE: &[Example] = &[
    (
        "wirecap generate -i eth1 -c 1M",
        "A million 64-byte frames from transmit queue 0, as fast as possible:",
    ),
    ("wirecap generate -i eth1 --size imix --rate 1Mpps --duration 10s", "A mix of sizes at a fixed rate:"),
    (
        "wirecap generate -i eth1 --rate 80% --link-speed 10G",
        "80 percent of the capacity of a link, with preambles and gaps:",
    ),
    (
        "wirecap generate -i eth1 --queue-share 80,20,20 --popularity zipf",
        "Skewed traffic: most of it from queue 0, few large and many small flows:",
    ),
    (
        "wirecap generate -i eth1 --burst 30000 --gap 400ms -c 180k --engine live",
        "Six bursts, made by the kernel:",
    ),
];

const REPLAY: &[Example] = &[
    ("wirecap replay trace.pcap -i eth1", "Send a trace file as it was recorded:"),
    (
        "wirecap replay a.pcap b.pcapng -i eth1 --speed 10 --align",
        "Two files that begin together, ten times as fast:",
    ),
    ("wirecap replay trace.pcap -i eth1 --bps 1G --loops 100", "A gigabit per second, a hundred times:"),
    ("wirecap replay trace.pcap -i eth1 --top-speed --loops 0", "As fast as possible, until Ctrl-C:"),
    ("tcpdump -i eth0 -U -w - | wirecap replay - -i eth1", "Packets of another program, as they arrive:"),
];

const PROFILE: &[Example] = &[
    ("wirecap profile eth1", "The packets of each receive queue, live, until Ctrl-C; then what is uneven:"),
    (
        "wirecap profile eth1 --duration 1h --csv bins.csv --picture profile.svg",
        "An hour of bins of 10 ms as a table, and a picture of it:",
    ),
    (
        "wirecap profile trace:trace.pcap --queues 8 --rss-key symmetric",
        "What RSS would make of a trace, on eight queues and with both directions of a connection in one:",
    ),
    (
        "wirecap profile trace:trace.pcap --rss-weight 6,2,2,2 --rss-fields tcp-ports --json | jq .profile.queues[].share",
        "The shares after ethtool -X eth1 weight 6 2 2 2, with the fields that drivers of Intel hash:",
    ),
    (
        "wirecap profile xdp:eth0 'tcp port 443' --bin 1ms",
        "An interface that is taken from the host, in bins of a millisecond:",
    ),
];

const HANDLE: &[Example] = &[
    (
        "wirecap handle eth1 -x 300",
        "The heavy handler of the paper: a thread for each receive queue applies the filter 300 times to each packet:",
    ),
    ("wirecap handle eth1 -x 0 --json | jq .handled.threads[].busy_pps", "The engine without any load:"),
    (
        "wirecap handle eth1 --pace 38844 --threads 6 -M 256 -R 100 -T 60",
        "WireCAP-A-(256, 100, 60%) with six threads of the pace that the paper's had, on any number of cores:",
    ),
    (
        "wirecap handle eth1 -x 300 --mode basic --forward eth2",
        "Send each packet on through another interface once it is handled, in order:",
    ),
    (
        "wirecap handle trace:trace.pcap -x 300 --apply 'tcp port 443' --native",
        "What another filter costs for each packet of a trace, as machine code:",
    ),
];

const RUN: &[Example] = &[
    ("wirecap run tcpdump -i eth1 -w trace.pcap", "tcpdump on the engine, unchanged:"),
    ("wirecap run -R 500 --account -- ngrep -d eth1", "A larger pool, and the account at the end:"),
    ("wirecap run -- tcpdump -i 'eth1?M=64&R=2000'", "Settings of one device stand behind its name:"),
    ("wirecap run -- tcpdump -i xdp:eth1@0-3", "Four receive queues, taken from the host:"),
];

const EXTCAP: &[Example] = &[
    ("wirecap extcap --extcap-interfaces", "What Wireshark is answered when it asks for interfaces:"),
    (
        "wirecap extcap --extcap-interface wirecap-eth1 --capture --fifo /tmp/pipe",
        "What Wireshark runs to capture from one of them:",
    ),
];

const INTERFACES: &[Example] = &[
    ("wirecap interfaces", "What can be captured, and how:"),
    (
        "wirecap interfaces --json | jq -r '.[] | select(.xdp.zero_copy) | .name'",
        "The interfaces that can be captured without a copy:",
    ),
];

const STATUS: &[Example] = &[
    ("wirecap status", "The captures that run:"),
    ("wirecap status uplink", "The account so far of the capture that was started with --name uplink:"),
    (
        "wirecap status --json | jq -r '.[] | select(.lost > 0) | .pid'",
        "The processes of captures that have lost packets:",
    ),
];

const TOP: &[Example] = &[
    ("wirecap top uplink", "Watch the capture that was started with --name uplink:"),
    (
        "wirecap top eth1 -- -T 40 'tcp port 443'",
        "Capture an interface to watch it, with flags and a filter of wirecap-capture(1):",
    ),
];

const SIZE: &[Example] = &[
    (
        "wirecap size --queues 8 --rate 10Gbit --packet 300 --burst 100ms --worker 400k --skew 3",
        "Bursts of a tenth of a second, of which one queue gets three times its share:",
    ),
    ("wirecap size --queues 4 --rate 2Mpps --worker 600k --skew 2", "A rate that lasts:"),
];

const STOP: &[Example] = &[
    ("wirecap stop uplink", "End a capture, and wait until everything is written:"),
    ("wirecap stop 4711 --timeout 10s", "Wait for ten seconds at most:"),
];

const ROTATE: &[Example] = &[(
    "wirecap rotate uplink",
    "Begin the next file of a series, and print the name of the one that is complete:",
)];

const SET: &[Example] = &[
    ("wirecap set uplink -T 40", "Have buddies help once a worker's pools are more than 40 % full:"),
    ("wirecap set uplink --duration 1h", "End a capture an hour after its start:"),
];

const ALL: &[(&str, &[Example])] = &[
    ("capture", CAPTURE),
    ("forward", FORWARD),
    ("generate", GENERATE),
    ("replay", REPLAY),
    ("profile", PROFILE),
    ("handle", HANDLE),
    ("run", RUN),
    ("extcap", EXTCAP),
    ("status", STATUS),
    ("top", TOP),
    ("stop", STOP),
    ("rotate", ROTATE),
    ("set", SET),
    ("interfaces", INTERFACES),
    ("size", SIZE),
];

/// The first example of each command.
pub(super) fn of_all() -> impl Iterator<Item = Example> {
    ALL.iter().map(|(_, examples)| examples[0])
}

/// The examples of a command.
///
/// # Panics
/// If it has none.
pub(super) fn of(command: &Command) -> Vec<(String, String)> {
    let name = command.get_name();
    let by_hand = ALL.iter().filter(|(named, _)| *named == name).flat_map(|(_, examples)| *examples);
    let mut examples: Vec<_> = by_hand.map(|&(code, text)| (code.into(), text.into())).collect();
    if examples.is_empty() {
        let of_help = list_of(command, "Examples").into_iter();
        examples.extend(of_help.map(|[code, text]| (code, if text.is_empty() { text } else { text + ":" })));
    }
    assert!(!examples.is_empty(), "wirecap {name} needs an example: in examples.rs, or in its help");
    examples
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::Flags;

    /// The words of a command line, as a shell finds them, up to a pipe; quotes are single ones.
    fn words(code: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for character in code.chars() {
            match character {
                '\'' => is_quoted = !is_quoted,
                '|' if !is_quoted => break,
                ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
                character => word.push(character),
            }
        }
        words.push(word);
        words.into_iter().filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn every_example_is_a_command_line_that_the_program_accepts() {
        for (name, examples) in ALL {
            for (code, _) in *examples {
                let start = code.find("wirecap ").unwrap_or_else(|| panic!("{code}"));
                let words = words(&code[start..]);
                assert_eq!(words[1], *name, "{code}");
                Flags::try_parse_from(&words).unwrap_or_else(|error| panic!("{code}: {error}"));
            }
        }
        assert!(Flags::try_parse_from(words("wirecap capture eth1 --no-such-flag | x")).is_err());
    }
}
