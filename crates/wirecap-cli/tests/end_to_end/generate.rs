//! `wirecap generate` on one end of a veth pair, `wirecap capture --verify` on the other.

use nix::sys::signal::Signal;
use serde_json::Value;
use wirecap_lab::{VethOptions, require_root};

use crate::lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP};

impl Lab {
    /// Starts `wirecap generate -i l0` with these arguments.
    fn start_generator(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.left.command(WIRECAP);
        command.args(["generate", "-i", "l0", "--json"]).args(arguments);
        RunningCommand::spawn(command)
    }

    fn generate(&self, arguments: &[&str]) -> Value {
        let ended = self.start_generator(arguments).wait();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
        report(&ended)
    }
}

fn report(ended: &CommandOutput) -> Value {
    let text = std::str::from_utf8(&ended.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_else(|| panic!("no report: {ended:#?}"))).unwrap()
}

/// The verdict on the only run.
#[track_caller]
fn only_run(verified: &Value) -> &Value {
    let runs = verified["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{verified:#}");
    &runs[0]
}

fn figure(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value:#}"))
}

/// Requires that all frames came, once and in order.
#[track_caller]
fn assert_all_came(run: &Value, made: &Value) {
    assert_eq!(figure(run, "received"), figure(made, "frames"), "{run:#}\n{made:#}");
    assert_eq!((run["run"].as_u64(), run["first"].as_u64()), (made["run"].as_u64(), Some(0)));
    assert_eq!(figure(run, "last") + 1, figure(made, "frames"));
    for trouble in ["lost", "duplicated", "reordered", "too_late", "before_sent"] {
        assert_eq!(figure(run, trouble), 0, "{trouble}: {run:#}");
    }
}

