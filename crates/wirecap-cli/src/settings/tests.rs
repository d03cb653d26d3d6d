//! Settings files: they take effect, printed settings are read back, and errors name their place.

use std::{fs, time::Duration};

use clap::Parser;
use proptest::prelude::*;
use wirecap::{
    Config, Dispatch, Fanout, Mode, Modes, PoolSize, PortSpec, Reach, Rss, TapHook, Timestamp,
    UnmatchedPolicy, Wait,
};

use super::{
    file::{parse, read},
    *,
};
use crate::{
    commands::{
        Command, Flags,
        capture::settings::CaptureSettings,
        forward::settings::{ForwardRules, ForwardSettings, FullRingPolicy},
    },
    exit::{self, Exit},
    print::log::LogFormat,
};

/// The settings of `wirecap capture` with these arguments and this file.
fn capture(file: &str, arguments: &str) -> anyhow::Result<CaptureSettings> {
    let file = written(file);
    let path = file.path().to_str().unwrap();
    let words = ["wirecap", "capture", "--config", path].into_iter().chain(arguments.split_whitespace());
    let Command::Capture(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    flags.into_settings(|word| word.starts_with("eth")).map(|sourced| sourced.settings)
}

/// The settings of `wirecap forward` with these arguments and this file.
fn forward(file: &str, arguments: &str) -> anyhow::Result<ForwardSettings> {
    let file = written(file);
    let path = file.path().to_str().unwrap();
    let words = ["wirecap", "forward", "--config", path].into_iter().chain(arguments.split_whitespace());
    let Command::Forward(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    flags.into_settings().map(|sourced| sourced.settings)
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

const FILE: &str = r#"
[capture]
ports = ["xdp:eth1", "eth2@0-3"]
filter = "tcp port 443"
cells_per_chunk = 64
pool_size = "memory:512M"
mode = "advanced:30"
worker_cores = [0, 2]

[output]
duration = "1m"
json = true
"#;

#[test]
fn a_flag_overrides_the_file_and_the_file_the_default() {
    let settings = capture(FILE, "").unwrap();
    let expected = Config {
        ports: vec!["xdp:eth1".into(), "eth2@0-3".into()],
        filter: Some("tcp port 443".into()),
        cells_per_chunk: 64,
        pool_size: PoolSize::Memory(512 << 20),
        mode: Mode::advanced(30).unwrap(),
        worker_cores: vec![0, 2],
        ..Config::default()
    };
    assert_eq!(settings.capture, expected);
    let output = OutputSettings { duration: Some(Duration::from_secs(60)), json: true, ..Default::default() };
    assert_eq!(settings.output, output);

    let flags = "eth3 udp -M 128 -R 10 --duration 5s -q --mode advanced --cores 1 --xdp-mode copy";
    let settings = capture(FILE, flags).unwrap();
    let overridden = Config {
        ports: vec!["eth3".into()],
        filter: Some("udp".into()),
        cells_per_chunk: 128,
        pool_size: PoolSize::Chunks(10),
        worker_cores: vec![1],
        xdp_mode: Modes::Copy,
        ..expected
    };
    assert_eq!(settings.capture, overridden, "the file's threshold is kept");
    let output = OutputSettings { duration: Some(Duration::from_secs(5)), quiet: true, ..output };
    assert_eq!(settings.output, output);
    assert_eq!(capture(FILE, "--filter icmp -T 5").unwrap().capture.mode, Mode::advanced(5).unwrap());
    let basic = capture("capture.mode = 'basic'", "-T 5").unwrap_err();
    assert!(basic.to_string().contains("-T is for advanced mode"), "{basic}");
}

#[test]
fn forward_has_its_own_defaults_even_with_a_file() {
    // Its mode is fixed, so no advice is to set T.
    let refused = forward("[capture]\nT = 60", "").unwrap_err().to_string();
    assert!(refused.contains("T is not a key in [capture]; there are "), "{refused}");
    let plain = ForwardSettings::default();
    assert_eq!((plain.capture.pool_size, plain.capture.wait), (PoolSize::AtMost(32), Wait::Block));
    assert_eq!((plain.capture.mode, plain.capture.reach), (Mode::Basic, Reach::Worker));
    assert_eq!(forward("", "").unwrap(), plain);
    let text =
        "[capture]\nports = ['eth1', 'eth2']\nwait = 'busy'\n[forward]\nttl = 'decrement'\nvlan = '10=20'";
    let settings = forward(text, "--on-full drop --transmit-ring 512").unwrap();
    let capture = Config {
        ports: vec!["eth1".into(), "eth2".into()],
        wait: Wait::Busy,
        transmit_entries: 512,
        ..plain.capture
    };
    assert_eq!(settings.capture, capture);
    let rules = ForwardRules {
        ttl: Some("decrement".parse().unwrap()),
        vlan: Some("10=20".parse().unwrap()),
        on_full: FullRingPolicy::Drop,
        ..ForwardRules::default()
    };
    assert_eq!(settings.forward, rules);
    assert_eq!(
        forward(text, "eth3 xdp:eth4").unwrap().capture.ports,
        ["eth3".into(), PortSpec::from("xdp:eth4")]
    );
}

#[test]
fn errors_name_the_line_column_and_key() {
    for (text, words) in [
        ("[capture]\nfiltr = 'udp'", ":2:1: filtr is not a key in [capture]; did you mean filter?"),
        (
            "[capture]\n\n  cells_per_chunk = 'many'",
            ":3:21: cells_per_chunk: a number is needed, not text in quotes: for example, cells_per_chunk = 256",
        ),
        (
            "[capture]\nwait = 'slep'",
            ":2:8: wait: \"slep\" is not one of busy, sleep, block; did you mean sleep?",
        ),
        ("[capture]\nports = ['eth1', 'dpdk:eth2']", ":2:9: ports: dpdk:eth2: no port begins with dpdk:"),
        ("[capture]\nmode = 'advanced:200'", ":2:8: mode: T (offloading threshold) is 200"),
        (
            "[capture]\npool_size = 128",
            ":2:13: pool_size: text in quotes is needed, not a number: for example, pool_size = \"at-most:128\"",
        ),
        (
            "[output]\ncount = '1k'",
            ":2:9: count: a number is needed, not text in quotes: for example, count = 1000",
        ),
        (
            "[capture]\nports = 'r0'",
            "ports: a list in brackets is needed, not text in quotes: for example, ports = [\"eth1\"]",
        ),
        ("[capture]\nports = [1]", ":2:10: ports: invalid type: integer `1`"),
        ("[output]\nrotate_time = 60", "not a number: for example, rotate_time = \"1h\""),
        (
            "[capture]\npromiscuous = 1.5",
            "true or false is needed, not a number with a point: for example, promiscuous = true",
        ),
        ("[capture]\ngrouping = { sets = 1 }", ":2:21: grouping: invalid type: integer `1`"),
        ("[capture]\npool_size = '128'", ":2:13: pool_size: \"128\" is not a size of pools"),
        ("[capture]\nworkers = -1", ":2:11: workers: invalid value: integer `-1`"),
        ("[ouput]\njson = true", ":1:2: ouput is not a table; did you mean output?"),
        ("[capture]\nduration = '1s'", ":2:1: duration belongs in the table [output]"),
        ("[output]\nports = ['eth1']", ":2:1: ports belongs in the table [capture]"),
        ("[capture]\nR = 500", ":2:1: R is not a key in [capture]; write pool_size = \"chunks:500\""),
        ("[capture]\nR = [5]", "; write, for example, pool_size = \"chunks:128\""),
        ("[capture]\nT = 'basic'", "; write, for example, mode = \"advanced:60\""),
        ("[capture]\nT = 200", "; write, for example, mode = \"advanced:60\""),
        ("[capture]\nR = 0x1F4", "; write, for example, pool_size = \"chunks:128\""),
        ("[capture]\ninterfaces = ['eth3', 'eth4']", "; write ports = [\"eth3\", \"eth4\"]"),
        ("[capture]\ninterface = 'eth0.100'", "; write ports = [\"eth0.100\"]"),
        ("[capture]\nmemory = '64M'", "; write pool_size = \"memory:64M\""),
        ("interface = 'eth3'", ":1:1: interface belongs in the table [capture]; write ports = [\"eth3\"]"),
        ("[capture]\nthreads = 2", ":2:1: threads is not a key in [capture]; write workers = 2"),
        ("[output]\nB = 64", "B belongs in the table [capture]; write pool_size = \"memory:64M\""),
        ("[output]\nZ = 'root'", "Z belongs in the table [process]; write user = \"root\""),
        ("[capture]\np = true", ":2:1: p is not a key in [capture]; write promiscuous = false"),
        ("[capture]\np = false", "; write promiscuous = true"),
        ("[output]\nq = false", "; write quiet = false"),
        ("[capture]\ni = true", "; write, for example, ports = [\"eth1\"]"),
        ("[output]\nq = true", ":2:1: q is not a key in [output]; write quiet = true"),
        ("[output]\nC = '1M'", ":2:1: C is not a key in [output]; its name there is rotate_size"),
        ("[capture]\nw = 'x.pcapng'", ":2:1: w belongs in the table [output]; its name there is write"),
        (
            "[output]\ninterfaces = ['eth1']",
            ":2:1: interfaces belongs in the table [capture]; write ports = [\"eth1\"]",
        ),
        ("T = 60", ":1:1: T belongs in the table [capture]; write mode = \"advanced:60\""),
        ("filter = 'udp'", ":1:1: filter belongs in the table [capture]"),
        ("[forward]\n", ":1:2: [forward] is only for wirecap forward: leave it out"),
        ("capture = 3", ":1:11: capture: invalid type: integer `3`"),
        ("[output]\nduration = '10 parsecs'", ":2:12: duration: \"parsecs\" is not a unit of time"),
        ("[capture]\nwait = 'busy'\nwait = 'sleep'", ":3:1: duplicate key"),
        ("[capture\n", ":1:9: "),
        ("[capture]\nfilter = \"é\" x", ":2:14: "),
    ] {
        let error = capture(text, "eth1").unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(exit::code_of(&error), Exit::Usage, "{text}");
    }
    let error = forward("[forward]\non_full = 'dorp'", "").unwrap_err();
    assert!(
        error.to_string().contains(":2:11: on_full: \"dorp\" is not one of wait, drop; did you mean drop?"),
        "{error}"
    );
    for (name, words) in [
        ("no/such.toml", "cannot read the settings in no/such.toml: No such file"),
        ("/proc", "cannot read the settings in /proc: it is a directory"),
        ("/proc/self/exe", "/proc/self/exe is not a text file; settings are TOML"),
    ] {
        let error = read::<CaptureSettings>(name.as_ref()).unwrap_err();
        assert!(error.to_string().starts_with(words), "{error}");
        assert_eq!(exit::code_of(&error), Exit::Usage, "{error}");
    }
}

#[test]
fn what_is_said_twice_on_the_command_line_is_refused() {
    for (arguments, words) in [
        ("-a duration:2 --duration 5s", "--duration and -a duration: both say when the capture stops"),
        ("-c 9 -a packets:7", "-c and -a packets: both say when the capture stops"),
        ("-b files:2 -C 1M -a filesize:7", "-C and -a filesize: both say when the next file begins"),
        ("-b duration:2 -G 9", "-G and -b duration: both say when the next file begins"),
        ("-b filesize:2 -C 1M", "-C and -b filesize: both say when the next file begins"),
        ("-b filesize:2 -a filesize:3", "-b filesize: and -a filesize: both say when the next file begins"),
        ("-a duration:2 -a duration:3", "-a duration: is given twice"),
        ("-b files:2 -b files:3", "-b files: is given twice"),
    ] {
        let refusal = capture("", &format!("eth1 -w x.pcapng {arguments}")).unwrap_err();
        assert_eq!(refusal.to_string(), format!("{words}: leave one of them out"));
        assert_eq!(exit::code_of(&refusal), Exit::Usage, "{arguments}");
    }
    for arguments in ["-a duration:2 -c 9", "-a filesize:7 -c 9", "-b packets:9 -a files:3 -C 1M -c 5"] {
        capture("", &format!("eth1 -w x.pcapng {arguments}")).unwrap();
    }
    // A flag still overrides the file.
    let output = capture("[output]\nduration = '1m'", "eth1 -a duration:2").unwrap().output;
    assert_eq!(output.duration, Some(Duration::from_secs(2)));
}

#[test]
fn an_empty_file_changes_nothing() {
    assert_eq!(read::<CaptureSettings>("/dev/null".as_ref()).unwrap().settings, CaptureSettings::default());
}

#[test]
fn settings_that_a_command_cannot_have_are_refused_by_name() {
    for (key, reason) in
        [("transmit_entries = 64", "nothing is sent"), ("rx_hash = true", "nothing uses the hashes")]
    {
        let refused = capture(&format!("[capture]\n{key}"), "eth1").unwrap().check().unwrap_err().to_string();
        let name = key.split(' ').next().unwrap();
        assert_eq!(refused, format!("{name} cannot be set for capture: {reason}; leave it out"));
    }
    assert!(capture(FILE, "").unwrap().check().is_ok());
}

/// The printed settings.
fn printed<T: Settings>(settings: &T) -> String {
    toml::to_string_pretty(settings).unwrap()
}

#[test]
fn a_file_that_is_no_settings_file_is_told_what_one_is() {
    let mistake = |text: &str| parse::<CaptureSettings>(text).unwrap_err().to_string();
    let hint = "; settings are lines such as count = 5 below [output], in TOML";
    assert!(mistake("mon0\n").ends_with(hint));
    assert!(!mistake("[output]\nwrite = 'x.pcapng\n").ends_with(hint));
}

#[test]
fn the_printed_defaults_are_a_file_to_start_from() {
    let text = printed(&CaptureSettings::default());
    for line in
        ["[capture]", "ports = []", "mode = \"advanced:60\"", "pool_size = \"at-most:128\"", "[output]"]
    {
        assert!(text.lines().any(|printed| printed == line), "{line}: {text}");
    }
    assert_eq!(parse::<CaptureSettings>(&text).unwrap().0, CaptureSettings::default());
    let text = printed(&ForwardSettings::default());
    assert!(
        text.contains("transmit_entries = 2048") && text.contains("[forward]\non_full = \"wait\""),
        "{text}"
    );
    assert_eq!(parse::<ForwardSettings>(&text).unwrap().0, ForwardSettings::default());
}

fn one<T: wirecap::config::Choice + std::fmt::Debug>() -> impl Strategy<Value = T> {
    proptest::sample::select(T::ALL).prop_map(|choice| choice.value)
}

fn a_port() -> impl Strategy<Value = PortSpec> {
    let word =
        prop_oneof!["[a-z]{1,8}[0-9]", "xdp:[a-z]{1,8}@[0-9],3-5", "packet:[a-z]{3}", "trace:/?[ -~é]{1,9}"];
    word.prop_map(PortSpec::from)
}

prop_compose! {
    fn a_config()(
        ports in prop::collection::vec(a_port(), 0..4),
        filter in prop::option::of("\\PC{0,20}"),
        (unmatched, mode, dispatch, wait) in
            (prop::option::of(one::<UnmatchedPolicy>()), 0..=100_u32, one::<Dispatch>(), one::<Wait>()),
        (xdp_mode, rss, fanout) in (one::<Modes>(), one::<Rss>(), prop::option::of(one::<Fanout>())),
        (tap_hook, timestamp) in (one::<TapHook>(), prop::option::of(one::<Timestamp>())),
        (cells_per_chunk, chunks, bytes, ring_entries) in
            (any::<u32>(), any::<u32>(), 1..u64::MAX, prop::option::of(any::<u32>())),
        (kind, flag) in (0..3_usize, any::<bool>()),
        (workers, worker_cores) in
            (prop::option::of(0..1_000_usize), prop::collection::vec(0..99_usize, 0..3)),
    ) -> Config {
        let pool_size = [PoolSize::AtMost(chunks), PoolSize::Chunks(chunks), PoolSize::Memory(bytes)][kind];
        Config {
            ports, filter, unmatched, mode: Mode::advanced(mode).unwrap(), dispatch, wait, xdp_mode, rss,
            fanout, tap_hook, timestamp, cells_per_chunk, pool_size, ring_entries, workers, worker_cores,
            promiscuous: flag, stamp_packets: flag, ..Config::default()
        }
    }
}

proptest! {
    #[test]
    fn printed_settings_are_read_back(
        capture in a_config(),
        ns in prop::option::of(1..u64::MAX),
        (write, snaplen) in (prop::option::of("[ -~é]{1,20}"), any::<u32>()),
        (count, quiet) in (prop::option::of(1..1_000_000_u64), any::<bool>()),
    ) {
        let output = OutputSettings {
            write: write.map(Into::into),
            snaplen,
            count,
            duration: ns.map(Duration::from_nanos),
            direct_io: quiet,
            file_per_queue: quiet,
            log: if quiet { LogFormat::Json } else { LogFormat::Text },
            quiet,
            ..OutputSettings::default()
        };
        let process = ProcessSettings { sandbox: quiet, user: count.map(|count| format!("user{count}")) };
        let service = ServiceSettings {
            name: Some("uplink".parse().unwrap()),
            control: Some("./x.sock".parse().unwrap()),
            metrics: Some("9417".parse().unwrap()),
        };
        let settings = CaptureSettings {
            capture: capture.clone(),
            output: output.clone(),
            process: process.clone(),
            service: service.clone(),
        };
        prop_assert_eq!(parse::<CaptureSettings>(&printed(&settings)).unwrap().0, settings);
        let set_source = vec!["a=02:00:00:00:00:01".into()];
        let forward = ForwardRules { set_source, ..ForwardRules::default() };
        let settings = ForwardSettings { capture, forward, output, process, service };
        prop_assert_eq!(parse::<ForwardSettings>(&printed(&settings)).unwrap().0, settings);
    }
}
