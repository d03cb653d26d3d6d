//! `wirecap run`: programs that capture by libpcap, on the engine.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::Value;
use tempfile::TempDir;
use wirecap_testing::{need_root, schema::check_record, wait_until};
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP, install, read};

/// The library, which cargo builds beside this program.
pub fn library() -> PathBuf {
    let own = env::current_exe().unwrap();
    let path = own.parent().unwrap().join("libwirecap_pcap.so");
    assert!(path.exists(), "cargo has not built {}", path.display());
    path
}

/// `wirecap run` with these arguments, to its end, in this process's own namespace.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(WIRECAP);
    command.arg("run").args(arguments).env("WIRECAP_LIBRARY", library()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

impl Lab {
    /// Starts `wirecap run` with these arguments on the right.
    fn run(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.right.command(WIRECAP);
        command.arg("run").args(arguments).env("WIRECAP_LIBRARY", library());
        RunningCommand::spawn(command)
    }
}

#[test]
fn the_exit_code_and_the_output_are_the_programs() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
        let output = run(&["--quiet", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert_eq!(stderr(&output), "", "{script}");
    }
    let output = run(&["no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("there is no program no-such-program-anywhere in PATH"), "{output:?}");
}

#[test]
fn arguments_behind_the_program_are_the_programs() {
    for before in [&["--quiet", "--"][..], &["--quiet"], &["-q", "-R", "200", "-T", "70", "--"]] {
        let arguments = [before, &["printf", "%s|", "-R", "--account", "--", "-n", "a b", ""]].concat();
        let output = run(&arguments);
        assert_eq!(output.stdout, b"-R|--account|--|-n|a b||", "{arguments:?}: {output:?}");
    }
}

#[test]
fn arguments_may_be_any_bytes() {
    let mut command = Command::new(WIRECAP);
    command.args(["run", "--quiet", "printf", "%s"]).arg(OsStr::from_bytes(b"\xff\xfe"));
    let output = command.env("WIRECAP_LIBRARY", library()).output().unwrap();
    assert_eq!(output.stdout, b"\xff\xfe", "{output:?}");
}

/// As under nohup, and in the background of a script.
#[test]
fn signals_that_are_ignored_stay_ignored_in_the_program() {
    let script = "trap '' HUP INT; exec \"$0\" run --quiet sh -c 'kill -HUP $$; kill -INT $$; echo alive'";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script, WIRECAP]).env("WIRECAP_LIBRARY", library()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"alive\n"[..]), "{output:?}");
}

#[test]
fn a_library_that_the_loader_cannot_preload_is_named() {
    let directory = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
    let copy = directory.path().join("libwirecap_pcap.so");
    fs::copy(library(), &copy).unwrap();
    for (named, words) in
        [(copy.as_path(), "has a space or a colon"), (Path::new("/no/such"), "does not exist")]
    {
        let mut command = Command::new(WIRECAP);
        let output = command.args(["run", "true"]).env("WIRECAP_LIBRARY", named).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(words), "{output:?}");
    }
}

