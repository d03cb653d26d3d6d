//! The laboratory as a whole: short trials, and what their tables have to say.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// Two laboratories at once would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the laboratory; returns what it printed, and its raw trials.
fn laboratory(words: &[&str]) -> (String, Vec<Value>) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let out = tempfile::tempdir().unwrap();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers");
    let output = Command::new(env!("CARGO_BIN_EXE_wirecap-paper"))
        .args(words)
        .arg("--out")
        .arg(out.path())
        .arg("--peers")
        .arg(peers)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let record = out.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let lines = std::fs::read_to_string(record).unwrap();
    let trials = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    (text, trials.skip(1).collect())
}

/// The cells of the row of a table that begins with `name`.
fn row<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let is_row = |line: &&str| line.split('|').nth(1).is_some_and(|cell| cell.trim() == name);
    let line = text.lines().find(is_row).unwrap_or_else(|| panic!("no row {name}: {text}"));
    line.split('|').skip(1).map(str::trim).collect()
}

/// A cell without the mark of a disturbed trial.
fn unmarked(cell: &str) -> &str {
    cell.trim_end_matches(" *")
}

fn percent(cell: &str) -> f64 {
    unmarked(cell)
        .strip_suffix(" %")
        .and_then(|figure| figure.parse().ok())
        .unwrap_or_else(|| panic!("not a share: {cell}"))
}

#[test]
fn offloading_saves_what_a_ring_and_a_packet_socket_lose() {
    if !wirecap_lab::require_root("offloading_saves_what_a_ring_and_a_packet_socket_lose") {
        return;
    }
    let only = ["--only", "60 %)", "--only", "AF_XDP", "--only", "libpcap, 2", "--only", "TPACKET"];
    let (text, trials) = laboratory(&[&["table1", "--seconds", "1.5"][..], &only].concat());
    assert!(text.contains("with six queues (measured)"), "{text}");
    for engine in ["", ", push", ", packed"] {
        let row = row(&text, &format!("WireCAP-A-(256, 100, 60 %){engine}"));
        assert_eq!(row[2], row[3], "offered and received: {text}");
        assert!(row[4..7].iter().all(|share| unmarked(share) == "0.0 %"), "{text}");
        assert_eq!(row[7], "0", "{text}");
    }
    for engine in ["AF_XDP, a ring of 1024", "libpcap, 2 MiB"] {
        let row = row(&text, engine);
        // Half of what is sent to queue 0 is more than its handler can handle.
        assert!((20.0..70.0).contains(&percent(row[4])), "{text}");
    }
    // What was sent into a queue is in the account of its handler, which would not be so if a handler got
    // packets of other queues.
    for trial in best(&trials) {
        let sent: Vec<u64> = numbers(&trial["sent"]["queues"], "packets");
        assert!(sent.iter().sum::<u64>() > 100_000, "{trial}");
        let received = &trial["received"];
        if received["peer"] == "wirecap" {
            let queues = &received["report"]["ports"][0]["queues"];
            assert_eq!(numbers(queues, "seen"), sent, "{trial}");
            continue;
        }
        let queues = received["by_queue"].as_array().unwrap();
        for (queue, sent) in queues.iter().zip(sent) {
            let dropped = ["rx_dropped", "rx_ring_full", "ps_drop", "tp_drops"];
            let dropped: u64 = dropped.iter().filter_map(|&cause| queue["dropped"][cause].as_u64()).sum();
            let left = queue["left_in_ring"].as_u64().unwrap();
            assert_eq!(queue["packets"].as_u64().unwrap() + left + dropped, sent, "{trial}");
        }
    }
}

/// Of each experiment and engine, the trial that counts: the least disturbed.
fn best(lines: &[Value]) -> Vec<&Value> {
    let mut best: Vec<&Value> = Vec::new();
    for line in lines {
        let is_same =
            |other: &&mut &Value| ["scenario", "who", "round"].iter().all(|&key| other[key] == line[key]);
        match best.iter_mut().find(is_same) {
            Some(other) if other["run"]["late_ms"].as_f64() <= line["run"]["late_ms"].as_f64() => {}
            Some(other) => *other = line,
            None => best.push(line),
        }
    }
    best.into_iter().map(|line| &line["run"]["trial"]).collect()
}

fn numbers(queues: &Value, field: &str) -> Vec<u64> {
    queues.as_array().unwrap().iter().map(|queue| queue[field].as_u64().unwrap()).collect()
}
#[test]
fn a_ring_loses_of_a_burst_what_the_simulator_says() {
    if !wirecap_lab::require_root("a_ring_loses_of_a_burst_what_the_simulator_says") {
        return;
    }
    let (text, _) = laboratory(&["figure9", "--rounds", "3", "--only", "AF_XDP"]);
    let [measured, simulated] = ["(measured)", "(simulated)"].map(|what| {
        let table =
            text.split("### ").find(|table| table.lines().next().is_some_and(|title| title.ends_with(what)));
        row(table.unwrap_or_else(|| panic!("no table {what}: {text}")), "AF_XDP, a ring of 1024")
    });
    for (measured, simulated) in measured[1..8].iter().zip(&simulated[1..8]) {
        assert!((percent(measured) - percent(simulated)).abs() < 6.0, "{text}");
    }
    assert!(percent(measured[7]) > 90.0, "{text}");
}

