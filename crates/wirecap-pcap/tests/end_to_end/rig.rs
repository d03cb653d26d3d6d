//! The rig of each test: two namespaces joined by a veth pair, and programs that capture in one of them, each
//! with the system's libpcap or with ours.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tempfile::TempDir;
use wirecap_lab::{Capture, CapturedPacket, VethOptions, VethPair, skip};
use wirecap_testing::{PacketSender, SendPath, running_command::RunningCommand, wait_or_explain, wire::Wire};

use crate::difference;

/// The captured interface.
pub use wirecap_testing::wire::PORT;

/// Which library answers a program's calls of libpcap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    System,
    Wirecap,
}

/// The system's first: what it prints is expected of ours.
pub const LIBRARIES: [Library; 2] = [Library::System, Library::Wirecap];

/// The library under test, which cargo builds beside this program.
pub fn our_library() -> PathBuf {
    let own = env::current_exe().unwrap();
    let path = own.parent().unwrap().join("libwirecap_pcap.so");
    assert!(path.exists(), "cargo has not built {}", path.display());
    path
}

/// Whether a program is installed. If not, the test is skipped, or fails where skipping is forbidden.
pub fn is_installed(test: &str, program: &str, package: &str) -> bool {
    let is_there = env::split_paths(&env::var_os("PATH").unwrap()).any(|place| place.join(program).exists());
    if !is_there {
        assert!(env::var_os("WIRECAP_NO_SKIP").is_none(), "{program} is missing: apt-get install {package}");
        skip(test, &format!("{program} is not installed: apt-get install {package}"));
    }
    is_there
}

/// Returns from a test that lacks root or a program.
macro_rules! need_program {
    ($test:literal, $program:literal, $package:literal) => {
        wirecap_testing::need_root!($test);
        if !$crate::rig::is_installed($test, $program, $package) {
            return;
        }
    };
}

/// Runs the same with both libraries, and requires the same text of both. Returns it.
#[track_caller]
pub fn same(what: &str, run: impl Fn(Library) -> String) -> String {
    let [expected, found] = LIBRARIES.map(run);
    difference::assert_same(what, &expected, &found);
    expected
}

/// Two namespaces with a wire between them, and a directory that every user may write to.
pub struct Rig {
    pub wire: Wire,
    directory: TempDir,
}

impl Rig {
    pub fn new(label: &str) -> Self {
        Self::with(label, VethOptions::default())
    }

    pub fn with(label: &str, options: VethOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Programs give up privileges before they write.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Self { wire: Wire::new(label, options), directory }
    }

    /// Both ends have addresses: 192.0.2.1 outside, 192.0.2.2 inside.
    pub fn with_addresses(label: &str) -> Self {
        let options = VethOptions {
            addresses_a: vec!["192.0.2.1/24".into()],
            addresses_b: vec!["192.0.2.2/24".into()],
            ..VethOptions::default()
        };
        Self::with(label, options)
    }

    /// A second pair: its ends are `out1` and `in1`.
    pub fn second_pair(&self) -> VethPair {
        let Wire { outside, inside, .. } = &self.wire;
        VethPair::new(outside, "out1", inside, "in1", VethOptions::default()).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts a program in the namespace inside.
    pub fn spawn(&self, library: Library, program: &str, arguments: &[&str]) -> Program {
        self.spawn_with(library, &[], program, arguments)
    }

    /// Starts a program with these settings of the environment.
    pub fn spawn_with(
        &self,
        library: Library,
        settings: &[(&str, &str)],
        program: &str,
        arguments: &[&str],
    ) -> Program {
        // Shown if the test fails.
        eprintln!("{library:?}: {settings:?} {program} {}", arguments.join(" "));
        let new_file = || tempfile::NamedTempFile::new_in(self.directory.path()).unwrap().keep().unwrap();
        let ((output, stdout), (_, accounts)) = (new_file(), new_file());
        let mut command = self.wire.inside.command("env");
        command.env("TMPDIR", self.directory.path());
        // They hold for the program alone, not for what starts it.
        if library == Library::Wirecap {
            command.arg(format!("LD_PRELOAD={}", our_library().display()));
            command.arg(format!("WIRECAP_ACCOUNT={}", accounts.display()));
        }
        command.args(settings.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).args(arguments);
        let running = RunningCommand::spawn_into(command, Stdio::from(output));
        Program { running, library, stdout, accounts }
    }

    /// Sends frames of any kind, in order.
    pub fn send<'f>(&self, frames: impl IntoIterator<Item = &'f Vec<u8>>) {
        send_from(&self.wire.veth, frames);
    }

