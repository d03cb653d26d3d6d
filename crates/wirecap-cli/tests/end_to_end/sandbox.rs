//! What the threads of a running command have given up, as the kernel shows it.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use wirecap_lab::{require_root, skip};
use wirecap_sandbox::Support;
use wirecap_testing::wait_or_explain;
use wirecap_traffic::LiveOptions;

use crate::{
    forward::routes::{networks, route},
    lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP, install, install_script, read},
};

const CHOWN: u64 = 1;
const DAC_OVERRIDE: u64 = 1 << 1;
const FOWNER: u64 = 1 << 3;
const NET_ADMIN: u64 = 1 << 12;
const SYS_PTRACE: u64 = 1 << 19;
const BPF: u64 = 1 << 39;
/// What the main thread of a capture keeps that has taken an interface.
const MAIN: u64 = NET_ADMIN | SYS_PTRACE | BPF;

const NOBODY: u32 = 65_534;
/// The thread that runs the program of `-z`.
const COMMANDS: &str = "wirecap-command";
/// The thread that serves the control socket, and the capabilities that it keeps.
const SERVER: (&str, u64) = ("wirecap-serve", 0);

/// A thread, as /proc shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    name: String,
    user: u32,
    capabilities: [u64; 2],
    is_confined: bool,
}

fn threads(pid: u32) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let word = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        let set = |name: &str| u64::from_str_radix(&word(name), 16).unwrap();
        Some(Thread {
            name: word("Name"),
            user: word("Uid").parse().unwrap(),
            capabilities: [set("CapEff"), set("CapPrm")],
            is_confined: (word("NoNewPrivs"), word("Seccomp")) == ("1".into(), "2".into()),
        })
    };
    // A thread may end in between.
    tasks.filter_map(read).collect()
}

/// Waits until the threads of all these kinds, by the beginnings of their names, work, and each has given up
/// all capabilities but those beside its kind.
#[track_caller]
fn assert_kept(running: &RunningCommand, user: u32, expected: &[(&str, u64)]) {
    let is_as_expected = |thread: &Thread| {
        let kept = expected.iter().find(|(name, _)| thread.name.starts_with(name));
        kept.is_some_and(|&(_, kept)| {
            thread.capabilities == [kept; 2] && thread.is_confined && thread.user == user
        })
    };
    let all = || {
        let threads = threads(running.pid());
        let is_there = |(name, _): &(&str, u64)| threads.iter().any(|thread| thread.name.starts_with(name));
        let mut confined = threads.iter().filter(|thread| thread.name != COMMANDS);
        expected.iter().all(is_there) && confined.all(is_as_expected)
    };
    wait_or_explain(|| format!("{:#?}", threads(running.pid())), all);
}

/// Whether this kernel has everything that these tests are about.
fn is_supported(test: &str) -> bool {
    let support = Support::find();
    if !support.is_complete() {
        skip(test, &format!("this kernel restricts only {support}"));
    }
    support.is_complete()
}

/// The entry of a kind of thread in an account.
fn entry<'a>(account: &'a Value, kind: &str) -> &'a Value {
    let threads = account["sandbox"]["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {account:#}"))
}

fn assert_ended(ended: &CommandOutput, frames: u64) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    account.assert_lossless(frames);
    account.0
}

