//! The two NICs of the machine: one sends traffic, the other is captured.

use std::{fs, process::Command, thread, time::Duration};

use wirecap::{Builder, Capture, Error, Report, report::PortReport};
use wirecap_sys::netdev;
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, Random, Template};

use wirecap_testing::{check, crew::Crew, kernel_is_at_least, wait_or_explain, wait_until};

use crate::{
    boot::{LargeFrames, Plan},
    ledger::Ledger,
};

/// The NIC that is captured.
pub(crate) const CAPTURED: &str = "eth0";
/// The NIC that sends.
pub(crate) const SENDER: &str = "eth1";
/// Flows of the traffic: enough that each of eight queues gets some.
pub(crate) const FLOWS: u32 = 256;
/// Number of source ports that flows choose from.
const SOURCE_PORTS: u32 = 60_000;
/// Frames sent at once.
const BURST: u64 = 16;
/// Frames sent that the capture has not yet seen, at most.
const IN_FLIGHT: u64 = 48;
/// The pause after each burst when arrivals cannot be counted.
const PAUSE: Duration = Duration::from_millis(5);

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) ifindex: u32,
    pub(crate) driver: String,
    pub(crate) queues: u32,
}

/// The mode of a driver that has native XDP but no zero-copy. Before Linux 6.3 the kernel does not say
/// beforehand whether a driver has zero-copy, so packets are not packed.
pub(crate) fn without_zero_copy() -> &'static str {
    if kernel_is_at_least(6, 3) { "packed" } else { "copy" }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) captured: Nic,
    pub(crate) sender: Nic,
    /// Version of the kernel.
    pub(crate) kernel: String,
    /// Whether the driver has zero-copy on this kernel.
    pub(crate) zero_copy: bool,
    /// What happens to frames larger than a cell.
    pub(crate) large_frames: LargeFrames,
    /// Whether to run the library's end-to-end tests.
    pub(crate) end_to_end: bool,
    /// The results of the cases.
    pub(crate) ledger: Ledger,
}

