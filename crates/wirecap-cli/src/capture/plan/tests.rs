//! Plans from valid command lines, and refusals of invalid ones.

use clap::Parser;
use wirecap::{Mode, PortSpec};

use super::*;
use crate::{
    commands::{Command, Flags, capture::settings::CaptureSettings},
    exit::{self, Exit},
    text,
};

fn plan(arguments: &str) -> Result<Plan> {
    let words = ["wirecap", "capture"].into_iter().chain(arguments.split_whitespace());
    let Command::Capture(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    let settings = flags.into_settings(|word| word.starts_with("eth"))?.settings;
    let CaptureSettings { capture, output, .. } = settings;
    Plan::new(capture, output, KnownInterfaces::default(), Sandbox::off())
}

#[test]
fn the_filter_begins_where_the_interfaces_end() {
    for (arguments, ports, filter) in [
        ("eth0 tcp port 80", 1, Some("tcp port 80")),
        ("eth0 eth1 xdp:veth9 ip", 3, Some("ip")),
        ("misspelt", 1, None),
        ("eth0 eth1", 2, None),
        ("eth0 --filter eth1", 1, Some("eth1")),
        ("eth0 -c 3 ip -w /dev/null host eth1", 1, Some("ip host eth1")),
        ("eth0 --filter -ip[8]=1 -c 3", 1, Some("-ip[8]=1")),
        ("-i eth0 -nn -U -l -p -s 0 tcp port 80", 1, Some("tcp port 80")),
        ("-i eth0 --interface eth1 -f udp", 2, Some("udp")),
        ("eth0 -Q in udp or tcp", 1, Some("inbound and (udp or tcp)")),
        ("eth0 -Q out", 1, Some("outbound")),
        ("eth0 -Q inout udp", 1, Some("udp")),
        ("eth0 ip host a.pcap", 1, Some("ip host a.pcap")),
        ("eth0 net 10.0.0.0/8", 1, Some("net 10.0.0.0/8")),
        ("ethx.cap", 1, None),
    ] {
        let plan = plan(arguments).unwrap();
        assert_eq!((plan.config.ports.len(), plan.config.filter.as_deref()), (ports, filter), "{arguments}");
    }
}

#[test]
fn a_plain_plan_has_the_documented_defaults() {
    let plan = plan("eth0 xdp:eth1").unwrap();
    let ports = vec!["eth0".into(), PortSpec::from("xdp:eth1")];
    assert_eq!(plan.config, Config { ports, ..Config::default() });
    assert_eq!((plan.config.mode, plan.config.dispatch), (Mode::advanced(60).unwrap(), Dispatch::Pull));
    assert_eq!((plan.output, plan.destination), (OutputSettings::default(), None));
}

#[test]
fn invalid_arguments_are_wrong_usage_with_a_hint() {
    for (arguments, hint) in [
        ("eth0 -M 100", "try 128"),
        ("eth0 -M 0", "power of two"),
        ("eth0 -R 0", "R (chunks per pool)"),
        ("eth0 -M 16384 -R 200000", "lower -R or -M"),
        ("eth0 --cell-bytes 3000", "2048 or 4096"),
        ("eth0 --ring 1000", "power of two"),
        ("eth0 --ring 128", "from M = 256"),
        ("eth0 --ring 1073741824", "to 32768"),
        ("eth0 --mode basic -T 50", "leave it out"),
        ("eth0 --capture-threads 2", "--dispatch push"),
        ("eth0 --capture-cores 1", "--dispatch push"),
        ("eth0 --workers 0", "at least 1"),
        ("eth0 xdp:eth0", "each interface once"),
        ("eth0 ip --filter tcp", "write it once"),
        ("eth0 --unmatched drop", "add a filter"),
        ("eth0 --expect 10", "add --verify"),
        ("eth0 --direct-io", "with -w FILE"),
        ("eth0 --file-per-queue", "add -w FILE.pcapng"),
        ("eth0 -w - --file-per-queue", "which - is not"),
        ("eth0 -w - --print", "where the packets of -w go: name a file with -w, or leave one of them out"),
        ("eth0 -w a.pcapng --file-per-queue --print", "leave --print or --file-per-queue out"),
        ("eth0 -w a.pcapng --file-per-queue --copy-to ./p", "one file: leave --file-per-queue out"),
        ("eth0 --copy-to ./p", "one file: add -w FILE"),
        ("eth0 -w /dev/null --file-per-queue", "which /dev/null is not"),
        ("eth0 -w /tmp --file-per-queue", "write -w FILE.pcapng"),
        ("eth0 -w trace.txt --file-per-queue", ".pcapng"),
        ("eth0@1 xdp:eth0@0-3", "different queues of it"),
        ("eth0@1 eth0", "different queues of it"),
        ("-i eth0 eth1", "eth1 is an interface, and with -i the words are the filter: write -i eth1"),
        ("trace.pcapng", "trace.pcapng is not an interface; for a trace file write trace:trace.pcapng"),
        ("/tmp/x.cap -c 1", "write trace:/tmp/x.cap"),
        ("/proc/self/status", "write trace:/proc/self/status"),
        ("eth0 b.PCAP -c 1", "write trace:b.PCAP"),
        ("eth0 -w trace.txt", ".pcapng"),
        ("eth0 -w a.pcapng -W 2", "add -C SIZE or -G TIME"),
        ("eth0 -w a.pcapng -z gzip", "add -C SIZE or -G TIME"),
        ("eth0 -w a.pcapng -C 1 -G 1 -W 2", "leave one of the three out"),
        ("eth0 -w a.pcapng -C 1 -W 1", "keep two or more"),
        ("eth0 -w a.pcapng -C 1 -W 2 -z gzip", "leave one of them out"),
        ("eth0 -w a.pcapng -C 1 -z no-such-program-anywhere", "there is no such program"),
        ("eth0 -w a.pcapng -C 1 -z /no/such", "there is no such program"),
        ("eth0 -w a.pcapng -G 1ms", "-G takes 100 ms or more"),
        ("eth0 -w %!.pcapng -G 1", "%% stands for a percent sign"),
        ("eth0 -C 1", "name them with -w FILE.pcapng"),
        ("eth0 -w - -G 1", "name them with -w FILE.pcapng"),
        ("eth0 -w /dev/null -G 1", "which /dev/null is not"),
        ("eth0 eth1 -w trace.pcap", "trace.pcapng"),
    ] {
        let error = plan(arguments).expect_err(arguments);
        assert!(text::error::describe(&error).contains(hint), "{arguments}: {error:#}");
        assert_eq!(exit::code_of(&error), Exit::Usage, "{arguments}");
    }
}

#[test]
fn queues_of_an_interface_may_be_named() {
    let expected = ["eth0@0-2", "xdp:eth0@5", "eth1"].map(PortSpec::from);
    assert_eq!(plan("eth0@0-2 xdp:eth0@5 eth1").unwrap().config.ports, expected);
}

#[test]
fn the_format_follows_from_the_name() {
    let format = |arguments| plan(arguments).unwrap().destination.unwrap().format();
    assert_eq!(format("eth0 -w a.pcap"), Format::Pcap);
    assert_eq!(format("eth0 eth1 -w a.pcapng"), Format::Pcapng);
    assert_eq!(format("eth0 -w /dev/null"), Format::Pcapng, "a device has no suffix");
}

#[test]
fn the_files_of_queues_have_the_label_before_the_extension() {
    let plan = plan("eth0 eth1 -w a/b.c.pcap --file-per-queue --direct-io").unwrap();
    let destination = plan.destination.unwrap();
    assert_eq!(destination, Destination::FilePerQueue("a/b.c.pcap".into(), Format::Pcap));
    assert_eq!(
        (destination.name().as_str(), destination.describe().as_str()),
        ("a/b.c.pcap", "a/b.c.*.pcap")
    );
    assert_eq!(labelled(Path::new("x.pcapng"), "eth1.100.0"), Path::new("x.eth1.100.0.pcapng"));
}

#[test]
fn the_threshold_goes_with_advanced_mode() {
    let mode = |arguments| plan(arguments).unwrap().config.mode;
    assert_eq!(mode("eth0 --mode basic"), Mode::Basic);
    assert_eq!(mode("eth0 -T 30"), Mode::advanced(30).unwrap());
    assert_eq!(mode("eth0 --mode advanced -T 0"), Mode::advanced(0).unwrap());
}

#[test]
fn packets_whose_times_are_kept_are_stamped() {
    let stamped = |arguments| plan(arguments).unwrap().config.stamp_packets;
    assert!(!stamped("eth0") && stamped("eth0 -w a.pcap") && stamped("eth0 --verify"));
}

#[test]
fn a_number_of_packets_in_a_file_is_not_0_either() {
    for (settings, hint) in [
        (OutputSettings { count: Some(0), ..OutputSettings::default() }, "-c 0 would stop"),
        (
            OutputSettings { expect: Some(0), verify: true, ..OutputSettings::default() },
            "--expect 0 leaves no",
        ),
    ] {
        let error = check_settings(&Config::default(), &settings).unwrap_err();
        assert!(error.to_string().starts_with(hint), "{error}");
        assert_eq!(exit::code_of(&error), Exit::Usage);
    }
}
