//! Mistakes: an exit code, one or two lines, a hint, and nothing broken.

use std::process::Command;

use wirecap_lab::{VethOptions, require_root, skip};

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP, install};

fn assert_refused(ended: &CommandOutput, code: i32, hints: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    assert!(ended.stdout.is_empty(), "{ended:#?}");
    assert!(ended.stderr.starts_with("wirecap: ") && ended.stderr.lines().count() <= 2, "{ended:#?}");
    for hint in hints {
        assert!(ended.stderr.contains(hint), "{hint}: {ended:#?}");
    }
}

#[test]
fn wrong_usage_is_found_without_asking_the_machine() {
    for (arguments, hint) in [
        ("capture", "capture needs <IFACE>...; try wirecap capture --help, or wirecap interfaces"),
        ("capture r0 --workres 2", "did you mean --workers?"),
        ("capture r0 --foo", "there is no flag --foo; try"),
        ("capture r0 --rotate 5", "did you mean --rotate-size"),
        ("capture r0 -ip[8]=1", "is given with --filter '-ip[8]=1'"),
        ("capture no-such.pcapng", "write trace:no-such.pcapng"),
        (
            "forward no-such.pcap r0",
            "not an interface; to send a trace file write wirecap replay no-such.pcap",
        ),
        ("capture r0 -M 100", "try 128"),
        ("capture r0 -M -4", "-4"),
        ("capture r0 -T 101", "-T 101: write a number from 0 to 100, like -T 60"),
        ("capture r0 -T -1", "like -T 60"),
        ("capture r0 -R 0", "R (chunks per pool)"),
        ("capture r0 --cell-bytes 1500", "2048 or 4096"),
        ("capture r0 --ring 100", "power of two"),
        ("capture r0 -c 0", "like 1000, 10k"),
        ("capture r0 -c 1T", "like 1000, 10k"),
        ("capture r0 --workers many", "like --workers 4"),
        ("capture r0 --cores 1000", "core 1000 cannot be used; this process may use 0"),
        ("capture r0 --dispatch push --capture-cores 0,1000", "core 1000 cannot be used"),
        ("capture r0 --duration 5w", "ms, s, m, h or d"),
        ("capture r0 --cores 3-1", "1-3"),
        ("capture r0 -w trace.txt", ".pcapng"),
        ("capture r0 xdp:r1 -w trace.pcap", "trace.pcapng"),
        ("capture r0 xdp:r0", "twice"),
        ("catpure r0", "capture"),
        ("capture r0@a", "r0@a: \"a\" is no set of receive queues"),
        ("capture xdp:r0@0-", "0,2-5"),
        ("capture foo:r0", "foo:r0: no port begins with foo:; write r0, xdp:r0, tap:r0 or packet:r0"),
        ("capture a/b", "cannot be the name of an interface"),
        ("capture xdp:", "\"xdp:\" names no port; write eth1"),
        ("capture trace:", "trace:FILE"),
        ("-i r0 -c 3", "did you mean wirecap capture -i?"),
        ("capture r0 -s many", "or with a unit, like 64k"),
        ("set sensor -R 500", "-R cannot be changed while a capture runs"),
    ] {
        let mut command = Command::new(WIRECAP);
        command.args(arguments.split_whitespace());
        assert_refused(&RunningCommand::spawn(command).wait(), 2, &[hint]);
    }
    let mut command = Command::new(WIRECAP);
    command.args(["capture", "trace:no-such-*.pcapng"]);
    let hints = ["trace:no-such-*.pcapng", "; a pattern behind trace: is not expanded, so name each file"];
    assert_refused(&RunningCommand::spawn(command).wait(), 1, &hints);
    let mut command = Command::new(WIRECAP);
    command.args(["replay", "no-such-*.pcapng", "-i", "lo"]);
    let hints = ["no-such-*.pcapng", "; only the shell expands a pattern, and only an unquoted one"];
    assert_refused(&RunningCommand::spawn(command).wait(), 1, &hints);
}