#[test]
fn each_thread_of_a_capture_keeps_only_what_it_needs() {
    const TEST: &str = "each_thread_of_a_capture_keeps_only_what_it_needs";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    const FRAMES: u64 = 10_000;
    let lab = Lab::with_queues("kept", 2);
    // Without GRO, a veth takes no live frames while it has no XDP program.
    lab.pairs[0].b().set_gro(true).unwrap();
    let series = lab.path("x.pcapng");
    let series = series.to_str().unwrap();
    let writes = |flags: &[&'static str]| [&["r0", "-w", series, "-C", "200k"], flags].concat();
    let writer = CHOWN | DAC_OVERRIDE | FOWNER;
    for (arguments, expected, kept) in [
        (
            writes(&["-z", "true"]),
            vec![("wirecap-work-", 0), ("wirecap-writer", writer), SERVER, ("wirecap", MAIN)],
            json!([
                { "capability": "CAP_NET_ADMIN", "reason": "interfaces" },
                { "capability": "CAP_SYS_PTRACE", "reason": "names_of_processes" },
                { "capability": "CAP_BPF", "reason": "interfaces" },
            ]),
        ),
        (
            vec!["tap:r0", "--file-per-queue", "-w", series],
            vec![("wirecap-work-", 0), ("wirecap-file-", writer), SERVER, ("wirecap", NET_ADMIN | BPF)],
            json!([
                { "capability": "CAP_NET_ADMIN", "reason": "interfaces" },
                { "capability": "CAP_BPF", "reason": "interfaces" },
            ]),
        ),
        (
            vec!["r0", "--xdp-mode", "copy", "--dispatch", "push"],
            vec![("wirecap-cap-", 0), ("wirecap-work-", 0), SERVER, ("wirecap", MAIN)],
            Value::Null,
        ),
    ] {
        let running = lab.capture(&arguments);
        assert_kept(&running, 0, &expected);
        let command = threads(running.pid()).into_iter().find(|thread| thread.name == COMMANDS);
        // The program of -z has what every program of root has.
        assert_eq!(command.map(|thread| thread.is_confined), arguments.contains(&"-z").then_some(false));
        lab.send(0, 0, FRAMES, LiveOptions::default());
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account().0;
        assert_eq!(account["sandbox"]["state"], "on", "{account:#}");
        let worker = entry(&account, "worker");
        assert_eq!((&worker["capabilities"], &worker["system_calls"]["state"]), (&json!([]), &json!("on")));
        let server = entry(&account, "server");
        assert_eq!((&server["capabilities"], &server["files"]["state"]), (&json!([]), &json!("on")));
        if kept != Value::Null {
            assert_eq!(entry(&account, "main")["capabilities"], kept, "{account:#}");
        }
    }
}

#[test]
fn a_process_becomes_a_user_who_owns_its_files() {
    const TEST: &str = "a_process_becomes_a_user_who_owns_its_files";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    const FRAMES: u64 = 20_000;
    let lab = Lab::with_queues("user", 1);
    let directory = lab.path("of-nobody");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(directory.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = directory.join("x.pcapng");
    let file = file.to_str().unwrap();
    let arguments = ["r0", "-Z", "nobody", "-w", file, "-C", "256k"];

    // What this user may not write is refused at the start, and nothing was touched.
    let refused = lab.spawn(&[&["capture"], &arguments[..]].concat()).wait();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("choose a directory you may write to"), "{refused:#?}");
    lab.wait_until_given_back("r0");

    chown(&directory, Some(NOBODY), None).unwrap();
    let script = lab.path("who.sh");
    install_script(&format!("#!/bin/sh\nid -u >>{}/who\n", directory.display()), &script);
    let running = lab.capture(&[&arguments[..], &["-z", script.to_str().unwrap()]].concat());
    let expected = [("wirecap-work-", 0), ("wirecap-writer", 0), SERVER, ("wirecap", MAIN)];
    assert_kept(&running, NOBODY, &expected);
    assert!(threads(running.pid()).iter().all(|thread| thread.user == NOBODY), "the thread of -z, too");
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let account = assert_ended(&running.stop(), FRAMES);
    assert_eq!(account["sandbox"]["user"], "nobody");
    let mut packets = 0;
    for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
        assert_eq!(entry.metadata().unwrap().uid(), NOBODY, "{entry:?}");
        if entry.path().extension().is_some_and(|extension| extension == "pcapng") {
            packets += read(&entry.path()).packets.len() as u64;
        }
    }
    assert_eq!(packets, FRAMES);
    let who = fs::read_to_string(directory.join("who")).unwrap();
    assert!(who.lines().count() > 1 && who.lines().all(|user| user == "65534"), "{who}");
    lab.wait_until_given_back("r0");
}

