//! `wirecap profile`: live queues of a veth pair, and traces made here, whose flows have known hashes.

mod running;
mod untimed;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::Value;
use tempfile::TempDir;
use wirecap_lab::{VethOptions, require_root, trace_bytes::Order};
use wirecap_sys::netdev;
use wirecap_testing::{schema::check_records, wait_until};
use wirecap_traffic::LiveOptions;

use crate::lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP, cores, partial};

/// TCP flows of Microsoft's verification suite: addresses and ports, and their hash.
const FLOWS: [([u8; 12], u32); 5] = [
    ([66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6], 0x51cc_c178),
    ([199, 92, 111, 2, 65, 69, 140, 83, 0x37, 0x96, 0x12, 0x83], 0xc626_b0ea),
    ([24, 19, 198, 95, 12, 22, 207, 184, 0x32, 0x62, 0x94, 0x88], 0x5c2b_394a),
    ([38, 27, 205, 30, 209, 142, 163, 6, 0xbc, 0x64, 0x08, 0xa9], 0xafc7_327f),
    ([153, 39, 163, 191, 202, 188, 127, 2, 0xac, 0xdb, 0x05, 0x17], 0x10e8_28a2),
];

fn frame(flow: usize) -> Vec<u8> {
    let (fields, _) = FLOWS[flow];
    [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00][..],
        &[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0],
        &fields,
        &[0; 16],
    ]
    .concat()
}

/// Which of the queues a flow is in, with a table of 128 entries in turn.
fn queue_of(flow: usize, queues: usize) -> usize {
    (FLOWS[flow].1 as usize & 127) % queues
}

/// A pcap file of these packets: times in milliseconds, and flows; `None` is an ARP request.
fn trace(packets: impl IntoIterator<Item = (u64, Option<usize>)>) -> Vec<u8> {
    let order = Order::Little;
    let mut bytes = order.pcap_header(0xa1b2_3c4d, (2, 4), 65_535, 1);
    for (ms, flow) in packets {
        let arp = || [&[0xff; 12][..], &[0x08, 0x06], &[0; 28]].concat();
        let data = flow.map_or_else(arp, frame);
        let len = data.len() as u32;
        let (seconds, ns) = ((ms / 1_000) as u32, (ms % 1_000 * 1_000_000) as u32);
        bytes.extend(order.pcap_record(1_700_000_000 + seconds, ns, (len, len), &data));
    }
    bytes
}

/// A directory with a trace in it.
fn directory_with(trace: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    fs::write(&path, trace).unwrap();
    (directory, path)
}

fn profile(trace: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(WIRECAP);
    command.args(["profile", "-q", &format!("trace:{}", trace.display())]).args(arguments);
    command.output().unwrap()
}

