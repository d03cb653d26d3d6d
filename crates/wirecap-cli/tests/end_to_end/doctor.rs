//! `wirecap doctor`: faults planted on a veth pair are found, mended, and the mending is undone exactly, also
//! after a kill.

use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command, thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use wirecap_lab::{VethOptions, require_root, skip};
use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS, XdpMode};
use wirecap_traffic::LiveOptions;

use crate::lab::{CommandOutput, Lab, READY, WIRECAP, cores};

/// Files of the kernel in which faults are planted, and the faults.
const FAULTS: [(&str, &str); 4] = [
    ("threaded", "1"),
    ("napi_defer_hard_irqs", "3"),
    ("gro_flush_timeout", "50000000"),
    ("queues/rx-1/rps_cpus", "3"),
];
/// The rules that find them.
const FOUND: [&str; 3] = ["gro-flush-timeout", "rps", "threaded-napi"];

fn doctor(lab: &Lab, arguments: &[&str]) -> CommandOutput {
    let journal = lab.path("journal");
    let journal = ["--journal", journal.to_str().unwrap()];
    lab.spawn(&[&["doctor"], arguments, &journal].concat()).wait()
}

/// The findings about r0, or other parts of the record.
fn record(ended: &CommandOutput) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:#?}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// The rules with a finding about r0: those about the machine depend on the machine.
fn rules(record: &Value) -> Vec<String> {
    let findings = record["findings"].as_array().unwrap().iter();
    let of_r0 = findings.filter(|finding| finding["interface"] == "r0");
    let mut rules: Vec<_> =
        of_r0.map(|finding| finding["evidence"]["rule"].as_str().unwrap().to_owned()).collect();
    rules.sort();
    rules
}

/// The first finding about r0.
fn of_r0(record: &Value) -> &Value {
    let mut findings = record["findings"].as_array().unwrap().iter();
    findings.find(|finding| finding["interface"] == "r0").unwrap_or_else(|| panic!("{record:#}"))
}

fn in_sysfs(lab: &Lab, work: impl Fn(&Path) + Sync) {
    lab.right.enter(|| work(Path::new("/sys/class/net/r0")));
}

fn plant(lab: &Lab) {
    // Without it, a veth end does not poll.
    lab.pairs[0].b().set_gro(true).unwrap();
    in_sysfs(lab, |r0| FAULTS.iter().for_each(|(file, fault)| fs::write(r0.join(file), fault).unwrap()));
}

/// Every setting that the doctor could touch, as ethtool and the kernel show it.
fn settings(lab: &Lab) -> String {
    let ethtool = ["-k", "-l"].map(|flag| lab.right.ethtool(&[flag, "r0"]).unwrap());
    let files = lab.right.enter(|| {
        let read =
            |(file, _): &(&str, &str)| fs::read_to_string(Path::new("/sys/class/net/r0").join(file)).unwrap();
        FAULTS.iter().map(read).collect::<String>()
    });
    ethtool.concat() + &files
}

#[test]
fn planted_faults_are_found_mended_and_the_mending_is_undone() {
    if !require_root("planted_faults_are_found_mended_and_the_mending_is_undone") {
        return;
    }
    let lab = Lab::with_queues("doctor", 2);
    assert_eq!(rules(&record(&doctor(&lab, &["r0", "--json"]))), Vec::<String>::new(), "a healthy interface");
    plant(&lab);
    let planted = settings(&lab);
    assert_eq!(rules(&record(&doctor(&lab, &["r0", "--json"]))), FOUND);

    let names = format!("--fix={}", FOUND.join(","));
    let fixed = record(&doctor(&lab, &["r0", &names, "--json"]));
    let applied = fixed["applied"].as_array().unwrap();
    assert_eq!(applied.len(), FOUND.len(), "{fixed:#}");
    assert!(applied.iter().all(|change| change["outcome"] == "made"), "{fixed:#}");
    // The timer is short now; that interrupts are deferred is no fault then.
    assert_eq!(rules(&record(&doctor(&lab, &["r0", "--json"]))), Vec::<String>::new());
    assert_ne!(settings(&lab), planted);

    let undone = record(&doctor(&lab, &["--undo", "--json"]));
    let restored = undone["restored"].as_array().unwrap();
    assert!(restored.len() == FOUND.len() && restored.iter().all(|setting| setting["outcome"] == "restored"));
    assert_eq!(settings(&lab), planted);
    let again = doctor(&lab, &["--undo"]);
    let words = format!("nothing to restore by the journal in {}", lab.path("journal").display());
    assert_eq!(String::from_utf8(again.stdout).unwrap().replace("\n    ", " "), words + "\n");
}

