//! Without privilege, the message names the missing capabilities.

use std::{env, process::Command};

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use wirecap::{
    Capture, Diagnostic, Error, Modes, Timestamp,
    diagnostic::{KernelRefusal, ModeRefusal, PackingRefusal},
    report::{FilterPlace, QueueMode},
};
use wirecap_lab::VethOptions;

use wirecap_testing::{kernel_is_at_least, need_root, wire::Wire};

/// Set for the process without privilege: it runs this same test again.
const NOBODY: &str = "WIRECAP_TEST_NOBODY";
const TEST: &str = "unprivileged::a_process_without_privilege_is_told_which_capabilities_it_needs";
const NOBODY_ID: u32 = 65_534;

#[test]
fn a_process_without_privilege_is_told_which_capabilities_it_needs() {
    if env::var_os(NOBODY).is_some() {
        return open_without_privilege();
    }
    need_root!("unprivileged::a_process_without_privilege_is_told_which_capabilities_it_needs");
    let wire = Wire::with_queues("nobody", 1);
    // Determined here: within the namespace of a test the path may differ.
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
    wire.assert_given_back();
}

/// Set for the process with exactly the documented privilege.
const DOCUMENTED: &str = "WIRECAP_TEST_DOCUMENTED_CAPABILITIES";

#[test]
fn the_documented_capabilities_suffice() {
    if let Some(capabilities) = env::var_os(DOCUMENTED) {
        let with_perfmon = capabilities.to_str().unwrap().contains("perfmon");
        // Frames that fit a cell and frames that do not have different programs.
        for cell_bytes in [2048, 4096] {
            for source in [Timestamp::Batch, Timestamp::Kernel] {
                let builder = Capture::builder().port("in0").chunks_per_pool(4).cell_bytes(cell_bytes);
                let capture = builder.timestamp(source).open().unwrap();
                let port = &capture.report().ports[0];
                let is_missing = |fallback: &Diagnostic| {
                    let reason = ModeRefusal::NotPacked(PackingRefusal::NotPermitted);
                    matches!(fallback, Diagnostic::ModeUnavailable { reason: of, .. } if *of == reason)
                };
                let knows_zero_copy = kernel_is_at_least(6, 3);
                let packs = with_perfmon && knows_zero_copy;
                assert_eq!(port.queues[0].mode == QueueMode::Packed, packs, "{port:#?}");
                assert_eq!(port.fallbacks.iter().any(is_missing), !with_perfmon && knows_zero_copy);
            }
        }
        // The program that packs packets needs arithmetic on addresses, and so do headers of variable length.
        if kernel_is_at_least(5, 18) {
            let builder = Capture::builder().port("in0").modes(Modes::Packed);
            let opened = builder.cells_per_chunk(64).chunks_per_pool(4).open().map(drop);
            let is_refused = |error: &Error| {
                matches!(error, Error::NotPacked { reason: PackingRefusal::NotPermitted, .. })
            };
            assert!(
                if with_perfmon { opened.is_ok() } else { opened.as_ref().is_err_and(is_refused) },
                "{opened:?}"
            );
        }
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
    need_root!("unprivileged::the_documented_capabilities_suffice");
    let program = env::current_exe().unwrap();
    let (least, documented) =
        ("-all,+net_raw,+net_admin,+bpf,+ipc_lock", "-all,+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock");
    for (mtu, capabilities) in [(1500, least), (3000, least), (1500, documented), (3000, documented)] {
        let wire = Wire::new("documented", VethOptions { mtu, ..VethOptions::default() });
        let run = || {
            // The most that the user root gets from the start of the program on.
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set={capabilities}")).arg(&program);
            command.args(["--exact", "unprivileged::the_documented_capabilities_suffice"]);
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

fn open_without_privilege() {
    let (user, group) = (Uid::from_raw(NOBODY_ID), Gid::from_raw(NOBODY_ID));
    setgroups(&[]).unwrap();
    setresgid(group, group, group).unwrap();
    setresuid(user, user, user).unwrap();
    let error = Capture::builder()
        .port("in0")
        .chunks_per_pool(4)
        .open()
        .expect_err("an unprivileged process cannot open the port");
    eprintln!("{error}");
}

/// Set for the process with the documented privilege for interfaces that are not shared.
const NEWCOMER: &str = "WIRECAP_TEST_NEWCOMER";

#[test]
fn founding_needs_no_more_capabilities_and_joining_names_the_extra_one() {
    if let Some(port) = env::var_os(NEWCOMER) {
        match Capture::builder().port(port.to_str().unwrap()).chunks_per_pool(4).open() {
            Ok(_) => eprintln!("opened"),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    need_root!("unprivileged::founding_needs_no_more_capabilities_and_joining_names_the_extra_one");
    let program = env::current_exe().unwrap();
    let wire = Wire::with_queues("newcomer", 2);
    let run = |port: &str, capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set=-all,+net_raw,+net_admin,+bpf,+ipc_lock{capabilities}"));
        command.arg(&program).env(NEWCOMER, port).args([
            "--exact",
            "unprivileged::founding_needs_no_more_capabilities_and_joining_names_the_extra_one",
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
