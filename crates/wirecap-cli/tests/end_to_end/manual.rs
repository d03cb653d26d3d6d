//! The manual keeps up with the output: it has every column, and every JSON record matches its schema.

use std::{collections::BTreeSet, time::Duration};

use wirecap_lab::require_root;
use wirecap_testing::schema::check_records;

use crate::{
    forward::{Cable, frame},
    lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP},
};

/// The chapters that explain tables.
const CHAPTERS: [&str; 3] = [
    include_str!("../../../../docs/book/account.md"),
    include_str!("../../../../docs/book/bump-in-the-wire.md"),
    include_str!("../../../../docs/book/lab.md"),
];

#[test]
fn every_record_matches_its_schema_and_the_manual_has_every_column() {
    if !require_root("every_record_matches_its_schema_and_the_manual_has_every_column") {
        return;
    }
    let lab = Lab::with_queues("manual", 1);
    let path = lab.path("manual.pcapng");
    let file = path.to_str().unwrap();
    let records = |ended: &CommandOutput| check_records(&ended.stdout);
    // At least one record during the capture, and one at the end.
    let running = lab.capture(&["r0", "-w", file, "--verify", "--stats", "200ms"]);
    let mut command = lab.left.command(WIRECAP);
    command.args(["generate", "-i", "l0", "-c", "100", "--json"]);
    assert_eq!(records(&RunningCommand::spawn(command).wait()), 1);
    std::thread::sleep(Duration::from_millis(500));
    let captured = running.stop();
    assert!(records(&captured) > 1, "{captured:#?}");
    assert!(captured.account().0["verified"]["runs"][0]["latency"]["p999_ns"].is_u64());
    assert_eq!(records(&lab.spawn(&["interfaces", "--json"]).wait()), 1);
    let mut command = lab.left.command(WIRECAP);
    command.args(["replay", file, "-i", "l0", "--json"]);
    assert_eq!(records(&RunningCommand::spawn(command).wait()), 1);

    let mut names = BTreeSet::new();
    let table = lab.spawn(&["capture", "r0", "--duration", "100ms"]).wait();
    let table = String::from_utf8(table.stdout).unwrap();
    let heads = table.lines().filter(|line| line.starts_with("port ") || line.starts_with("worker "));
    names.extend(heads.flat_map(str::split_whitespace).map(String::from));

    let cable = Cable::quiet("manual");
    let forward = |arguments: &[&str]| {
        let running = cable.spawn(&[&["forward", "m0", "m1"], arguments].concat());
        running.wait_for(READY);
        cable.sender().send(&frame(1, 100)).unwrap();
        // Latencies exist only after the frame has arrived.
        std::thread::sleep(Duration::from_millis(300));
        running.stop()
    };
    let forwarded = forward(&["--json"]);
    assert_eq!(records(&forwarded), 1);
    assert!(forwarded.account().0["forwarded"][0]["latency"]["p999_ns"].is_u64(), "{forwarded:#?}");
    let routes = cable.path("table.txt");
    std::fs::write(&routes, "192.0.2.0/24 dev m0\n").unwrap();
    let routed = forward(&["--json", "--route", routes.to_str().unwrap()]);
    assert_eq!(records(&routed), 1);
    assert!(routed.account().0["next_hops"]["crowded_out"].is_u64(), "{routed:#?}");
    let table = String::from_utf8(forward(&[]).stdout).unwrap();
    // Some of these headings are two words.
    let heads = table.lines().filter(|line| line.starts_with("from "));
    let heads = heads.flat_map(|line| line.split("  ").map(|head| head.trim().to_owned()));
    names.extend(heads.filter(|head| !head.is_empty()));
    assert!(names.contains("unsent") && names.contains("p99.9 us"), "{table}");
    for name in names {
        let name = format!("`{name}`");
        assert!(CHAPTERS.iter().any(|chapter| chapter.contains(&name)), "{name} is in no chapter");
    }
}