#[test]
fn an_interface_is_restored_under_its_new_name_and_only_in_its_namespace() {
    if !require_root("an_interface_is_restored_under_its_new_name_and_only_in_its_namespace") {
        return;
    }
    let lab = Lab::with_queues("docname", 2);
    plant(&lab);
    record(&doctor(&lab, &["r0", &format!("--fix={}", FOUND.join(",")), "--json"]));
    // In the namespace, but with /sys of the machine.
    let journal = lab.path("journal");
    let namespace = format!("--net=/run/netns/{}", lab.right.name());
    let mut command = Command::new("nsenter");
    command.args([&namespace, WIRECAP, "doctor", "--undo", "--json", "--journal"]).arg(&journal);
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{refused:#?}");
    assert!(said.contains("/sys shows another network namespace"), "{said}");
    // In another namespace, which has none of these interfaces.
    let elsewhere =
        lab.left.command(WIRECAP).args(["doctor", "--undo", "--journal"]).arg(&journal).output().unwrap();
    let said = String::from_utf8_lossy(&elsewhere.stdout).replace("\n    ", " ");
    assert_eq!(elsewhere.status.code(), Some(1), "{elsewhere:#?}");
    let inode = lab.right.enter(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    let file = journal.join(format!("netns-{inode}.jsonl"));
    for words in [
        "not restored: /sys/class/net/r0/threaded to 1: its interface is in another network namespace;"
            .into(),
        format!(
            "run wirecap doctor --undo --journal {} in net:[{inode}] (lsns -t net), or if that is gone, remove {}",
            journal.display(),
            file.display()
        ),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    // Only what is down can be renamed everywhere, and only what is up polls.
    for change in [&["r0", "down"][..], &["r0", "name", "r9"], &["r9", "up"]] {
        lab.right.ip(&[&["link", "set"], change].concat()).unwrap();
    }
    let undone = record(&doctor(&lab, &["--undo", "--json"]));
    let restored = undone["restored"].as_array().unwrap();
    assert!(restored.len() == FOUND.len() && restored.iter().all(|setting| setting["outcome"] == "restored"));
    let read = |file: &str| fs::read_to_string(Path::new("/sys/class/net/r9").join(file)).unwrap();
    lab.right.enter(|| {
        assert_eq!((read("threaded"), read("gro_flush_timeout")), ("1\n".into(), "50000000\n".into()))
    });
}

#[test]
fn a_doctor_that_is_killed_leaves_what_can_be_undone() {
    if !require_root("a_doctor_that_is_killed_leaves_what_can_be_undone") {
        return;
    }
    let lab = Lab::with_queues("dockill", 2);
    plant(&lab);
    let planted = settings(&lab);
    let names = format!("--fix={}", FOUND.join(","));
    let journal = lab.path("journal");
    let mut finished = 0;
    for round in 0..30_u64 {
        let running = lab.spawn(&["doctor", "r0", &names, "--journal", journal.to_str().unwrap()]);
        // Some before they have begun, some in the middle, some after the end.
        thread::sleep(Duration::from_millis(round * 7 % 60));
        running.signal(Signal::SIGKILL);
        let code = running.wait().code;
        finished += u32::from(code == Some(0));
        // Before it had a journal, it has changed nothing.
        let has_begun = journal.exists();
        let undone = doctor(&lab, &["--undo", "--json"]);
        assert_eq!(undone.code, Some(i32::from(!has_begun)), "{undone:#?}");
        assert_eq!(settings(&lab), planted, "round {round}: {undone:#?}");
    }
    assert!(finished < 30, "some were killed");
}

#[test]
fn a_change_of_queues_is_made_only_on_request() {
    if !require_root("a_change_of_queues_is_made_only_on_request") {
        return;
    }
    if cores() < 2 {
        return skip("a_change_of_queues_is_made_only_on_request", "one core needs one queue");
    }
    let lab = Lab::with_queues("docqueues", 2);
    lab.pairs[0].a().set_channels(1, 1).unwrap();
    lab.pairs[0].b().set_channels(1, 1).unwrap();
    let before = settings_of_queues(&lab);
    // Not --fix alone: it would mend the machine that runs the test, too.
    let unasked = record(&doctor(&lab, &["r0", "--fix=threaded-napi", "--json"]));
    assert_eq!((rules(&unasked), &unasked["applied"]), (vec!["single-queue".into()], &json!([])));
    assert_eq!(of_r0(&unasked)["changes"][0]["needs_request"], true, "{unasked:#}");
    assert_eq!(settings_of_queues(&lab), before);
    let asked = record(&doctor(&lab, &["r0", "--fix=single-queue", "--json"]));
    assert_eq!(asked["applied"][0]["outcome"], "made", "{asked:#}");
    assert_ne!(settings_of_queues(&lab), before);
    record(&doctor(&lab, &["--undo", "--json"]));
    assert_eq!(settings_of_queues(&lab), before);
}

/// The other end has more transmit queues. It may be in another namespace, so the doctor knows of them only
/// by the missing native XDP.
#[test]
fn a_veth_device_without_native_xdp_gets_more_queues() {
    if !require_root("a_veth_device_without_native_xdp_gets_more_queues") {
        return;
    }
    let lab = Lab::with_queues("docveth", 4);
    lab.pairs[0].b().set_channels(1, 4).unwrap();
    let found = record(&doctor(&lab, &["r0", "--fix=veth-queues", "--json"]));
    assert!(rules(&found).contains(&"veth-queues".into()), "{found:#}");
    assert!(!rules(&found).contains(&"generic-xdp".into()), "{found:#}");
    assert_eq!(found["applied"][0]["outcome"], "made", "{found:#}");
    let after = record(&doctor(&lab, &["r0", "--json"]));
    assert!(!rules(&after).contains(&"veth-queues".into()), "{after:#}");
    record(&doctor(&lab, &["--undo", "--json"]));
    let undone = record(&doctor(&lab, &["r0", "--json"]));
    assert!(rules(&undone).contains(&"veth-queues".into()), "{undone:#}");
}

fn settings_of_queues(lab: &Lab) -> String {
    lab.right.ethtool(&["-l", "r0"]).unwrap()
}

#[test]
fn a_program_of_another_is_found_and_sets_the_exit_code_on_request() {
    if !require_root("a_program_of_another_is_found_and_sets_the_exit_code_on_request") {
        return;
    }
    let lab = Lab::new("docxdp", &[VethOptions::default()]);
    let mut pass = Assembler::new();
    pass.mov_imm(Reg::R0, XDP_PASS).exit();
    let pass = pass.finish().unwrap();
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "stranger", &pass)).unwrap();
    let ifindex = lab.pairs[0].b().ifindex().unwrap();
    let link = lab.right.enter(|| Link::attach_xdp(&program, ifindex, XdpMode::Native)).unwrap();
    let held = record(&doctor(&lab, &["r0", "--json"]));
    assert_eq!(rules(&held), ["other-xdp-program"]);
    let text = of_r0(&held)["text"].as_str().unwrap();
    assert!(text.starts_with("the XDP program stranger (id "), "{text}");
    let serious = doctor(&lab, &["r0", "--fail-on-findings"]);
    assert_eq!(serious.code, Some(4), "{serious:#?}");
    drop(link);
}

/// Pools that hold some 5,000 frames.
const SMALL_POOLS: [&str; 6] = ["-M", "64", "-R", "4", "--xdp-mode", "packed"];

/// A capture that is stopped for a moment, and loses packets of queue 0.
fn capture_with_a_loss(lab: &Lab) -> CommandOutput {
    let running = lab.spawn(&[&["capture", "r0", "--json"], &SMALL_POOLS[..]].concat());
    running.wait_for(READY);
    // It starts to watch a moment after it is ready.
    thread::sleep(Duration::from_millis(500));
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, 20_000, LiveOptions::default());
    thread::sleep(Duration::from_millis(1_500));
    running.signal(Signal::SIGCONT);
    thread::sleep(Duration::from_millis(500));
    running.stop()
}

