//! The laboratory: a veth pair, a running `wirecap`, and what came of it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;
use wirecap_file::{Capture, CapturedPacket};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::{cpu, netdev};
use wirecap_traffic::{FrameSpec, LiveGenerator, LiveOptions, Marks, Sent, Template};

pub const WIRECAP: &str = env!("CARGO_BIN_EXE_wirecap");
/// Longer than anything here takes, also on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// What `wirecap` says once it captures.
pub const READY: &str = "wirecap: M = ";

/// Two namespaces joined by veth pairs, and a directory for files.
pub struct Lab {
    pub left: Namespace,
    pub right: Namespace,
    /// Pair n has the ends `ln` (which sends) and `rn` (which is captured).
    pub pairs: Vec<VethPair>,
    directory: TempDir,
}

impl Lab {
    pub fn new(label: &str, options: &[VethOptions]) -> Self {
        let (left, right) = (Namespace::new(label).unwrap(), Namespace::new(label).unwrap());
        let pair = |(index, options): (usize, &VethOptions)| {
            VethPair::new(&left, &format!("l{index}"), &right, &format!("r{index}"), options.clone()).unwrap()
        };
        let pairs = options.iter().enumerate().map(pair).collect();
        Self { pairs, left, right, directory: tempfile::tempdir().unwrap() }
    }

    /// One pair with so many queues.
    pub fn with_queues(label: &str, queues: u32) -> Self {
        Self::new(label, &[VethOptions { queues, ..VethOptions::default() }])
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends frames into one pair from one core: they arrive in the queue of that number.
    pub fn send(&self, pair: usize, core: usize, frames: u64, options: LiveOptions) -> Sent {
        let ifindex = self.pairs[pair].a().ifindex().unwrap();
        let sent = self.left.enter(|| {
            cpu::pin_to_core(core).unwrap();
            LiveGenerator::new(ifindex, options).unwrap().run(frames).unwrap()
        });
        assert_eq!((sent.frames, sent.dropped), (frames, 0), "the generator's side is lossless");
        sent
    }

    /// Sends frames to an interface that may stop listening meanwhile, and says how many it took.
    pub fn send_some(&self, pair: usize, core: usize, frames: u64) -> u64 {
        let ifindex = self.pairs[pair].a().ifindex().unwrap();
        self.left.enter(|| {
            cpu::pin_to_core(core).unwrap();
            let mut generator = LiveGenerator::new(ifindex, LiveOptions::default()).unwrap();
            generator.run(frames).map_or(0, |sent| sent.taken)
        })
    }

    /// Starts `wirecap` with these arguments inside, without waiting for anything.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = self.right.command(WIRECAP);
        command.args(arguments);
        Running::spawn(command)
    }

    /// Starts `wirecap capture … --json` and waits until it captures.
    pub fn capture(&self, arguments: &[&str]) -> Running {
        let running = self.spawn(&[&["capture", "--json"], arguments].concat());
        running.wait_for(READY);
        running
    }
}