impl Machine {
    /// Brings the NICs up with the plan's number of queues, and has them spread UDP flows over the queues.
    pub(crate) fn set_up(plan: &Plan) -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
        let machine = Self {
            captured: nic(CAPTURED, plan.queues),
            sender: nic(SENDER, plan.queues),
            kernel: kernel.trim().into(),
            zero_copy: plan.zero_copy,
            large_frames: plan.large_frames,
            end_to_end: plan.end_to_end,
            ledger: Ledger::default(),
        };
        machine.wait_for_links();
        machine
    }

    /// A capture of the usual size, with the cell size that zero-copy needs.
    pub(crate) fn builder(&self) -> Builder {
        Capture::builder().chunks_per_pool(16).cell_bytes(self.cell_bytes())
    }

    /// The cell size that zero-copy needs: igb receives frames of 1,514 bytes only into cells of 4 KiB.
    pub(crate) fn cell_bytes(&self) -> u32 {
        if self.captured.driver == "igb" { 4096 } else { 2048 }
    }

    /// Opens a capture of [`CAPTURED`], waits until frames can arrive, and notes the modes. Asserts that each
    /// queue of each port is in the best mode of the driver.
    #[track_caller]
    pub(crate) fn capture(&self, builder: Builder) -> Capture {
        let capture = self.capture_in_any_mode(builder);
        for port in &capture.report().ports {
            assert_mode(port, self.best_mode());
        }
        capture
    }

    /// As [`Self::capture`], with a cell for each packet.
    #[track_caller]
    pub(crate) fn capture_in_cells(&self, builder: Builder) -> Capture {
        let capture = self.capture_in_any_mode(builder.keep_packets(true));
        for port in &capture.report().ports {
            assert_mode(port, if self.zero_copy { "zero-copy" } else { "copy" });
        }
        capture
    }

    /// As [`Self::capture`], in any mode: for cases that check the mode themselves.
    #[track_caller]
    pub(crate) fn capture_in_any_mode(&self, builder: Builder) -> Capture {
        self.try_capture(builder).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Self::capture_in_any_mode`], or the error.
    pub(crate) fn try_capture(&self, builder: Builder) -> Result<Capture, Error> {
        let capture = builder.port(format!("xdp:{CAPTURED}")).open()?;
        self.ledger.note_start();
        self.ledger.note_modes(&capture.report());
        self.wait_for_links();
        self.spread();
        Ok(capture)
    }

    /// Restores how virtio-net spreads packets over its queues: attaching a program makes the driver set the
    /// number of queues, and the device then forgets its table.
    pub(crate) fn spread(&self) {
        if self.captured.driver == "virtio_net" {
            let queues = netdev::interface(CAPTURED).unwrap().queues.current.to_string();
            // Devices without RSS spread in their own way.
            let _ = try_run("ethtool", &["-X", CAPTURED, "equal", &queues]);
        }
    }

    /// Has [`CAPTURED`] use `queues` queues.
    pub(crate) fn set_queues(&self, queues: u32) {
        // The kernel refuses to remove a queue that a configured RSS table uses.
        let _ = try_run("ethtool", &["-X", CAPTURED, "default"]);
        if netdev::interface(CAPTURED).unwrap().queues.current != queues {
            run("ethtool", &["-L", CAPTURED, "combined", &queues.to_string()]);
            self.ledger.note_given_back();
        }
    }

    /// Sets [`CAPTURED`] up as at the start, after its driver was unbound and bound again.
    pub(crate) fn set_up_again(&self) {
        let again = nic(CAPTURED, self.captured.queues);
        assert_eq!(again.queues, self.captured.queues);
        self.wait_for_links();
    }

    /// The mode that queues must have, as reports name it.
    pub(crate) fn best_mode(&self) -> &'static str {
        if self.zero_copy { "zero-copy" } else { without_zero_copy() }
    }

    /// Waits until the workers have at least `packets` packets.
    #[track_caller]
    pub(crate) fn wait_for(&self, packets: u64, crew: &Crew, capture: &Capture) {
        let explain = || {
            let (arrived, report) = (crew.arrived(), capture.report());
            let counters = run("ip", &["-s", "-s", "link", "show"]);
            let driver = run("ethtool", &["-S", CAPTURED]);
            let driver = driver.lines().filter(|line| !line.ends_with(": 0")).collect::<Vec<_>>().join("\n");
            format!("{packets} packets arrive, {arrived} have: {report:#?}\n{counters}\n{driver}")
        };
        wait_or_explain(explain, || crew.arrived() >= packets);
    }

    /// Sends this many frames to a capture, which gets each once, intact, in order, and loses none.
    pub(crate) fn send_all(&self, mut capture: Capture, spec: FrameSpec, frames: u64) {
        let crew = Crew::eager(capture.take_workers());
        self.traffic(spec).send(&capture, frames);
        self.wait_for(frames, &crew, &capture);
        capture.stopper().stop();
        let arrivals = crew.join();
        check::in_order(&arrivals);
        check::each_once(check::intact(&arrivals, spec), frames, 0);
        assert_eq!(check::account_closed(&capture.finish()).lost.total(), 0, "{spec:?}");
    }

    /// Ends a capture, notes its account and returns its report.
    #[track_caller]
    pub(crate) fn finish(&self, capture: Capture) -> Report {
        self.ledger.note_given_back();
        let report = capture.finish();
        self.ledger.note_end(&report);
        report
    }

    /// Traffic from [`SENDER`]: frames of `spec`, numbered from 0.
    pub(crate) fn traffic(&self, spec: FrameSpec) -> Traffic {
        let sender = self.sender();
        Traffic { sender, template: Template::new(spec).unwrap(), flows: FLOWS, next: 0 }
    }

    /// A sender of any frames. It bypasses the queueing discipline: Debian's default, fq_codel, drops frames
    /// that wait too long, as any frame may on a busy machine.
    pub(crate) fn sender(&self) -> PacketSender {
        PacketSender::open(self.sender.ifindex, SendPath::Direct).unwrap()
    }

    /// Waits until both links are up: drivers reset their NIC when a program is attached or detached, and the
    /// link is then down for seconds.
    pub(crate) fn wait_for_links(&self) {
        for nic in [CAPTURED, SENDER] {
            wait_until(&format!("the link of {nic} is up"), || {
                netdev::interface(nic).is_ok_and(|nic| nic.carrier)
            });
        }
    }

    /// Takes the links down. Some kernels mark the queues of virtio-net as broken when they switch off; if a
    /// transmit queue is cleaned just then, the cleaning never ends (mended by Linux commit 0d0eff39ceb3).
    pub(crate) fn take_down(&self) {
        for nic in [CAPTURED, SENDER] {
            // All results are printed, so nothing depends on it.
            let _ = try_run("ip", &["link", "set", nic, "down"]);
        }
    }

    /// Restores the state of the start after a failed case, as far as possible.
    pub(crate) fn recover(&self) {
        let _ = self.ledger.take_given_back();
        let queues = self.captured.queues.to_string();
        for words in [
            &["-X", CAPTURED, "default"][..],
            &["-L", CAPTURED, "combined", &queues],
            &["-K", CAPTURED, "rxvlan", "on"],
        ] {
            let _ = try_run("ethtool", words);
        }
        for nic in [CAPTURED, SENDER] {
            let _ = try_run("ip", &["link", "set", nic, "up", "mtu", "1500"]);
        }
        let _ = try_run("ip", &["address", "flush", "dev", CAPTURED]);
    }
}

/// Sends numbered frames, of `flows` flows in turn: [`FLOWS`] unless a case changes it.
pub(crate) struct Traffic {
    sender: PacketSender,
    template: Template,
    pub(crate) flows: u32,
    next: u64,
}

impl Traffic {
    /// The flow of a frame: its low byte is `sequence` modulo `flows`, its other bits are pseudo-random. A
    /// NIC hashes an address by an exclusive or of words of a key drawn at each boot, one word for each set
    /// bit: addresses that differ in only six bits miss half of eight queues at one boot in nine.
    pub(crate) fn flow_of(sequence: u64, flows: u32) -> u32 {
        let flow = (sequence % u64::from(flows)) as u32;
        flow | (Random::new(flow.into()).below(SOURCE_PORTS) << u8::BITS)
    }

    /// Sends `frames` frames, no faster than `capture` sees them: frames that an overrun emulated NIC loses
    /// are no loss of wirecap's.
    pub(crate) fn send(&mut self, capture: &Capture, frames: u64) {
        let seen = || capture.report().total().seen;
        let ahead = self.next.saturating_sub(seen());
        self.send_while(frames, |sent| sent.saturating_sub(seen() + ahead) <= IN_FLIGHT);
    }

    /// Sends `frames` frames. After each burst, waits until `room`, given the number of frames sent so far,
    /// returns true.
    pub(crate) fn send_while(&mut self, frames: u64, room: impl Fn(u64) -> bool) {
        let end = self.next + frames;
        while self.next < end {
            for sequence in self.next..end.min(self.next + BURST) {
                let flow = Self::flow_of(sequence, self.flows);
                self.sender.send(self.template.stamp(flow, sequence)).unwrap();
            }
            self.next = end.min(self.next + BURST);
            let sent = self.next;
            wait_until(&format!("frame {sent} arrives"), || room(sent));
        }
    }

    /// Sends `frames` frames slowly enough for every NIC, for when arrivals cannot be counted.
    pub(crate) fn send_slowly(&mut self, frames: u64) {
        self.send_while(frames, |_| {
            thread::sleep(PAUSE);
            true
        });
    }

    /// Frames sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.next
    }
}

/// Asserts that the port captures every queue of its interface, in the mode `expected`.
#[track_caller]
pub(crate) fn assert_mode(port: &PortReport, expected: &str) {
    let modes: Vec<&str> = port.queues.iter().map(|queue| queue.mode.as_str()).collect();
    let queues = netdev::interface(&port.name).unwrap().queues.current;
    assert_eq!(modes, vec![expected; queues as usize], "{}: {:#?}", port.name, port.fallbacks);
}

fn nic(name: &'static str, queues: u32) -> Nic {
    wait_until(&format!("{name} exists"), || netdev::interface(name).is_ok());
    run("ethtool", &["-L", name, "combined", &queues.to_string()]);
    run("ip", &["link", "set", name, "up"]);
    // A driver without this setting hashes ports anyway; the cases check that all queues get packets.
    let _ = Command::new("ethtool").args(["-N", name, "rx-flow-hash", "udp4", "sdfn"]).output();
    let interface = netdev::interface(name).unwrap();
    let driver = interface.driver.expect("a NIC has a driver").name;
    Nic { ifindex: interface.ifindex, driver, queues: interface.queues.current }
}

/// Runs a program that must succeed. Returns its output.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    try_run(program, arguments).unwrap_or_else(|error| panic!("{program} {}: {error}", arguments.join(" ")))
}

/// Runs a program. Returns its output, or its error output if it fails.
pub(crate) fn try_run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