#[test]
fn losses_point_to_the_finding_that_may_explain_them() {
    if !require_root("losses_point_to_the_finding_that_may_explain_them") {
        return;
    }
    if cores() < 2 {
        return skip("losses_point_to_the_finding_that_may_explain_them", "one core needs one queue");
    }
    let lab = Lab::with_queues("docloss", 2);
    lab.pairs[0].a().set_channels(1, 1).unwrap();
    lab.pairs[0].b().set_channels(1, 1).unwrap();
    let ended = capture_with_a_loss(&lab);
    let line = "wirecap: settings of this machine may explain the loss of r0 (";
    let pointer = ended.stderr.lines().find(|said| said.starts_with(line));
    let pointer = pointer.unwrap_or_else(|| panic!("{ended:#?}"));
    assert!(pointer.contains("single-queue") && pointer.ends_with("): wirecap doctor r0"), "{pointer}");
    // The doctor explains the account itself.
    let account = lab.path("account.json");
    fs::write(&account, &ended.stdout).unwrap();
    let explained = record(&doctor(&lab, &["r0", "--account", account.to_str().unwrap(), "--json"]));
    let found = explained["findings"].as_array().unwrap();
    let of = |rule: &str| found.iter().position(|finding| finding["evidence"]["rule"] == rule);
    let (stood, lost) = (of("process-stood").unwrap(), of("lost-no-buffer").unwrap());
    let seconds = found[stood]["evidence"]["seconds"].as_f64().unwrap();
    assert!(stood < lost && (1.5..60.0).contains(&seconds), "{found:#?}");
}