#[test]
fn generated_frames_of_every_kind_are_verified() {
    if !require_root("generated_frames_of_every_kind_are_verified") {
        return;
    }
    let many: &[&str] =
        &["-c", "60k", "--queue-share", "80,20,20", "--popularity", "zipf:1.1", "--flows", "999"];
    for (generator, flows, queues) in [
        (&["-c", "50k"][..], 4096, vec![50_000]),
        (many, 0, vec![40_000, 10_000, 10_000]),
        (
            &["-c", "10k", "--size", "imix", "--ip", "6", "--protocol", "tcp", "--vlan", "7", "--flows", "1"],
            1,
            vec![10_000],
        ),
        (
            &["-c", "20k", "--rate", "100kpps", "--burst", "5k", "--gap", "2ms", "--popularity", "uniform"],
            0,
            vec![20_000],
        ),
        (
            &[
                "-c", "50k", "--engine", "live", "--core", "0", "--flows", "300", "--burst", "20k", "--gap",
                "20ms",
            ],
            300,
            vec![],
        ),
    ] {
        let lab = Lab::with_queues("generate", 4);
        let path = lab.path("generated.pcapng");
        let file = path.to_str().unwrap();
        let running = lab.capture(&["r0", "--verify", "-w", file]);
        let made = lab.generate(generator);
        assert_eq!(
            (figure(&made, "taken"), figure(&made, "dropped")),
            (figure(&made, "frames"), 0),
            "{made:#}"
        );
        let by_queue: Vec<u64> =
            made["queues"].as_array().unwrap().iter().map(|queue| figure(queue, "sent")).collect();
        let near = by_queue.iter().zip(&queues).all(|(made, asked)| made.abs_diff(*asked) <= 64);
        assert!(near && by_queue.len() == queues.len(), "{made:#}");
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{generator:?}: {ended:#?}");
        let verified = &ended.account().0["verified"];
        assert_all_came(only_run(verified), &made);
        assert_eq!(figure(verified, "unmarked"), 0);
        let run = only_run(verified);
        assert!(flows == 0 || figure(run, "flows") == flows, "{run:#}");
        let times =
            ["min_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| figure(&run["latency"], name));
        assert!(times.is_sorted() && times[0] > 0 && times[4] < 60_000_000_000, "{times:?}");

        // The file gives the same verdict.
        let frames = figure(&made, "frames").to_string();
        let words = ["capture", &format!("trace:{file}"), "--verify", "--expect", &frames, "--json"];
        let again = lab.spawn(&words).wait();
        assert_eq!(again.code, Some(0), "{again:#?}");
        assert_eq!(&again.account().0["verified"], verified, "{generator:?}");
    }
}

#[test]
fn the_default_size_has_room_for_the_requested_headers() {
    if !require_root("the_default_size_has_room_for_the_requested_headers") {
        return;
    }
    let lab = Lab::with_queues("defaultsize", 1);
    for (headers, least) in [
        (&[][..], 60),
        (&["--vlan", "5"], 64),
        (&["--ip", "6"], 80),
        (&["--protocol", "tcp"], 72),
        (&["--vlan", "5", "--ip", "6", "--protocol", "tcp"], 96),
    ] {
        let capture = lab.capture(&["r0", "--verify", "--expect", "100"]);
        let made = lab.generate(&[&["-c", "100"], headers].concat());
        assert_eq!((figure(&made, "frames"), figure(&made, "bytes")), (100, 100 * least), "{headers:?}");
        assert_all_came(only_run(&capture.stop().account().0["verified"]), &made);
    }
}

#[test]
fn missing_and_duplicate_frames_are_found_and_set_exit_code_1() {
    if !require_root("missing_and_duplicate_frames_are_found_and_set_exit_code_1") {
        return;
    }
    let lab = Lab::with_queues("missing", 1);
    let [one, two] = ["one.pcapng", "two.pcapng"].map(|name| lab.path(name));
    let running = lab.capture(&["r0", "-w", one.to_str().unwrap()]);
    lab.generate(&["-c", "1k", "--flows", "1000", "--run", "77"]);
    assert_eq!(running.stop().code, Some(0), "verification was not requested");
    std::fs::copy(&one, &two).unwrap();
    let [one, two] = [one, two].map(|path| format!("trace:{}", path.display()));

    // Each source port has 256 flows; those from 512 to 767 are missing.
    let ended =
        lab.spawn(&["capture", &one, "--verify", "--json", "--filter", "not udp src port 1026"]).wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let account = ended.account();
    let run = only_run(&account.0["verified"]);
    assert_eq!((figure(run, "run"), figure(run, "lost"), figure(run, "received")), (77, 256, 744), "{run:#}");

    let ended = lab.spawn(&["capture", &one, &two, "--verify", "--json"]).wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let account = ended.account();
    let run = only_run(&account.0["verified"]);
    assert_eq!((figure(run, "lost"), figure(run, "duplicated"), figure(run, "received")), (0, 1_000, 2_000));

    // The last frame is missing, which only --expect reveals; or there is one too many.
    for (expected, lost, unexpected) in [("1001", 1, 0), ("999", 0, 1), ("1k", 0, 0)] {
        let ended = lab.spawn(&["capture", &one, "--verify", "--expect", expected, "--json"]).wait();
        assert_eq!(ended.code, Some(i32::from(lost + unexpected > 0)), "{expected}: {ended:#?}");
        let account = ended.account();
        let run = only_run(&account.0["verified"]);
        assert_eq!((figure(run, "lost"), figure(run, "unexpected")), (lost, unexpected), "{run:#}");
    }
    let ended = lab.spawn(&["capture", &one, "--expect", "1k"]).wait();
    assert_eq!(ended.code, Some(2), "there is nothing to expect without --verify: {ended:#?}");

    let ended = lab.spawn(&["capture", &one, "--verify", "--filter", "tcp"]).wait();
    assert!(
        ended.code == Some(1) && ended.stderr.contains("no frame of wirecap generate arrived"),
        "{ended:#?}"
    );
    let ended = lab.spawn(&["capture", &one, "--verify"]).wait();
    let words = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.code == Some(0) && words.contains(" 77      1000      0   999     0"), "{words}");
}

#[test]
fn a_rate_is_kept_and_a_signal_ends_the_run_cleanly() {
    if !require_root("a_rate_is_kept_and_a_signal_ends_the_run_cleanly") {
        return;
    }
    let lab = Lab::with_queues("rate", 1);
    let _capture = lab.capture(&["r0"]);
    for (rate, pps) in [("20kpps", 20_000.0), ("10.24Mbps", 20_000.0), ("1%", 14_880.95)] {
        let made = lab.generate(
            &["--rate", rate, "--duration", "500ms", "--link-speed", "1G"]
                [..if rate == "1%" { 6 } else { 4 }],
        );
        let (asked, frames) =
            (made["asked_packets_per_second"].as_f64().unwrap(), figure(&made, "frames") as f64);
        assert!((asked - pps).abs() < 0.1, "{made:#}");
        // Other work on the machine may delay the last frames, and never adds any.
        assert!((0.5 * pps * 0.5..=0.5 * pps + 64.0).contains(&frames), "{rate}: {made:#}");
        assert_eq!(made["end"], "done");
    }
    let running = lab.start_generator(&["--rate", "1kpps"]);
    running.wait_for("wirecap: run ");
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!((ended.code, report(&ended)["end"].as_str()), (Some(0), Some("signal")), "{ended:#?}");
}

#[test]
fn impossible_runs_are_refused_with_a_remedy() {
    if !require_root("impossible_runs_are_refused_with_a_remedy") {
        return;
    }
    let lab = Lab::new("refused", &[VethOptions { mtu: 1400, queues: 2, ..VethOptions::default() }]);
    for (arguments, code, words) in [
        (&["-i", "l9"][..], 1, "l9"),
        (&["-i", "lo"], 1, "lo is not an Ethernet interface"),
        (&["-i", "l0@7"], 1, "l0 has 2 transmit queues, numbers 0 to 1"),
        (&["-i", "l0", "--size", "1518"], 1, "lower --size to 1418"),
        (&["-i", "l0", "--size", "64", "--protocol", "tcp"], 2, "choose --size 76 to"),
        (&["-i", "l0", "--tx-mode", "zero-copy"], 1, "omit --tx-mode"),
        (&["-i", "l0", "--engine", "live", "--popularity", "zipf"], 2, "--popularity does not work with"),
        (&["l0@0", "--engine", "live"], 2, "l0@0 does not work with --engine live"),
        (&["-i", "l0@0", "--queue-share", "1,2"], 2, "2 shares for the 1 queues"),
        (&["-i", "l0", "--link-speed", "10G"], 2, "--rate 80%"),
        (&["-i", "l0", "--burst", "10"], 2, "--gap"),
        (&["-i", "l0", "--flows", "1", "--queue-share", "1,1"], 2, "choose at least 2"),
        (&["-i", "l0", "--rate", "quick"], 2, "like 500k"),
        (&["-i", "l0", "--source-mac", "02:00"], 2, "no Ethernet address"),
        (&["-i", "l0", "--core", "4000"], 2, "core 4000 cannot be used; this process may use 0"),
    ] {
        let mut command = lab.left.command(WIRECAP);
        command.arg("generate").args(arguments);
        let ended = RunningCommand::spawn(command).wait();
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(words) && ended.stdout.is_empty(), "{arguments:?}: {ended:#?}");
    }
    lab.left.ip(&["link", "set", "dev", "l0", "down"]).unwrap();
    let ended = lab.start_generator(&[]).wait();
    assert!(ended.code == Some(1) && ended.stderr.contains("ip link set l0 up"), "{ended:#?}");
}