impl Lab {
    /// Waits until there is no XDP program on an interface any more, and a little longer: a capture that is stopped gives it
    /// back first of all.
    pub fn wait_until_given_back(&self, interface: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.right.enter(|| netdev::interface(interface)).unwrap().xdp_programs.is_empty() {
            assert!(Instant::now() < deadline, "{interface} is not given back");
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Cores there are frames from: 0, and 1 if there is one.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(2)
}

/// Lines somebody else is still writing.
#[derive(Default)]
struct Lines {
    text: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

/// A running `wirecap`. Killed when dropped.
pub struct Running {
    child: Child,
    stderr: Arc<Lines>,
    stdout: Option<JoinHandle<Vec<u8>>>,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Running {
    pub fn spawn(command: Command) -> Self {
        let mut running = Self::spawn_unread(command);
        let mut stdout = running.take_stdout();
        running.stdout = Some(thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        }));
        running
    }

    /// Nobody reads its standard output; see [`Running::take_stdout`].
    pub fn spawn_unread(command: Command) -> Self {
        Self::spawn_into(command, Stdio::piped())
    }

    /// With a standard output of the test's own.
    pub fn spawn_into(mut command: Command, stdout: Stdio) -> Self {
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = Arc::new(Lines::default());
        let (lines, pipe) = (Arc::clone(&stderr), BufReader::new(child.stderr.take().unwrap()));
        thread::spawn(move || {
            for line in pipe.lines() {
                lines.text.lock().unwrap().0.push(line.unwrap());
                lines.changed.notify_all();
            }
            lines.text.lock().unwrap().1 = true;
            lines.changed.notify_all();
        });
        Self { child, stderr, stdout: None }
    }

    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says something on standard error.
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut text = self.stderr.text.lock().unwrap();
        while !text.0.iter().any(|line| line.contains(words)) {
            assert!(!text.1 && Instant::now() < deadline, "it did not say {words:?}: {:#?}", text.0);
            text = self.stderr.changed.wait_timeout(text, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Waits until the file has so many bytes.
    pub fn wait_for_bytes(&self, path: &Path, bytes: u64) {
        let deadline = Instant::now() + PATIENCE;
        while std::fs::metadata(path).map_or(0, |file| file.len()) < bytes {
            assert!(Instant::now() < deadline, "{} does not grow", path.display());
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Asks it to end, and waits.
    pub fn stop(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let mut text = self.stderr.text.lock().unwrap();
        while !text.1 {
            text = self.stderr.changed.wait(text).unwrap();
        }
        let stderr = text.0.join("\n");
        drop(text);
        let stdout = self.stdout.take().map_or_else(Vec::new, |reader| reader.join().unwrap());
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The account: the last line of standard output, checked.
    pub fn account(&self) -> Account {
        Account::read(std::str::from_utf8(&self.stdout).unwrap(), self)
    }

    /// The account of a capture whose packets went to standard output.
    pub fn account_on_stderr(&self) -> Account {
        Account::read(&self.stderr, self)
    }
}

/// What `--json` says.
#[derive(Debug)]
pub struct Account(pub Value);

impl Account {
    fn read(text: &str, ended: &Ended) -> Self {
        let last = text.trim_end().lines().last().unwrap_or_else(|| panic!("no account: {ended:#?}"));
        let account = Self(serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ended:#?}")));
        account.check();
        account
    }

    /// The identity, for each queue.
    fn check(&self) {
        for queue in self.queues() {
            let figure = |name: &str| queue[name].as_u64().unwrap();
            let lost: u64 =
                queue["lost"].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum();
            let explained = figure("filtered") + figure("passed") + figure("delivered") + lost;
            assert_eq!(figure("seen"), explained, "{queue:#}");
            assert_eq!((queue["unexplained"].as_i64(), figure("refused")), (Some(0), 0), "{queue:#}");
        }
        let workers: u64 = self.0["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["packets"].as_u64().unwrap())
            .sum();
        assert_eq!(workers, self.sum("delivered"), "{:#}", self.0);
    }

    fn queues(&self) -> Vec<&Value> {
        let ports = self.0["ports"].as_array().unwrap();
        ports.iter().flat_map(|port| port["queues"].as_array().unwrap()).collect()
    }

    /// A figure, over all queues.
    pub fn sum(&self, name: &str) -> u64 {
        self.queues().iter().map(|queue| queue[name].as_u64().unwrap()).sum()
    }

    /// Everything that was sent was delivered.
    pub fn assert_lossless(&self, sent: u64) {
        assert_eq!((self.sum("seen"), self.sum("delivered")), (sent, sent), "{:#}", self.0);
    }

    pub fn written(&self, name: &str) -> u64 {
        self.0["written"][name].as_u64().unwrap_or_else(|| panic!("{:#}", self.0))
    }
}

/// Reads a capture file that must be whole.
pub fn read(path: &Path) -> Capture {
    let capture = Capture::read(std::fs::File::open(path).unwrap()).unwrap();
    assert!(capture.damage.is_none(), "{:?}", capture.damage);
    capture
}

/// The packets of each interface and queue, in the order of the file.
pub fn by_queue(packets: &[CapturedPacket]) -> BTreeMap<(u32, Option<u32>), Vec<&CapturedPacket>> {
    let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for packet in packets {
        queues.entry((packet.interface, packet.queue)).or_default().push(packet);
    }
    queues
}

/// The packets of one queue are the first frames of one generator: each byte for byte what was sent,
/// none missing, none twice, in order, with times that increase.
pub fn assert_frames(packets: &[&CapturedPacket], spec: FrameSpec, snaplen: usize) {
    let mut template = Template::new(spec).unwrap();
    let flows = LiveOptions::default().flows;
    let mut last_ns = 0;
    for (sequence, packet) in packets.iter().enumerate() {
        // What the snap length leaves of a frame may not say when it was sent.
        let sent_ns = Marks::read(&packet.data).map_or(0, |marks| marks.sent_ns);
        let expected = template.stamp_at(sequence as u32 % flows, sequence as u64, sent_ns);
        let kept = expected.len().min(snaplen);
        assert_eq!(packet.data, expected[..kept], "frame {sequence}: {:?}", Marks::read(&packet.data));
        assert_eq!(packet.original_len as usize, expected.len());
        let time_ns = packet.timestamp_ns.unwrap();
        assert!(time_ns > last_ns, "frame {sequence}: {time_ns} ns after {last_ns} ns");
        last_ns = time_ns;
    }
}

/// A small file system that can be filled up. Unmounted when dropped.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    pub fn mount(path: &'a Path) -> Self {
        std::fs::create_dir(path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(path).status();
        assert!(mounted.unwrap().success());
        Self(path)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have a file open.
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}