#[test]
fn help_and_version_are_no_errors() {
    for (arguments, words) in [
        (&["--help"][..], "Exit codes:"),
        (&["capture", "--help"], "Examples:"),
        (&["capture", "-h"], "--dispatch"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let mut command = Command::new(WIRECAP);
        command.args(arguments);
        let ended = RunningCommand::spawn(command).wait();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(String::from_utf8(ended.stdout).unwrap().contains(words));
    }
}

#[test]
fn a_full_standard_output_is_named() {
    for (arguments, what) in [
        ("capture --print-config", "the settings"),
        ("forward --print-config", "the settings"),
        ("--help", "the help"),
        ("capture --help", "the help"),
        ("--version", "the version"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {WIRECAP} {arguments} >/dev/full")]);
        let words = format!("cannot print {what} on standard output: No space left on device");
        assert_refused(&RunningCommand::spawn(shell).wait(), 1, &[&words]);
    }
}

#[test]
fn an_interface_that_cannot_be_captured_is_explained() {
    if !require_root("an_interface_that_cannot_be_captured_is_explained") {
        return;
    }
    let addressed =
        VethOptions { addresses_b: vec!["192.0.2.1/24".into()], queues: 2, ..VethOptions::default() };
    // No machine that runs this test has 32 pools of 16 GiB.
    let wide = VethOptions { queues: 32, ..VethOptions::default() };
    let lab = Lab::new("explained", &[VethOptions::default(), addressed, VethOptions::default(), wide]);
    lab.pairs[2].b().set_down().unwrap();
    for (arguments, code, hints) in [
        (&["rO"][..], 1, &["\"rO\"", "wirecap interfaces"][..]),
        (&["r00"], 1, &["r0"]),
        (&["r1", "--xdp-mode", "copy"], 1, &["192.0.2.1/24", "xdp:r1"]),
        (&["tap:r0", "--xdp-mode", "copy"], 2, &["r0 is captured passively; give xdp:r0"]),
        (&["r2"], 1, &["ip link set r2 up"]),
        (&["xdp:lo"], 1, &["loopback"]),
        (&["a-name-that-nobody-has"], 1, &["a-name-that-nobody-has", "wirecap interfaces"]),
        (
            &[
                "a-name-longer-than-any-can-be-0123456789abcdef-0123456789abcdef-0123456789abcdef-0123456789abcdef-0123456789abcdef-0123456789abc",
            ],
            2,
            &["127"],
        ),
        (&["r0", "-M", "16384", "-R", "256", "--cell-bytes", "4096", "r3"], 1, &["MiB", "lower -R"]),
        (
            &["r0", "--xdp-mode", "zero-copy"],
            1,
            &["r0", "the driver does not offer it", "leave --xdp-mode and --require-zero-copy out"],
        ),
        (&["r0", "--require-zero-copy"], 1, &["r0", "zero-copy", "the driver does not offer it"]),
        (&["r0", "--require-zero-copy", "--xdp-mode", "copy"], 2, &["cannot be used with"]),
        (&["r0", "--mode", "basic", "--workers", "3"], 2, &["advanced mode"]),
        (&["r0", "--workers", "100000"], 2, &["workers: 100000 is more than the 256"]),
    ] {
        // A new file is gone afterwards, an old one is unchanged.
        let (new, old) = (lab.path("new.pcapng"), lab.path("old.pcapng"));
        std::fs::write(&old, "precious").unwrap();
        for path in [&new, &old] {
            let output = ["-w", path.to_str().unwrap()];
            let ended = lab.spawn(&[&["capture"], arguments, &output].concat()).wait();
            assert_refused(&ended, code, hints);
        }
        assert!(!new.exists(), "{arguments:?}");
        assert_eq!(std::fs::read(&old).unwrap(), b"precious", "{arguments:?}");
    }
    // With `xdp:`, an interface with an address is taken.
    lab.capture(&["xdp:r1", "--duration", "100ms"]).wait().account();
}

#[test]
fn an_error_with_json_leaves_standard_output_empty() {
    if !require_root("an_error_with_json_leaves_standard_output_empty") {
        return;
    }
    let lab = Lab::with_queues("no_json", 1);
    for (arguments, code) in
        [(&["nosuch"][..], 1), (&["r0", "-M", "100"], 2), (&["r0", "-w", "/no/such.pcap"], 1)]
    {
        assert_refused(&lab.spawn(&[&["capture", "--json"], arguments].concat()).wait(), code, &[]);
    }
}

#[test]
fn an_interface_that_another_process_holds_is_refused() {
    if !require_root("an_interface_that_another_process_holds_is_refused") {
        return;
    }
    let lab = Lab::with_queues("held", 1);
    let running = lab.capture(&["r0"]);
    let ended = lab.spawn(&["capture", "r0"]).wait();
    assert_refused(
        &ended,
        1,
        &["wirecap: r0 is held by the XDP program wirecap of ", "(pid ", "); end that process"],
    );
    assert_eq!(ended.stderr.matches("is held by").count(), 1, "reported once: {ended:#?}");
    let ended = running.stop();
    assert!(!ended.stderr.contains("is up"), "the first capture is undisturbed: {ended:#?}");
    ended.account();
}

#[test]
fn a_missing_privilege_is_named() {
    if !require_root("a_missing_privilege_is_named") {
        return;
    }
    let lab = Lab::new("unprivileged", &[VethOptions::default(), VethOptions::default()]);
    // Other users may have no access to the build directory.
    let program = std::env::temp_dir().join(format!("wirecap-{}", std::process::id()));
    install(WIRECAP, &program);
    let as_nobody = |arguments: &[&str]| {
        let mut command = lab.right.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(arguments);
        RunningCommand::spawn(command).wait()
    };
    let capture = as_nobody(&["capture", "r0"]);
    let forward = as_nobody(&["forward", "r0", "r1"]);
    let generate = as_nobody(&["generate", "-i", "r0", "--count", "1"]);
    let denied = as_nobody(&["capture", "r0", "-w", "/x.pcapng"]);
    let interfaces = as_nobody(&["interfaces"]);
    std::fs::remove_file(&program).unwrap();
    let remedy = format!("cap_ipc_lock+ep {}", program.display());
    for ended in [capture, forward, generate] {
        assert_refused(
            &ended,
            1,
            &["CAP_NET_RAW", "run as root (sudo), or", "sudo setcap cap_net_raw,", &remedy],
        );
        assert!(ended.has_one_line_of_stderr(), "nothing precedes the error: {ended:#?}");
    }
    assert_refused(&denied, 1, &["cannot write /x.pcapng", "Permission denied", "choose a directory"]);
    assert_eq!(interfaces.code, Some(0), "{interfaces:#?}");
}

/// As in a rootless container.
#[test]
fn capabilities_that_do_not_reach_the_interface_are_told_apart() {
    const TEST: &str = "capabilities_that_do_not_reach_the_interface_are_told_apart";
    if !require_root(TEST) {
        return;
    }
    let lab = Lab::new("rootless", &[VethOptions::default()]);
    let in_user_namespace = |program: &str, arguments: &[&str]| {
        let mut command = lab.right.command("unshare");
        command.args(["--user", "--map-root-user", program]).args(arguments);
        RunningCommand::spawn(command).wait()
    };
    if in_user_namespace("true", &[]).code != Some(0) {
        return skip(TEST, "no user namespace can be made here");
    }
    let ended = in_user_namespace(WIRECAP, &["capture", "r0"]);
    let words = ["has all capabilities that wirecap needs", "seccomp=unconfined", "rootless containers"];
    assert_refused(&ended, 1, &words);
    assert!(!ended.stderr.contains("setcap"), "{ended:#?}");
}