#[test]
fn a_lost_interface_ends_a_run_with_its_totals() {
    if !require_root("a_lost_interface_ends_a_run_with_its_totals") {
        return;
    }
    let ways = [
        ("left", ["link", "set", "l0", "down"], "l0 is down"),
        ("right", ["link", "set", "r0", "down"], "l0 has no carrier"),
        ("left", ["link", "del", "dev", "l0"], "l0 was removed"),
    ];
    for (engine, (side, command, words)) in ["xdp", "live"].into_iter().flat_map(|e| ways.map(|way| (e, way)))
    {
        let lab = Lab::with_queues("gone", 1);
        let capture = lab.spawn(&["capture", "r0"]);
        capture.wait_for(READY);
        let running = lab.start_generator(&["--rate", "10kpps", "--engine", engine, "--duration", "60s"]);
        running.wait_for("wirecap: run ");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let host = if side == "left" { &lab.left } else { &lab.right };
        host.ip(&command).unwrap();
        let ended = running.wait();
        assert!(ended.code == Some(1) && ended.stderr.contains(words), "{engine}: {ended:#?}");
        assert!(
            !ended.stderr.contains("more slowly") && !ended.stderr.contains("were requested"),
            "{ended:#?}"
        );
        let made = report(&ended);
        assert_eq!(made["end"], "failed");
        assert!(made["error"].as_str().unwrap().contains(words), "{made:#}");
    }
}

#[test]
fn frames_are_sent_beside_a_host_that_uses_the_interface() {
    if !require_root("frames_are_sent_beside_a_host_that_uses_the_interface") {
        return;
    }
    let addresses_a = vec!["192.0.2.1/24".into()];
    let lab = Lab::new("used", &[VethOptions { addresses_a, ..VethOptions::default() }]);
    let capture = lab.capture(&["r0", "--verify"]);
    let ended = lab.start_generator(&["-c", "1k"]).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for said in [
        "l0: the host uses it (address 192.0.2.1/24): frames are sent beside the host's own",
        "l0: copy: the kernel copies each packet; zero-copy was not tried, because the host uses it",
    ] {
        assert!(ended.stderr.contains(said), "{ended:#?}");
    }
    let account = capture.stop().account();
    assert_all_came(only_run(&account.0["verified"]), &report(&ended));

    // On request, zero-copy is tried.
    let capture = lab.capture(&["r0"]);
    let ended = lab.start_generator(&["-c", "1k", "--tx-mode", "best"]).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("zero-copy is not available"), "{ended:#?}");
    assert!(!ended.stderr.contains("was not tried"), "{ended:#?}");
    capture.stop();
}
