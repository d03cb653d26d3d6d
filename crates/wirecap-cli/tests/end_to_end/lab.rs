//! The laboratory: a veth pair, a running `wirecap`, and its results.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use tempfile::TempDir;
use wirecap_lab::{Capture, CapturedPacket};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::{cpu, netdev};
pub use wirecap_testing::running_command::{Account, CommandOutput, READY, RunningCommand, partial};
use wirecap_testing::{LiveSender, SendAccount, wait_until};
use wirecap_traffic::{FrameSpec, LiveOptions, Marks, Template};

pub const WIRECAP: &str = env!("CARGO_BIN_EXE_wirecap");

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

    /// One pair with this number of queues.
    pub fn with_queues(label: &str, queues: u32) -> Self {
        Self::new(label, &[VethOptions { queues, ..VethOptions::default() }])
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends frames into one pair from one core: they arrive in the queue of that number.
    pub fn send(&self, pair: usize, core: usize, frames: u64, options: LiveOptions) -> SendAccount {
        self.send_at(None, pair, core, frames, options)
    }

    /// Like [`Lab::send`], at a rate in frames per second.
    pub fn send_at(
        &self,
        rate_pps: Option<u64>,
        pair: usize,
        core: usize,
        frames: u64,
        options: LiveOptions,
    ) -> SendAccount {
        let ifindex = self.pairs[pair].a().ifindex().unwrap();
        let sent = self.left.enter(|| {
            cpu::pin_to_core(core).unwrap();
            let sender = LiveSender::new(ifindex, options).unwrap();
            let mut sender = match rate_pps {
                Some(rate_pps) => sender.at(rate_pps),
                None => sender,
            };
            sender.run(frames).unwrap()
        });
        assert_eq!((sent.frames, sent.dropped), (frames, 0), "the generator's side is lossless");
        sent
    }

    /// Sends frames to an interface that may stop receiving, and returns how many it accepted.
    pub fn send_some(&self, pair: usize, core: usize, frames: u64) -> u64 {
        let ifindex = self.pairs[pair].a().ifindex().unwrap();
        self.left.enter(|| {
            cpu::pin_to_core(core).unwrap();
            let mut generator = LiveSender::new(ifindex, LiveOptions::default()).unwrap();
            generator.run(frames).map_or(0, |sent| sent.taken)
        })
    }

    /// Starts `wirecap` with these arguments on the right, without waiting for anything.
    pub fn spawn(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.right.command(WIRECAP);
        command.args(arguments);
        RunningCommand::spawn(command)
    }

    /// Starts `wirecap capture … --json` and waits until it captures.
    pub fn capture(&self, arguments: &[&str]) -> RunningCommand {
        let running = self.spawn(&[&["capture", "--json"], arguments].concat());
        running.wait_for(READY);
        running
    }
}

impl Lab {
    /// Waits until an interface has no XDP program, and a little longer: a capture that stops gives its
    /// interfaces back first.
    pub fn wait_until_given_back(&self, interface: &str) {
        wait_until(&format!("{interface} is given back"), || {
            self.right.enter(|| netdev::interface(interface)).unwrap().xdp_programs.is_empty()
        });
        thread::sleep(Duration::from_millis(100));
    }
}

/// The number of cores that send frames: core 0, and core 1 if there is one.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(2)
}

/// Copies a program, executable for everyone. It runs install(1), because the kernel executes no file that is
/// open for writing: a child that another thread forks during a copy of our own would hold the file open.
#[track_caller]
pub fn install(program: impl AsRef<Path>, to: &Path) {
    let (program, mode) = (program.as_ref(), ["-m", "755"]);
    assert!(Command::new("install").args(mode).args([program, to]).status().unwrap().success());
}

/// Makes an executable file of this text, in the same way.
#[track_caller]
pub fn install_script(text: &str, to: &Path) {
    let written = to.with_extension("text");
    std::fs::write(&written, text).unwrap();
    install(&written, to);
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

/// Requires that the packets of one queue are the first frames of one generator: byte for byte, none missing,
/// none twice, in order, with times that increase.
pub fn assert_frames(packets: &[&CapturedPacket], spec: FrameSpec, snaplen: usize) {
    let mut template = Template::new(spec).unwrap();
    let flows = LiveOptions::default().flows;
    let mut last_ns = 0;
    for (sequence, packet) in packets.iter().enumerate() {
        // A frame cut to the snap length may have no send time.
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