    /// Sends pings from outside to the address inside, with a number that identifies them.
    pub fn ping(&self, count: u32) {
        let count = count.to_string();
        let mut ping = self.wire.outside.command("ping");
        let status = ping.args(["-q", "-c", &count, "-i", "0.01", "-e", "7", "192.0.2.2"]).output().unwrap();
        assert!(status.status.success(), "{status:?}");
    }
}

/// Sends frames from end a of a pair.
pub fn send_from<'f>(pair: &VethPair, frames: impl IntoIterator<Item = &'f Vec<u8>>) {
    let ifindex = pair.a().ifindex().unwrap();
    pair.a().namespace().enter(|| PacketSender::open(ifindex, SendPath::Queueing)).map_or_else(
        |error| panic!("{error}"),
        |mut sender| frames.into_iter().for_each(|frame| sender.send(frame).unwrap()),
    );
}

/// A running program, whose standard output goes to a file.
pub struct Program {
    pub running: RunningCommand,
    library: Library,
    stdout: PathBuf,
    /// Where our library writes its accounts.
    accounts: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// The accounts of the devices that the engine served.
    pub accounts: Vec<Value>,
    /// The latest accounts of captures that could not write their last one.
    pub latest: Vec<Value>,
}

/// The files beside that for accounts: see `account_file.rs` of the library.
fn latest(accounts: &Path) -> impl Iterator<Item = Value> {
    let prefix = format!("{}.", accounts.file_name().unwrap().to_string_lossy());
    let mut files = files(accounts.parent().unwrap());
    files.retain(|file| file.file_name().unwrap().to_string_lossy().starts_with(&prefix));
    files.into_iter().filter_map(|file| {
        let text = fs::read(file).unwrap();
        serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
    })
}

impl Program {
    /// Its standard output so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned()
    }

    /// Waits until its standard output contains `words`.
    #[track_caller]
    pub fn wait_for_output(&self, words: &str) {
        let explain = || format!("no {words:?} in: {}\n{}", self.printed(), self.running.said());
        wait_or_explain(explain, || self.printed().contains(words));
    }

    /// Waits until its standard output has this number of lines.
    #[track_caller]
    pub fn wait_for_lines(&self, lines: usize) {
        let explain = || format!("not {lines} lines: {}\n{}", self.printed(), self.running.said());
        wait_or_explain(explain, || self.printed().lines().count() >= lines);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(self) -> Ended {
        let Self { running, stdout, accounts: accounts_path, .. } = self;
        let ended = running.wait();
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let record =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let records = read(&accounts_path).lines().map(record).collect::<Vec<Value>>();
        let accounts = records.into_iter().filter(|record| record.get("report").is_some()).collect();
        let latest = latest(&accounts_path).collect();
        Ended { code: ended.code, stdout: read(&stdout), stderr: ended.stderr, accounts, latest }
    }

    /// Waits for its end, which must be a good one, and [captured](Ended::assert_captured). Returns its
    /// standard output.
    #[track_caller]
    pub fn succeed(self) -> String {
        let library = self.library;
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.assert_captured(library);
        ended.stdout
    }
}

impl Ended {
    /// Requires that the engine has captured if the library is ours, and that it has lost no packet.
    #[track_caller]
    pub fn assert_captured(&self, library: Library) {
        // A program that exits in a signal handler may have interrupted what keeps the account.
        let accounts = if self.accounts.is_empty() { &self.latest } else { &self.accounts };
        assert_eq!(!accounts.is_empty(), library == Library::Wirecap, "{self:#?}");
        for account in accounts {
            let queue = &account["report"]["ports"][0]["queues"][0];
            assert_eq!(queue["unexplained"], 0, "{account:#}");
            let lost = queue["lost"].as_object().unwrap();
            // A program ends when it has enough.
            let mut lost = lost.iter().filter(|(cause, _)| *cause != "left_at_stop");
            assert!(lost.all(|(_, lost)| *lost == 0), "{account:#}");
        }
    }
}

/// The packets of a capture file, which must be whole.
#[track_caller]
pub fn packets(path: &Path) -> Vec<CapturedPacket> {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let capture = Capture::read(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(capture.damage.is_none(), "{}: {:?}", path.display(), capture.damage);
    capture.packets
}

/// The files of a directory, by name.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Packets as lines, without their times: to compare.
pub fn as_lines(packets: &[CapturedPacket]) -> String {
    let line = |packet: &CapturedPacket| {
        let bytes: String = packet.data.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} of {}: {bytes}\n", packet.data.len(), packet.original_len)
    };
    packets.iter().map(line).collect()
}