#[test]
fn a_program_that_did_not_capture_on_the_engine_is_named() {
    let output = run(&["true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("WARNING: true left no account: it did not use libpcap"), "{output:?}");
    let output = run(&["tcpdump", "-d", "-y", "EN10MB", "udp"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{output:?}");
    let output = run(&["--account", "tcpdump", "-d", "-y", "EN10MB", "udp"]);
    assert!(stderr(&output).contains("WARNING: tcpdump captured from no device"), "{output:?}");
    need_root!("a_program_that_did_not_capture_on_the_engine_is_named");
    let output = run(&["timeout", "-s", "INT", "1", "tcpdump", "-i", "lo", "-w", "/dev/null"]);
    assert!(stderr(&output).contains("WARNING: timeout captured lo by libpcap itself"), "{output:?}");
}

/// A tcpdump that was started by a shell, which may give up root's privileges before, and has 500 packets.
struct CapturingTcpdump {
    running: RunningCommand,
    pid: Pid,
    /// The library, where every user can read it.
    _library: TempDir,
}

impl CapturingTcpdump {
    fn start(lab: &Lab, user: &str) -> Self {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let copy = directory.path().join("libwirecap_pcap.so");
        fs::copy(library(), &copy).unwrap();
        let (pid, file) = (directory.path().join("pid"), directory.path().join("packets.pcap"));
        let script = format!(
            "echo $$ > {}; exec {user} tcpdump -Z root -U -i r0 -w {}",
            pid.display(),
            file.display()
        );
        let mut command = lab.right.command(WIRECAP);
        command.args(["run", "--account", "--", "sh", "-c", &script]).env("WIRECAP_LIBRARY", &copy);
        let running = RunningCommand::spawn(command);
        running.wait_for("listening on");
        lab.send(0, 0, 500, LiveOptions::default());
        running.wait_for_bytes(&file, 24 + 500 * 76);
        let pid = Pid::from_raw(fs::read_to_string(&pid).unwrap().trim().parse().unwrap());
        Self { running, pid, _library: directory }
    }

    /// Its latest account, which is in a directory of the command under the number of the process.
    fn latest_account(&self) -> Option<String> {
        let files = |directory: &Path| {
            let files = fs::read_dir(directory).into_iter().flatten().flatten();
            files.map(|file| file.path()).collect::<Vec<_>>()
        };
        let own = |path: &PathBuf| path.to_string_lossy().contains("wirecap-account-");
        let directories = files(&env::temp_dir()).into_iter().filter(own).flat_map(|outer| files(&outer));
        let name = format!("account.{}.0", self.pid);
        directories.map(|inner| inner.join(&name)).find_map(|path| fs::read_to_string(path).ok())
    }
}

/// The row of r0 in an account, behind the number of the process.
fn row_of_r0(stderr: &str) -> Vec<&str> {
    let row = stderr.lines().find(|line| line.starts_with("r0")).expect("an account");
    row.split_whitespace().skip(2).collect()
}

/// Also one that has given up its privileges before it has used libpcap.
#[test]
fn a_program_that_is_killed_has_an_account() {
    need_root!("a_program_that_is_killed_has_an_account");
    for user in ["", AS_NOBODY] {
        let lab = Lab::with_queues("killed", 1);
        let tcpdump = CapturingTcpdump::start(&lab, user);
        let has_all = || tcpdump.latest_account().is_some_and(|text| text.contains("\"seen\":500"));
        wait_until("the latest account has all packets", has_all);
        nix::sys::signal::kill(tcpdump.pid, Signal::SIGKILL).unwrap();
        let CapturingTcpdump { running, pid, _library } = tcpdump;
        let ended = running.wait();
        assert_eq!(ended.code, Some(137), "{ended:#?}");
        let warning = format!("WARNING: process {pid} did not close r0");
        assert!(ended.stderr.contains(&warning), "{}", ended.stderr);
        assert_eq!(row_of_r0(&ended.stderr), ["500", "500", "0", "0"], "{}", ended.stderr);
    }
}

#[test]
fn a_program_that_gives_up_its_privileges_first_has_an_account() {
    need_root!("a_program_that_gives_up_its_privileges_first_has_an_account");
    let lab = Lab::with_queues("nobody", 1);
    let tcpdump = CapturingTcpdump::start(&lab, AS_NOBODY);
    let status = fs::read_to_string(format!("/proc/{}/status", tcpdump.pid)).unwrap();
    assert!(status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")), "{status}");
    tcpdump.running.signal(Signal::SIGINT);
    let ended = tcpdump.running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(row_of_r0(&ended.stderr), ["500", "500", "0", "0"], "{}", ended.stderr);
    assert!(!ended.stderr.contains("WARNING"), "{}", ended.stderr);
}

#[test]
fn the_account_has_the_figures_of_the_capture() {
    need_root!("the_account_has_the_figures_of_the_capture");
    let lab = Lab::with_queues("account", 1);
    let path = lab.path("account.pcap");
    let file = path.to_str().unwrap();
    for (flags, filter, refused) in
        [(&["--account"][..], "udp", 0), (&["--account", "-R", "200"], "tcp", 500)]
    {
        let _ = fs::remove_file(&path);
        let program = ["--", "tcpdump", "-Z", "root", "-U", "-i", "r0", "-w", file, filter];
        let running = lab.run(&[flags, &program].concat());
        running.wait_for("listening on");
        lab.send(0, 0, 500, LiveOptions::default());
        running.wait_for_bytes(&path, 24 + (500 - refused) * 76);
        // A process sends it to the command, which passes it on.
        running.signal(Signal::SIGINT);
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(read(&path).packets.len() as u64, 500 - refused);
        let rows = ended.stderr.lines().skip_while(|line| !line.starts_with("device"));
        let rows: Vec<Vec<_>> = rows.map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 2, "{}", ended.stderr);
        assert_eq!(rows[0], ["device", "pid", "seen", "delivered", "refused", "lost"]);
        assert_eq!((rows[1][0], &rows[1][2..]), ("r0", &["500", "500", &refused.to_string(), "0"][..]));
    }
}

/// Of a batch that it was given, for instance by `tcpdump -c`.
#[test]
fn packets_that_the_program_did_not_read_are_counted() {
    need_root!("packets_that_the_program_did_not_read_are_counted");
    let lab = Lab::with_queues("unread", 1);
    let running =
        lab.run(&["--account", "--", "tcpdump", "-Z", "root", "-i", "r0", "-c", "5", "-w", "/dev/null"]);
    running.wait_for("listening on");
    // Enough for a batch: the first packet alone wakes the program.
    lab.send(0, 0, 50_000, LiveOptions::default());
    let ended = running.wait();
    let rows = ended.stderr.lines().skip_while(|line| !line.starts_with("device"));
    let rows: Vec<Vec<_>> = rows.map(|line| line.split_whitespace().collect()).collect();
    let of = |name: &str| {
        let column = rows[0].iter().position(|head| *head == name);
        column.map_or(0, |column| rows[1][column].parse::<u64>().unwrap())
    };
    assert_eq!(of("delivered"), 5 + of("unread"), "{}", ended.stderr);
}

#[test]
fn settings_reach_the_library() {
    need_root!("settings_reach_the_library");
    let lab = Lab::with_queues("reach", 1);
    let config = lab.path("settings.toml");
    fs::write(&config, "cells_per_chunk = 32\n").unwrap();
    let config = config.to_str().unwrap();
    let memory = |flags: &[&str], device: &str| {
        let program = ["--", "tcpdump", "-Z", "root", "-i", device, "-c", "1", "-w", "/dev/null"];
        let running = lab.run(&[&["--json"], flags, &program].concat());
        running.wait_for("listening on");
        lab.send(0, 0, 10, LiveOptions::default());
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let record = ended.stderr.lines().find(|line| line.starts_with('{')).expect("an account");
        let record: Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["device"], device);
        check_record("run", &record);
        ["cells_per_chunk", "chunks_per_pool"].map(|name| record["report"]["memory"][name].as_u64().unwrap())
    };
    assert_eq!(memory(&["-M", "64", "-R", "200"], "r0"), [64, 200]);
    assert_eq!(memory(&["--config", config, "-R", "150"], "r0"), [32, 150]);
    // Settings after a device's name apply to that device alone, and override the flags.
    assert_eq!(memory(&["-M", "64", "-R", "200"], "r0?R=100"), [64, 100]);
}

#[test]
fn the_library_is_found_beside_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let command = directory.path().join("wirecap");
    install(WIRECAP, &command);
    fs::copy(library(), directory.path().join("libwirecap_pcap.so")).unwrap();
    let version = Command::new(&command).args(["run", "-q", "tcpdump", "--version"]).output().unwrap();
    let text = String::from_utf8_lossy(&version.stdout).into_owned() + &stderr(&version);
    assert!(text.contains(&format!(", on wirecap {}", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn a_statically_linked_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("static");
    let source = directory.path().join("static.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut cc = Command::new("cc");
    let built = cc.arg("-static").arg("-o").args([&program, &source]).status().unwrap();
    assert!(built.success(), "cc -static needs libc6-dev");
    assert_refused(&program, "is statically linked: its libpcap is part of it and cannot be replaced");
}

/// It changes from root to another user.
#[test]
fn a_program_that_changes_its_user_is_refused() {
    need_root!("a_program_that_changes_its_user_is_refused");
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    install("/bin/true", &program);
    std::os::unix::fs::chown(&program, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_refused(&program, "changes its user (setuid), so the loader does not preload libraries into it");
}

/// The user that has nothing.
const NOBODY: u32 = 65_534;
/// Runs a program as that user, with the capabilities that a capture takes.
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups \
                         --inh-caps=-all,+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock \
                         --ambient-caps=-all,+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock";

#[track_caller]
fn assert_refused(program: &Path, why: &str) {
    let output = run(&[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains(why), "{output:?}");
}