#[test]
fn a_loss_of_one_busy_queue_is_explained_with_what_may_help() {
    if !require_root("a_loss_of_one_busy_queue_is_explained_with_what_may_help") {
        return;
    }
    let lab = Lab::with_queues("docskew", 2);
    let slow = ["handle", "r0", "--pace", "5k", "--threads", "2", "--json"];
    let running = lab.spawn(&[&slow, &SMALL_POOLS[..]].concat());
    running.wait_for(READY);
    lab.send(0, 0, 20_000, LiveOptions::default());
    running.wait_for("WARNING: r0 lost ");
    let ended = running.stop();
    let line = "r0 lost packets in queue 0, which had 100 % of all, of 2 queues (advanced mode, T = 60, R = 4); what may help: against bursts, larger pools: twice the -R of 4";
    // A process that hardly ran is reason enough.
    let always_ran = ended.account().0["stood_seconds"].as_f64() == Some(0.0);
    assert_eq!(ended.stderr.contains(line), always_ran, "{ended:#?}");
    let ended = capture_with_a_loss(&lab);
    assert!(ended.account().0["stood_seconds"].as_f64() > Some(1.0), "{ended:#?}");
    assert!(!ended.stderr.contains("what may help"), "{ended:#?}");
}

#[test]
fn a_recorded_machine_gives_the_same_findings() {
    if !require_root("a_recorded_machine_gives_the_same_findings") {
        return;
    }
    let lab = Lab::with_queues("docrecord", 2);
    plant(&lab);
    let path = lab.path("machine.json");
    let path = path.to_str().unwrap();
    let live = record(&doctor(&lab, &["r0", "--record", path, "--json"]));
    let mut elsewhere = Command::new(WIRECAP);
    elsewhere.args(["doctor", "--snapshot", path, "--json"]);
    let replayed: Value = serde_json::from_slice(&elsewhere.output().unwrap().stdout).unwrap();
    assert_eq!(replayed["findings"], live["findings"]);
    assert_eq!(rules(&replayed), FOUND);
}

#[test]
fn mistakes_are_reported() {
    if !require_root("mistakes_are_reported") {
        return;
    }
    let lab = Lab::with_queues("docwrong", 1);
    let text = lab.path("text");
    fs::write(&text, "hello\n").unwrap();
    let text = text.to_str().unwrap();
    for (arguments, code, words) in [
        (&["r9"][..], 1, "no interface named \"r9\" in this network namespace"),
        (&[], 2, "IFACE"),
        (&["r0", "--fix=ring-sise"], 2, "did you mean ring-size?"),
        (&["r0", "--account", text], 1, "is not what wirecap capture --json prints"),
        (&["--snapshot", text], 1, "is not a snapshot of wirecap doctor --record"),
        (&["r0", "--measure"], 2, "--disk"),
        (&["r0", "r1", "--undo"], 2, "--undo restores the settings of all interfaces: leave out r0 r1"),
        (&["r0", "--disk", "/nonexistent/x"], 1, "cannot read /nonexistent"),
        (&["--undo"], 1, "there is no journal to restore settings from: "),
    ] {
        let ended = doctor(&lab, arguments);
        assert!(!lab.path("journal").exists(), "nothing was changed");
        assert_eq!((ended.code, ended.stdout.len()), (Some(code), 0), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.starts_with("wirecap: ") && ended.stderr.contains(words), "{words}: {ended:#?}");
    }
}
