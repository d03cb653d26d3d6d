//! Without privilege the message names the capabilities that are missing.

use std::{env, process::Command};

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use wirecap::{Capture, Diagnostic, Timestamp, diagnostic::KernelRefusal, report::FilterPlace};
use wirecap_lab::VethOptions;

use wirecap_testing::{need_root, wire::Wire};

/// Set for the process without privilege: this same test, run again.
const NOBODY: &str = "WIRECAP_TEST_NOBODY";
const TEST: &str = "unprivileged::a_process_without_privilege_gets_the_capabilities_it_needs_named";
const NOBODY_ID: u32 = 65_534;

#[test]
fn a_process_without_privilege_gets_the_capabilities_it_needs_named() {
    if env::var_os(NOBODY).is_some() {
        return open_as_nobody();
    }
    need_root!("unprivileged::a_process_without_privilege_gets_the_capabilities_it_needs_named");
    let wire = Wire::with_queues("nobody", 1);
    // Asked here: within the namespace of a test the path may be another.
    let program = env::current_exe().unwrap();
    let run = || {
        let mut command = Command::new(&program);
        command.args(["--exact", TEST, "--nocapture"]).env(NOBODY, "1").output().unwrap()
    };
    let output = wire.inside.enter(run);
    let said = String::from_utf8(output.stderr).unwrap();
    for word in ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF", "CAP_IPC_LOCK"] {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
    assert!(!wire.is_captured());
}

/// Set for the process with the documented privilege and no more.
const DOCUMENTED: &str = "WIRECAP_TEST_DOCUMENTED_CAPABILITIES";

#[test]
fn the_capabilities_of_the_documentation_suffice() {
    if let Some(capabilities) = env::var_os(DOCUMENTED) {
        let with_perfmon = capabilities.to_str().unwrap().contains("perfmon");
        // Frames that fit a cell and frames that do not: different programs.
        for cell_bytes in [2048, 4096] {
            for source in [Timestamp::Batch, Timestamp::Kernel] {
                let builder = Capture::builder().port("in0").chunks_per_pool(4).cell_bytes(cell_bytes);
                drop(builder.timestamp(source).open().unwrap());
            }
        }
        // Headers of variable length take arithmetic on addresses.
        for port in ["in0", "packet:in0"] {
            let filtered =
                Capture::builder().port(port).chunks_per_pool(4).filter("tcp port 80").open().unwrap();
            let report = filtered.report();
            let (runs, fallbacks) =
                (report.ports[0].filter.as_ref().unwrap().runs, &report.ports[0].fallbacks);
            let is_missing = |fallback: &Diagnostic| {
                matches!(fallback, Diagnostic::FilterNotInKernel { reason: KernelRefusal::NotPermitted, .. })
            };
            let in_kernel = with_perfmon || port.starts_with("packet:");
            assert_eq!(runs == FilterPlace::Kernel, in_kernel, "{port}: {fallbacks:?}");
            assert_eq!(fallbacks.iter().any(is_missing), !in_kernel, "{port}: {fallbacks:?}");
        }
        return;
    }
    need_root!("unprivileged::the_capabilities_of_the_documentation_suffice");
    let program = env::current_exe().unwrap();
    let (least, documented) =
        ("-all,+net_raw,+net_admin,+bpf,+ipc_lock", "-all,+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock");
    for (mtu, capabilities) in [(1500, least), (3000, least), (1500, documented), (3000, documented)] {
        let wire = Wire::new("documented", VethOptions { mtu, ..VethOptions::default() });
        let run = || {
            // What the user root gets at most, from the start of the program on.
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set={capabilities}")).arg(&program);
            command.args(["--exact", "unprivileged::the_capabilities_of_the_documentation_suffice"]);
            command.env(DOCUMENTED, capabilities).output().unwrap()
        };
        let output = wire.inside.enter(run);
        assert!(
            output.status.success(),
            "MTU {mtu}, {capabilities}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

fn open_as_nobody() {
    let (user, group) = (Uid::from_raw(NOBODY_ID), Gid::from_raw(NOBODY_ID));
    setgroups(&[]).unwrap();
    setresgid(group, group, group).unwrap();
    setresuid(user, user, user).unwrap();
    let error = Capture::builder().port("in0").chunks_per_pool(4).open().expect_err("nobody may not");
    eprintln!("{error}");
}

/// Set for the process with the privilege that is documented for interfaces that are not shared.
const NEWCOMER: &str = "WIRECAP_TEST_NEWCOMER";

#[test]
fn founding_takes_the_same_capabilities_and_joining_says_which_one_more() {
    if let Some(port) = env::var_os(NEWCOMER) {
        match Capture::builder().port(port.to_str().unwrap()).chunks_per_pool(4).open() {
            Ok(_) => eprintln!("opened"),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    need_root!("unprivileged::founding_takes_the_same_capabilities_and_joining_says_which_one_more");
    let program = env::current_exe().unwrap();
    let wire = Wire::with_queues("newcomer", 2);
    let run = |port: &str, capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set=-all,+net_raw,+net_admin,+bpf,+ipc_lock{capabilities}"));
        command.arg(&program).env(NEWCOMER, port).args([
            "--exact",
            "unprivileged::founding_takes_the_same_capabilities_and_joining_says_which_one_more",
            "--nocapture",
        ]);
        String::from_utf8(wire.inside.enter(|| command.output().unwrap()).stderr).unwrap()
    };
    assert!(run("in0@0", "").contains("opened"), "the founder does not look at other processes");
    let _other = wire.capture_of("in0@1", Capture::builder().chunks_per_pool(4));
    let refused = run("in0@0", "");
    for word in ["in0 is shared with other processes already", "CAP_SYS_ADMIN"] {
        assert!(refused.contains(word), "no {word:?} in: {refused}");
    }
    let joined = run("in0@0", ",+sys_admin");
    assert!(joined.contains("opened"), "{joined}");
}