#[test]
fn users_that_cannot_be_are_wrong_usage() {
    if !require_root("users_that_cannot_be_are_wrong_usage") {
        return;
    }
    let run = |user: Option<u32>, name: &str| {
        let mut command = Command::new(WIRECAP);
        command.args(["capture", "trace:-", "-Z", name]);
        user.map(|user| command.uid(user));
        RunningCommand::spawn(command).wait()
    };
    let unknown = run(None, "no-such-user");
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    assert!(unknown.stderr.contains("-Z no-such-user: there is no such user"), "{unknown:#?}");
    // Where everyone may execute the program.
    let everyone = tempfile::tempdir().unwrap();
    fs::set_permissions(everyone.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = everyone.path().join("wirecap");
    install(WIRECAP, &program);
    let mut command = Command::new(program);
    command.args(["capture", "trace:-", "-Z", "nobody"]).uid(NOBODY).current_dir("/");
    let unprivileged = RunningCommand::spawn(command).wait();
    assert_eq!(unprivileged.code, Some(2), "{unprivileged:#?}");
    assert!(unprivileged.stderr.contains("only root can become another user"), "{unprivileged:#?}");
}

#[test]
fn without_the_sandbox_nothing_is_given_up_and_that_is_said() {
    if !require_root("without_the_sandbox_nothing_is_given_up_and_that_is_said") {
        return;
    }
    let lab = Lab::with_queues("off", 1);
    let running = lab.capture(&["r0", "--no-sandbox"]);
    lab.send(0, 0, 100, LiveOptions::default());
    let threads = threads(running.pid());
    assert!(
        threads.iter().all(|thread| !thread.is_confined && thread.capabilities[0] & BPF != 0),
        "{threads:#?}"
    );
    let ended = running.stop();
    assert!(ended.stderr.contains("WARNING: the sandbox is off"), "{ended:#?}");
    let account = assert_ended(&ended, 100);
    assert_eq!(account["sandbox"], json!({ "state": "off", "user": null, "threads": [] }));
}

#[test]
fn a_router_asks_for_neighbours_with_one_capability() {
    const TEST: &str = "a_router_asks_for_neighbours_with_one_capability";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    let cable = networks("kept");
    let running = route(&cable, "192.0.2.0/24 dev m0\n198.51.100.0/24 dev m1\n", &[]);
    let expected = [("wirecap-hops", NET_ADMIN), ("wirecap-work-", 0), SERVER, ("wirecap", MAIN)];
    assert_kept(&running, 0, &expected);
    // The next hop has to be found first.
    cable.assert_ping(1, &["198.51.100.1"]);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account().0;
    let kept = json!([{ "capability": "CAP_NET_ADMIN", "reason": "neighbours" }]);
    assert_eq!(entry(&account, "neighbours")["capabilities"], kept, "{account:#}");
}

#[test]
fn the_time_of_a_series_is_local_in_the_sandbox_too() {
    const TEST: &str = "the_time_of_a_series_is_local_in_the_sandbox_too";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    if !Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists() {
        return skip(TEST, "there are no time zones: apt-get install tzdata");
    }
    let lab = Lab::with_queues("zone", 1);
    let name = lab.path("%H_%M_%S.pcapng");
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "-G", "200ms", "-W", "3", "-w", name.to_str().unwrap()]);
    command.env("TZ", "Asia/Tokyo");
    let running = RunningCommand::spawn(command);
    running.wait_for(READY);
    // Files begin and end with the times of packets.
    lab.send_at(Some(5_000), 0, 0, 5_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let directory = name.parent().unwrap();
    let hours: Vec<u64> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().file_name().to_str().unwrap()[..2].parse().unwrap())
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let in_tokyo = (now / 3_600 + 9) % 24;
    assert!(hours.len() >= 3, "{hours:?}");
    assert!(
        hours.iter().all(|&hour| hour == in_tokyo || (hour + 1) % 24 == in_tokyo),
        "{hours:?}, not {in_tokyo}"
    );
}

#[test]
fn a_sandbox_whose_calls_are_refused_is_incomplete_and_that_is_said() {
    const TEST: &str = "a_sandbox_whose_calls_are_refused_is_incomplete_and_that_is_said";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    let lab = Lab::with_queues("refused", 1);
    let trial = Path::new(WIRECAP).with_file_name("wirecap-sandbox-trial");
    let trial = trial.to_str().unwrap();
    for (errno, reason) in [("1", "refused"), ("38", "not_in_kernel")] {
        let mut command = lab.right.command(trial);
        command.args(["refuse", errno, WIRECAP, "capture", "--json", "r0"]);
        let running = RunningCommand::spawn(command);
        running.wait_for(READY);
        lab.send(0, 0, 100, LiveOptions::default());
        let ended = running.stop();
        let is_refused = reason == "refused";
        let words = "WARNING: the sandbox is incomplete, since calls were refused (files (Landlock): ";
        assert_eq!(ended.stderr.contains(words), is_refused, "{ended:#?}");
        let account = assert_ended(&ended, 100);
        assert_eq!(account["sandbox"]["state"], "partial", "{account:#}");
        let worker = entry(&account, "worker");
        assert_eq!(
            (&worker["files"]["reason"], &worker["system_calls"]["reason"]),
            (&json!(reason), &json!(reason))
        );
        lab.wait_until_given_back("r0");
    }
}