fn record(output: &Output) -> Value {
    assert_eq!(check_records(&output.stdout), 1, "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The packets of each queue in the record.
fn packets(record: &Value) -> Vec<u64> {
    let queues = record["profile"]["queues"].as_array().unwrap();
    queues.iter().map(|queue| queue["packets"].as_u64().unwrap()).collect()
}

/// The sum of each column of a CSV file behind time, seconds and Gini coefficient; and its number of rows.
fn sums(csv: &Path) -> (Vec<u64>, usize) {
    let text = fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("time,seconds,gini,"), "{head}");
    let mut sums = vec![0; head.split(',').count() - 3];
    let mut rows = 0;
    for line in lines {
        let figures = line.split(',').skip(3).map(|figure| figure.parse::<u64>().unwrap());
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        rows += 1;
    }
    (sums, rows)
}

/// Ten seconds: flow 0 all the time, flow 1 a little, and a burst of flow 2 at 3.86 s.
fn skewed() -> Vec<(u64, Option<usize>)> {
    let packets = (0..10_000).flat_map(|ms| {
        let burst = if (3_860..3_960).contains(&ms) { 20 } else { 0 };
        let others = [(ms % 4 == 0).then_some(Some(1)), (ms % 100 == 7).then_some(None)];
        let once = [Some(Some(0)), Some(Some(0))].into_iter().chain(others).flatten();
        let flows: Vec<_> = once.chain((0..burst).map(|_| Some(2))).collect();
        flows.into_iter().map(move |flow| (ms, flow))
    });
    packets.collect()
}

#[test]
fn the_queues_of_a_trace_are_those_of_its_hashes() {
    let (directory, path) = directory_with(&trace(skewed()));
    let csv = directory.path().join("bins.csv");
    let output = profile(&path, &["--json", "--queues", "4", "--csv", csv.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record = record(&output);
    let mut expected = vec![0; 4];
    for (flow, packets) in [(0, 20_000), (1, 2_500), (2, 2_000)] {
        expected[queue_of(flow, 4)] += packets;
    }
    // ARP has no hash.
    expected[0] += 100;
    assert_eq!(packets(&record), expected);
    assert_eq!(record["ports"][0]["queues"][0]["delivered"], expected.iter().sum::<u64>());
    let (columns, rows) = sums(&csv);
    assert_eq!((columns, rows), (expected, 1_000), "a row for each of 1,000 bins");
    assert!(!partial(&csv).exists());
    let profile = &record["profile"];
    assert_eq!(
        (profile["seconds"].as_f64(), profile["first_ns"].as_u64()),
        (Some(10.0), Some(1_700_000_000 * 1_000_000_000))
    );
    assert_eq!(profile["rss"]["key"], "microsoft");
}

#[test]
fn the_summary_of_a_trace_is_this() {
    let (directory, path) = directory_with(&trace(skewed()));
    let svg = directory.path().join("x.svg");
    let output = Command::new(WIRECAP)
        .args(["profile", "trace:x.pcap", "--queues", "4", "--picture", svg.to_str().unwrap()])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, summary) = text.split_once("on average\n").unwrap();
    let [hot, little, burst] = [0, 1, 2].map(|flow| queue_of(flow, 4));
    assert_eq!([hot, little, burst], [0, 2, 2], "the table below is of these");
    let expected = SUMMARY;
    assert_eq!(summary, expected);
    assert_eq!(fs::canonicalize(&path).unwrap(), fs::canonicalize(directory.path()).unwrap().join("x.pcap"));
    let drawn = fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("queue 2") && drawn.contains("packets per 10 ms"));
}

const SUMMARY: &str = "
packets in bins of 10 ms, by the queues that RSS chooses (key microsoft, ports
    hashed, a table of 128):

queue  packets     %  mean  max  times   at s  in 100 ms  times   at s
    0    20100  81.7  20.1   21    1.0  0.000        201    1.0  0.000
    2     4500  18.3   4.5  203   45.1  3.860       2025   45.0  3.860
  1,3        0   0.0   0.0    -      -      -          -      -      -

long-term imbalance: queue 0 has 81.7 % of all packets, 3.3 times an even share;
    workers that help each other (-T) level it, or another key or table (ethtool
    -X)
short-term imbalance: queue 2 has 2025 packets within 100 ms at 3.860 s, 45.0
    times its mean; a pool of as many packets (-R x -M) holds them until a
    worker has time
within 100 ms, the busiest queue has 3.5 times an even share, as the average
    packet finds it (Gini 0.69; in the whole time 3.3 times, Gini 0.66)
";

#[test]
fn keys_tables_and_fields_move_flows() {
    let (_directory, path) =
        directory_with(&trace((0..500).map(|number| (number, Some(number as usize % 5)))));
    let packets = |arguments: &[&str]| {
        let output = profile(&path, &[&["--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        packets(&record(&output))
    };
    let by_hash = |queue: &dyn Fn(u32) -> usize, queues: usize| {
        let mut packets = vec![0; queues];
        FLOWS.iter().for_each(|(_, hash)| packets[queue(*hash)] += 100);
        packets
    };
    assert_eq!(packets(&[]), by_hash(&|hash| (hash & 127) as usize % 6, 6));
    assert_eq!(packets(&["--rss-table", "1,0"]), by_hash(&|hash| [1, 0][hash as usize & 1], 2));
    // Three quarters of 128 entries.
    assert_eq!(packets(&["--rss-weight", "3,1"]), by_hash(&|hash| usize::from(hash & 127 >= 96), 2));
    let of_addresses = [0x323e_8fc2, 0xd718_262a, 0xd2d0_a5de, 0x8298_9176, 0x5d18_09c5_u32];
    let mut expected = vec![0; 3];
    of_addresses.iter().for_each(|hash| expected[(*hash & 127) as usize % 3] += 100);
    assert_eq!(packets(&["--queues", "3", "--rss-fields", "addresses"]), expected);
    assert_ne!(packets(&["--queues", "8", "--rss-key", "symmetric"]), packets(&["--queues", "8"]));
}

#[test]
fn a_damaged_trace_gives_what_precedes_the_damage_and_absurd_times_cost_nothing() {
    let mut bytes = trace((0..1_000).map(|number| (number, Some(0))));
    bytes.truncate(bytes.len() - 10);
    let (directory, path) = directory_with(&bytes);
    let output = profile(&path, &["--json", "--queues", "4"]);
    assert_eq!(output.status.code(), Some(1));
    let damaged = record(&output);
    assert_eq!(packets(&damaged).iter().sum::<u64>(), 999);
    assert!(damaged["error"].is_string(), "{}", damaged["error"]);

    // Back, forth by 80 years, and back again.
    let times = [20_000, 20_001, 0, 2_500_000_000_000, 30_000];
    fs::write(&path, trace(times.map(|ms| (ms, Some(0))))).unwrap();
    let csv = directory.path().join("bins.csv");
    let output = profile(&path, &["--queues", "4", "--csv", csv.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text, "", "-q prints no summary");
    let (columns, rows) = sums(&csv);
    assert_eq!((columns.iter().sum::<u64>(), rows), (5, 3), "two bins, and a row of packets in none");
    let output = profile(&path, &["--queues", "4", "--json"]);
    let record = record(&output);
    assert_eq!(["late", "ahead"].map(|what| sum(&record, what)), [1, 1]);
    assert_eq!(record["profile"]["jumps"]["number"], 0);
}

/// The sum of a figure over the queues.
fn sum(record: &Value, what: &str) -> u64 {
    let queues = record["profile"]["queues"].as_array().unwrap();
    queues.iter().map(|queue| queue[what].as_u64().unwrap()).sum()
}

#[test]
fn a_clock_that_is_set_back_is_named_and_the_profile_goes_on() {
    let hour = 3_600_000;
    let times = (hour..hour + 5_000).chain([80 * 365 * 24 * hour]).chain(hour + 5_000..hour + 6_000);
    let times = times.chain(0..4_000);
    let (directory, path) = directory_with(&trace(times.map(|ms| (ms, Some(0)))));
    let csv = directory.path().join("bins.csv");
    let arguments = ["profile", &format!("trace:{}", path.display()), "--csv", csv.to_str().unwrap()];
    let output = Command::new(WIRECAP).args(arguments).output().unwrap();
    let text = String::from_utf8([output.stdout.clone(), output.stderr.clone()].concat()).unwrap();
    let text = text.replace("\n    ", " ");
    assert_eq!(output.status.code(), Some(0), "{text}");
    for words in [
        "at 6.000 s of the profile, the packets' times jump back by 1 h 0 min; the profile counts no time for it",
        "1 packet is in no bin, only in the shares, because its time is more than a second from",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let (columns, rows) = sums(&csv);
    assert_eq!(
        (columns.iter().sum::<u64>(), rows),
        (10_001, 1_000 + 1),
        "ten seconds, and a row of the outlier"
    );
    let written = fs::read_to_string(&csv).unwrap();
    assert!(written.contains("\n1700000000.000000000,6,") && written.contains("\n1700003600.000000000,0,"));
    let record = record(&profile(&path, &["--json"]));
    assert_eq!((sum(&record, "late"), sum(&record, "ahead")), (0, 1));
    assert_eq!(record["profile"]["seconds"], 10.0);
    let jumps = &record["profile"]["jumps"];
    assert_eq!((&jumps["number"], &jumps["first"][0]["seconds"]), (&1.into(), &6.0.into()), "{jumps}");

    // It is reported while the packets still come.
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let mut command = Command::new(WIRECAP);
    command.args(["profile", "--json", &format!("trace:{}", pipe.display())]);
    let running = RunningCommand::spawn(command);
    let mut writer = fs::File::create(&pipe).unwrap();
    writer.write_all(&fs::read(&path).unwrap()).unwrap();
    running.wait_for(
        "at 6.000 s of the profile, the packets' times jump back by 1 h 0 min; the profile goes on",
    );
    drop(writer);
    let ended = running.wait();
    assert_eq!((ended.code, packets(&ended.account().0).iter().sum::<u64>()), (Some(0), 10_001));
}

#[test]
fn files_that_cannot_be_written_are_reported_and_a_trace_is_never_overwritten() {
    let (directory, path) = directory_with(&trace(skewed()));
    let before = fs::read(&path).unwrap();
    let refused = profile(&path, &["--csv", path.to_str().unwrap()]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("is the trace that is read, and would be overwritten"), "{message}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let nowhere = directory.path().join("no/such/bins.csv");
    let refused = profile(&path, &["--csv", nowhere.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("make the directory first"));
    // A start that fails, after the files were opened, leaves none.
    let csv = directory.path().join("bins.csv");
    let other_link = directory.path().join("other.pcap");
    let mut bytes = Vec::new();
    wirecap_file::pcap::file_header(&mut bytes, 113, 0);
    fs::write(&other_link, bytes).unwrap();
    let refused = profile(&other_link, &["--csv", csv.to_str().unwrap()]);
    assert!(!refused.status.success() && !csv.exists() && !partial(&csv).exists(), "{refused:?}");
    // A full disk.
    let drawn = directory.path().join("drawn.svg");
    let full = profile(&path, &["--json", "--csv", "/dev/full", "--picture", drawn.to_str().unwrap()]);
    let message = String::from_utf8(full.stderr.clone()).unwrap();
    assert_eq!(full.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot write /dev/full: No space left on device"), "{message}");
    assert!(drawn.exists(), "the picture is written all the same");
    assert_eq!(packets(&record(&full)).iter().sum::<u64>(), 24_600, "the profile itself is complete");
    // Without packets, the picture says so, and replaces an old one.
    let svg = directory.path().join("x.svg");
    fs::write(&svg, "old").unwrap();
    fs::write(&path, trace([])).unwrap();
    let empty = profile(&path, &["--json", "--picture", svg.to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(0), "{empty:?}");
    assert_eq!(record(&empty)["profile"]["findings"]["long_term"]["kind"], "not_comparable");
    assert!(fs::read_to_string(&svg).unwrap().contains(": no packets") && !partial(&svg).exists());
}

#[test]
fn two_traces_and_other_link_types_are_refused() {
    let (_directory, path) = directory_with(&trace([]));
    let other = format!("trace:{}", path.display());
    let refused = profile(&path, &[&other]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8(refused.stderr).unwrap().contains("wirecap capture trace:A trace:B -w all.pcapng")
    );
    let order = Order::Little;
    let cooked =
        [order.pcap_header(0xa1b2_3c4d, (2, 4), 65_535, 113), order.pcap_record(1, 0, (20, 20), &[0; 20])];
    fs::write(&path, cooked.concat()).unwrap();
    let refused = profile(&path, &[]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{message}");
    assert!(message.contains("packets of link type 113, to which RSS does not apply"), "{message}");
}

const FRAMES: u64 = 20_000;

/// Requires that the columns of the CSV file agree with the account, queue by queue.
fn assert_columns(ended: &CommandOutput, csv: &Path, expected: &[u64]) {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    let delivered: Vec<_> = account.0["ports"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|port| port["queues"].as_array().unwrap())
        .map(|queue| queue["delivered"].as_u64().unwrap())
        .collect();
    assert_eq!(delivered, expected);
    assert_eq!((packets(&account.0), sums(csv).0), (delivered.clone(), delivered));
}

#[test]
fn live_queues_are_counted_by_queue() {
    if !require_root("live_queues_are_counted_by_queue") {
        return;
    }
    let two = VethOptions { queues: 2, ..VethOptions::default() };
    let lab = Lab::new("profile", &[two.clone(), two]);
    let csv = lab.path("bins.csv");
    let arguments = ["profile", "r0", "r1", "--json", "--interval", "100ms", "--csv", csv.to_str().unwrap()];
    let running = lab.spawn(&arguments);
    running.wait_for(READY);
    // The frames of a core arrive in the queue of its number.
    let mut expected = [0; 4];
    for (core, packets) in expected.iter_mut().enumerate().take(cores()) {
        lab.send(0, core, FRAMES, LiveOptions::default());
        *packets = FRAMES;
    }
    lab.send(1, 0, FRAMES / 2, LiveOptions::default());
    expected[2] = FRAMES / 2;
    running.wait_for("times an even share");
    let ended = running.stop();
    assert_columns(&ended, &csv, &expected);
    let head = fs::read_to_string(&csv).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(head, "time,seconds,gini,r0 queue 0,r0 queue 1,r1 queue 0,r1 queue 1");
    assert!(ended.stderr.contains("profile: ") && ended.stderr.contains("r0 queue 0"), "{}", ended.stderr);
    // What RSS would have made of them is another question.
    let running = lab.spawn(&["profile", "r0", "--json", "--queues", "5"]);
    running.wait_for(READY);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let ended = running.stop();
    let of_rss = packets(&ended.account().0);
    assert_eq!((of_rss.len(), of_rss.iter().sum::<u64>()), (5, FRAMES));
    assert!(of_rss.iter().filter(|packets| **packets > 0).count() > 1, "{of_rss:?}");
}

#[test]
fn a_full_disk_is_reported_while_the_profile_goes_on() {
    if !require_root("a_full_disk_is_reported_while_the_profile_goes_on") {
        return;
    }
    let lab = Lab::new("profull", &[VethOptions::default()]);
    let running = lab.spawn(&["profile", "r0", "--json", "--csv", "/dev/full"]);
    // It is still running.
    running.wait_for("cannot write /dev/full: No space left on device (os error 28); profiling goes on");
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let ended = running.stop();
    assert_eq!((ended.code, packets(&ended.account().0)), (Some(1), vec![FRAMES]), "{ended:#?}");
    assert!(ended.stderr.contains("; the profile itself is complete"), "{}", ended.stderr);
}

#[test]
fn outgoing_packets_of_an_interface_that_the_host_keeps_are_left_out() {
    if !require_root("outgoing_packets_of_an_interface_that_the_host_keeps_are_left_out") {
        return;
    }
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    let lab = Lab::new("profhost", &[options]);
    let running = lab.spawn(&["profile", "r0", "icmp"]);
    running.wait_for(READY);
    let pings = lab.left.command("ping").args(["-q", "-c", "5", "-i", "0.01", "192.0.2.2"]).status().unwrap();
    assert!(pings.success(), "the host keeps its traffic");
    let ended = running.stop();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.code, Some(0), "{text}");
    for words in ["5 packets left the host and are not in the profile", "is profiled by core or socket"] {
        assert!(text.replace("\n    ", " ").contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn a_terminal_has_a_table_that_is_gone_at_the_end() {
    if !require_root("a_terminal_has_a_table_that_is_gone_at_the_end") {
        return;
    }
    let lab = Lab::with_queues("proftable", 2);
    let mut command = lab.right.command("script");
    let profile = format!("stty columns 60 rows 24; {WIRECAP} profile r0 --duration 4s");
    command.args(["--quiet", "--flush", "--return", "--command", &profile, "/dev/null"]);
    let running = RunningCommand::spawn(command);
    wait_until("the interface is taken", || {
        lab.right.enter(|| !netdev::interface("r0").unwrap().xdp_programs.is_empty())
    });
    lab.send_at(Some(FRAMES), 0, 0, FRAMES, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let screen = String::from_utf8(ended.stdout).unwrap();
    // The head, two queues and the line below them.
    let back = "\r\x1b[4A\x1b[J";
    let tables: Vec<_> = screen.split(back).collect();
    let (first, rest) = tables.split_first().unwrap();
    let (last, between) = rest.split_last().unwrap();
    assert!(first.contains("wirecap: M = ") && last.starts_with("port "), "{screen:?}");
    // On a busy machine, few of them.
    assert!(!between.is_empty(), "{screen:?}");
    for table in between {
        let lines: Vec<_> = table.split("\r\n").collect();
        assert_eq!(lines.len(), 5, "a table and the status line: {table:?}");
        assert!(lines[0].starts_with("queue ") && lines[2].starts_with("queue 1 "), "{table:?}");
        assert!(lines[3].starts_with("busiest queue") && lines[4].contains(" s  lost 0"), "{table:?}");
        assert!(lines.iter().all(|line| line.chars().count() < 60), "{table:?}");
    }
    assert!(tables.iter().any(|table| table.contains("100 %  ####")), "{screen:?}");
}

#[test]
fn the_table_of_64_queues_fits_a_small_terminal() {
    if !require_root("the_table_of_64_queues_fits_a_small_terminal") {
        return;
    }
    let lab = Lab::with_queues("profsmall", 64);
    for rows in [24, 8, 3] {
        let mut command = lab.right.command("script");
        let profile = format!("stty columns 80 rows {rows}; {WIRECAP} profile r0 --memory 64M --duration 2s");
        command.args(["--quiet", "--flush", "--return", "--command", &profile, "/dev/null"]);
        let ended = RunningCommand::spawn(command).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let screen = String::from_utf8(ended.stdout).unwrap();
        // What is drawn over, each time, is on the screen: the lines of the table, and the status line.
        let tables: Vec<_> = screen.split("\x1b[J").collect();
        let (_, drawn) = tables.split_first().unwrap();
        assert!(drawn.len() > 2, "{screen:?}");
        for table in &drawn[..drawn.len() - 1] {
            let (table, up) = table.rsplit_once("\r\x1b[").unwrap_or_else(|| panic!("{table:?}"));
            let up: usize = up.strip_suffix('A').unwrap().parse().unwrap();
            assert_eq!(table.lines().count(), up + 1, "{table:?}");
            assert!(up < rows, "{table:?}");
            let words = match rows {
                24 => "and 48 queues with fewer packets",
                8 => "and 60 queues with fewer packets",
                _ => "... and 2 more lines",
            };
            assert!(table.contains(words), "{rows}: {table:?}");
        }
    }
}