#[test]
fn a_trace_of_the_user_s_is_sent_as_it_is() {
    if !wirecap_lab::require_root("a_trace_of_the_user_s_is_sent_as_it_is") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.pcap");
    let mut file = Vec::new();
    wirecap_file::pcap::file_header(&mut file, wirecap_file::LINK_TYPE_ETHERNET, 0);
    // 3,000 packets of 300 flows within 0.3 s: less than six handlers can handle.
    for number in 0..3_000_u32 {
        let [.., c, d] = (number % 300).to_be_bytes();
        let mut frame = vec![0; 90];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        frame[14..34].copy_from_slice(&[0x45, 0, 0, 76, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, c, d, 10, 1, 2, 3]);
        frame[34..42].copy_from_slice(&[4, 0, 0, 53, 0, 56, 0, 0]);
        let header = wirecap_file::PacketHeader {
            timestamp_ns: 1_700_000_000_000_000_000 + u64::from(number) * 100_000,
            original_len: 90,
            ..Default::default()
        };
        wirecap_file::pcap::packet(&mut file, &header, 0, [frame.as_slice()]);
    }
    std::fs::write(&path, file).unwrap();
    let words = ["table1", "--trace", path.to_str().unwrap(), "--only", "WireCAP-A-(256, 100, 60 %)"];
    let (text, trials) = laboratory(&words);
    assert_eq!(row(&text, "WireCAP-A-(256, 100, 60 %)")[2..4], ["3,000"; 2], "{text}");
    assert!(trials.len() >= 3, "pull, push and packed: {trials:?}");
    for trial in &trials {
        assert_eq!(trial["run"]["trial"]["sent"]["packets"], 3_000, "{trial}");
        assert_eq!(trial["run"]["trial"]["received"]["packets"], 3_000, "{trial}");
    }
}

#[test]
fn what_is_handled_is_forwarded_without_loss() {
    if !wirecap_lab::require_root("what_is_handled_is_forwarded_without_loss") {
        return;
    }
    let wirecap = Path::new(env!("CARGO_BIN_EXE_wirecap-paper")).with_file_name("wirecap");
    assert!(wirecap.exists(), "cargo build -p wirecap-cli makes {}", wirecap.display());
    let engine = "WireCAP-A-(256, 100, 60 %), push";
    let (text, trials) = laboratory(&["figure13", "--seconds", "0.5", "--only", engine]);
    let row = row(&text, engine);
    assert!(row[5..7].iter().all(|share| unmarked(share) == "0.0 %"), "five and six queues: {text}");
    for trial in best(&trials) {
        let (arrived, sent_on) = (&trial["arrived"], &trial["handled"]["handled"]["sent_on"]["packets"]);
        assert!(arrived.as_u64() > Some(0) && arrived == sent_on, "{trial}");
    }
}

#[test]
fn a_signal_ends_a_trial_that_waits_and_nothing_is_left() {
    if !wirecap_lab::require_root("a_signal_ends_a_trial_that_waits_and_nothing_is_left") {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gap.pcap");
    let mut file = Vec::new();
    wirecap_file::pcap::file_header(&mut file, wirecap_file::LINK_TYPE_ETHERNET, 0);
    for seconds in [0, 3_600_u64] {
        let header = wirecap_file::PacketHeader {
            timestamp_ns: seconds * 1_000_000_000,
            original_len: 60,
            ..Default::default()
        };
        wirecap_file::pcap::packet(&mut file, &header, 0, [[0; 60].as_slice()]);
    }
    std::fs::write(&path, file).unwrap();
    let mut running = Command::new(env!("CARGO_BIN_EXE_wirecap-paper"))
        .args(["table1", "--only", "AF_XDP", "--trace", path.to_str().unwrap()])
        .args(["--tmpfs", directory.path().to_str().unwrap(), "--out", directory.path().to_str().unwrap()])
        .args(["--peers", concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers")])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("1 of 1: 6 queues")), "the trial begins");
    // It waits for the second packet, or is about to.
    kill(Pid::from_raw(running.id() as i32), Signal::SIGINT).unwrap();
    let said: Vec<String> = lines.collect();
    assert_eq!(running.wait().unwrap().code(), Some(1), "{said:?}");
    assert!(said.last().is_some_and(|line| line.contains("stopped by a signal")), "{said:?}");
    let left: Vec<_> = directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("wirecap-paper-")), "{left:?}");
}
