//! Output fits a terminal of 80 columns, however many queues there are, and `--quiet` silences it.

use std::{path::Path, thread};

use nix::sys::signal::Signal;
use wirecap_lab::require_root;
use wirecap_testing::{kernel_is_at_least, wait_until};
use wirecap_traffic::LiveOptions;

use crate::{
    forward::{Cable, routes::networks},
    lab::{Lab, READY, RunningCommand, WIRECAP, partial},
    send_traces::{even, write},
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
    let ended = RunningCommand::spawn(shell).wait();
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
    // Off a terminal, lines are as long as what they say.
    for mode in ["packed", "copy"] {
        let command = format!("{WIRECAP} capture r0 -M 64 -R 2 --xdp-mode {mode} --duration 200ms");
        let screen = on_a_terminal(lab.right.command("script"), &command);
        assert_fits(&screen);
        assert!(screen.contains("queues 0-63") && screen.lines().count() <= 40, "{screen}");
    }
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
    if kernel_is_at_least(6, 6) {
        let command = format!("{WIRECAP} capture tap:r0 --duration 1200ms");
        assert_fits(&on_a_terminal(lab.right.command("script"), &command));
    }
    let trace = write(&lab, "columns.pcap", &even(300, 5_000_000));
    for command in [
        "generate -i r0 --size imix --rate 1kpps --duration 1s",
        &format!("replay {} -i r0", trace.display()),
    ] {
        let screen = on_a_terminal(lab.right.command("script"), &format!("{WIRECAP} {command}"));
        assert!(screen.contains("packets") || screen.contains("frames"), "{screen}");
        assert_fits(&screen);
    }
}

#[test]
fn an_account_with_losses_fits_80_columns() {
    if !require_root("an_account_with_losses_fits_80_columns") {
        return;
    }
    for mode in ["packed", "copy"] {
        let lab = Lab::with_queues("lossycols", 1);
        let (stopped, sent) = (lab.path("stopped"), lab.path("sent"));
        // Packets come while the process is stopped: more than the pool holds.
        let command = format!(
            "{WIRECAP} capture r0 -M 64 -R 4 --xdp-mode {mode} & pid=$!; \
             until ip link show r0 | grep -q xdp; do sleep 0.05; done; sleep 0.5; \
             kill -STOP $pid; touch {}; until test -e {}; do sleep 0.05; done; kill -CONT $pid; \
             sleep 1.5; kill -TERM $pid; wait $pid",
            stopped.display(),
            sent.display()
        );
        let screen = thread::scope(|scope| {
            let shown = scope.spawn(|| on_a_terminal(lab.right.command("script"), &command));
            wait_until("the capture is stopped", || stopped.exists() || shown.is_finished());
            lab.send(0, 0, 20_000, LiveOptions::default());
            std::fs::write(&sent, "").unwrap();
            shown.join().unwrap()
        });
        assert!(screen.contains("WARNING: r0 lost"), "{screen}");
        assert_fits(&screen);
    }
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
fn a_router_fits_80_columns() {
    if !require_root("a_router_fits_80_columns") {
        return;
    }
    let cable = networks("routercols");
    let table = cable.path("table.txt");
    std::fs::write(&table, "192.0.2.0/24 dev m0\n198.51.100.0/24 dev m1\n").unwrap();
    let command = format!("{WIRECAP} forward m0 m1 --route {} --duration 1200ms", table.display());
    let screen = on_a_terminal(cable.middle.command("script"), &command);
    assert!(screen.contains("port "), "{screen}");
    assert_fits(&screen);
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
    let trace = write(&lab, "quiet.pcap", &even(3, 1_000));
    let replayed = lab.spawn(&["replay", trace.to_str().unwrap(), "-i", "r0", "-q"]).wait();
    let said = (replayed.code, replayed.stderr.as_str(), replayed.stdout.len());
    assert_eq!(said, (Some(0), "", 0), "{replayed:#?}");
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
    let partial = partial(Path::new(path));
    while !std::fs::metadata(&partial).is_ok_and(|file| file.len() > 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::remove_file(&partial).unwrap();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert!(ended.code == Some(1) && ended.stderr.contains("was deleted while it was written"), "{ended:#?}");
}
