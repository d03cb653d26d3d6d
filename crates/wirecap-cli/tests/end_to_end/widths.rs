//! Output fits a terminal of 80 columns, however many queues there are, and `--quiet` silences it.

use nix::sys::signal::Signal;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::{
    forward::Cable,
    lab::{Lab, READY, Running, WIRECAP},
};

const COLUMNS: usize = 80;

#[track_caller]
fn assert_fits(text: &str) {
    for line in text.split(['\n', '\r']) {
        let shown = line.replace("\x1b[K", "");
        assert!(shown.chars().count() <= COLUMNS, "{} columns: {shown:?}\n{text}", shown.chars().count());
    }
}

/// Runs a command in a terminal of 80 columns, and returns what the screen shows.
fn on_a_terminal(mut shell: std::process::Command, command: &str) -> String {
    let command = format!("stty columns {COLUMNS} rows 24; {command}");
    shell.args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"]);
    let ended = Running::spawn(shell).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn sixty_four_queues_fit_a_screen() {
    if !require_root("sixty_four_queues_fit_a_screen") {
        return;
    }
    let lab = Lab::with_queues("sixtyfour", 64);
    let running = lab.spawn(&["capture", "r0", "-M", "64", "-R", "2", "--xdp-mode", "packed"]);
    running.wait_for(READY);
    lab.send(0, 0, 100, LiveOptions::default());
    let ended = running.stop();
    let table = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_fits(&table);
    assert!(table.lines().count() <= 16, "{table}");
    let row: Vec<_> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["r0", "1-63", "packed", "0"], "{table}");
}

#[test]
fn a_capture_fits_80_columns() {
    if !require_root("a_capture_fits_80_columns") {
        return;
    }
    let lab = Lab::with_queues("columns", 2);
    for arguments in
        ["", "udp port 53", "--timestamp kernel", "-w /dev/null", "--xdp-mode generic", "--verify"]
    {
        let command = format!("{WIRECAP} capture r0 --duration 1200ms {arguments}; true");
        let screen = on_a_terminal(lab.right.command("script"), &command);
        assert!(screen.contains("M = 256") && screen.contains("port "), "{screen}");
        assert_fits(&screen);
        let facts = screen.lines().filter(|line| line.starts_with("wirecap: "));
        assert!(facts.count() >= 5, "one line per fact: {screen}");
    }
    assert_fits(&on_a_terminal(lab.right.command("script"), &format!("{WIRECAP} interfaces")));
    let command = format!("{WIRECAP} generate -i r0 --size imix --rate 1kpps --duration 1s");
    assert_fits(&on_a_terminal(lab.right.command("script"), &command));
}

#[test]
fn a_cable_fits_80_columns() {
    if !require_root("a_cable_fits_80_columns") {
        return;
    }
    let cable = Cable::quiet("cablecols");
    let command = format!("{WIRECAP} forward m0 m1 --duration 1s");
    assert_fits(&on_a_terminal(cable.middle.command("script"), &command));
}

#[test]
fn quiet_prints_nothing_but_errors() {
    if !require_root("quiet_prints_nothing_but_errors") {
        return;
    }
    let lab = Lab::with_queues("quiet", 2);
    let path = lab.path("quiet.pcapng");
    let path = path.to_str().unwrap();
    for arguments in [
        &["capture", "r0", "-q", "--duration", "100ms"][..],
        &["capture", "r0", "-q", "--duration", "100ms", "-w", path],
        &["capture", "r0", "-q", "--duration", "100ms", "--xdp-mode", "generic"],
        &["capture", "r0", "-q", "--duration", "100ms", "--filter", "ip6 protochain 17"],
        &["generate", "-i", "r0", "-q", "-c", "10"],
    ] {
        let ended = lab.spawn(arguments).wait();
        let said = (ended.code, ended.stderr.as_str(), ended.stdout.len());
        assert_eq!(said, (Some(0), "", 0), "{arguments:?}: {ended:#?}");
    }
    let replayed = lab.spawn(&["replay", path, "-i", "r0", "-q"]).wait();
    assert_eq!((replayed.code, replayed.stdout.len()), (Some(0), 0), "{replayed:#?}");
    let ended = lab.spawn(&["capture", "r0", "-q", "--duration", "100ms", "-w", "-"]).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:#?}");
    let asked = lab.spawn(&["capture", "r0", "-q", "--duration", "100ms", "--json"]).wait();
    assert_eq!(asked.account().sum("seen"), 0);

    let cable = Cable::quiet("quietcable");
    let ended = cable.spawn(&["forward", "m0", "m1", "-q", "--duration", "200ms"]).wait();
    assert_eq!((ended.code, ended.stderr.as_str(), ended.stdout.len()), (Some(0), "", 0), "{ended:#?}");

    // Errors remain.
    std::fs::remove_file(path).unwrap();
    let running = lab.spawn(&["capture", "r0", "-q", "-w", path]);
    // wirecap prints nothing, but begins the file when it captures.
    while !std::fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::remove_file(path).unwrap();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert!(ended.code == Some(1) && ended.stderr.contains("was deleted while it was written"), "{ended:#?}");
}
