//! The two NICs of the machine, how traffic gets from one to the other, and how the other is captured.

use std::{
    fs,
    process::Command,
    thread,
    time::Duration,
};

use wirecap::{Builder, Capture, Error, Report};
use wirecap_sys::netdev;
use wirecap_traffic::{FrameSpec, PacketSender, SendPath, Template};

use crate::{boot::Plan, ledger::Ledger, support::wait_until};

/// The NIC that is captured, and the one that sends.
pub(crate) const CAPTURED: &str = "eth0";
/// The NIC that sends.
pub(crate) const SENDER: &str = "eth1";
/// Flows of the traffic: so many that each of eight queues gets some.
pub(crate) const FLOWS: u32 = 64;
/// Frames that are sent at once, and the pause after them. An emulated NIC must not be overrun: what it then loses is no
/// loss of wirecap's.
const BURST: u64 = 16;
const PAUSE: Duration = Duration::from_millis(3);

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) name: &'static str,
    pub(crate) ifindex: u32,
    pub(crate) driver: String,
    pub(crate) queues: u32,
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
    /// What the cases have shown.
    pub(crate) ledger: Ledger,
}

impl Machine {
    /// Switches the NICs on, with so many queues, and has them spread UDP flows over them.
    pub(crate) fn set_up(plan: &Plan) -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
        let machine = Self {
            captured: nic(CAPTURED, plan.queues),
            sender: nic(SENDER, plan.queues),
            kernel: kernel.trim().into(),
            zero_copy: plan.zero_copy,
            ledger: Ledger::default(),
        };
        machine.wait_for_links();
        machine
    }

    /// Opens a capture of [`CAPTURED`], waits until frames can come, and notes the modes.
    #[track_caller]
    pub(crate) fn capture(&self, builder: Builder) -> Capture {
        self.try_capture(builder).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, if it can be opened.
    pub(crate) fn try_capture(&self, builder: Builder) -> Result<Capture, Error> {
        let capture = builder.port(format!("xdp:{CAPTURED}")).open()?;
        self.ledger.note_modes(&capture.report());
        self.wait_for_links();
        Ok(capture)
    }

    /// The mode in which queues are to be, in the words of the product.
    pub(crate) fn best_mode(&self) -> &'static str {
        if self.zero_copy { "zero-copy" } else { "copy" }
    }

    /// Ends a capture and notes what came of it.
    #[track_caller]
    pub(crate) fn finish(&self, capture: Capture) -> Report {
        let report = capture.finish();
        self.ledger.note_end(&report);
        report
    }

    /// Traffic from [`SENDER`]: frames like this, numbered from 0.
    pub(crate) fn traffic(&self, spec: FrameSpec) -> Traffic {
        let sender = PacketSender::open(self.sender.ifindex, SendPath::Queueing).unwrap();
        Traffic { sender, template: Template::new(spec).unwrap(), flows: FLOWS, next: 0 }
    }

    /// Drivers reset their NIC when a program comes or goes, and the link is gone for seconds.
    pub(crate) fn wait_for_links(&self) {
        for nic in [CAPTURED, SENDER] {
            wait_until(&format!("the link of {nic} is up"), || netdev::interface(nic).is_ok_and(|nic| nic.carrier));
        }
    }

    /// After a case: the interface belongs to the host again.
    pub(crate) fn settle(&self) {
        let nic = netdev::interface(CAPTURED).unwrap();
        assert!(nic.xdp_programs.is_empty(), "a program was left behind: {:?}", nic.xdp_programs);
        assert!(!nic.is_promiscuous(), "promiscuous mode was left behind");
    }
}

/// Numbered frames, of [`FLOWS`] flows in turn unless that is changed.
pub(crate) struct Traffic {
    sender: PacketSender,
    template: Template,
    pub(crate) flows: u32,
    next: u64,
}

impl Traffic {
    /// Sends so many frames, at a pace that emulated NICs keep up with.
    pub(crate) fn send(&mut self, frames: u64) {
        let end = self.next + frames;
        while self.next < end {
            for sequence in self.next..end.min(self.next + BURST) {
                let flow = (sequence % u64::from(self.flows)) as u32;
                self.sender.send(self.template.stamp(flow, sequence)).unwrap();
                self.next += 1;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Frames that were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.next
    }
}

fn nic(name: &'static str, queues: u32) -> Nic {
    wait_until(&format!("{name} is there"), || netdev::interface(name).is_ok());
    run("ethtool", &["-L", name, "combined", &queues.to_string()]);
    run("ip", &["link", "set", name, "up"]);
    // A driver that cannot be told hashes ports by itself; that all queues get some is checked by the cases.
    let _ = Command::new("ethtool").args(["-N", name, "rx-flow-hash", "udp4", "sdfn"]).output();
    let interface = netdev::interface(name).unwrap();
    let driver = interface.driver.expect("a NIC has a driver").name;
    Nic { name, ifindex: interface.ifindex, driver, queues: interface.queues.current }
}

/// Runs a program that must succeed; gives what it printed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    try_run(program, arguments).unwrap_or_else(|error| panic!("{program} {}: {error}", arguments.join(" ")))
}

/// Runs a program; gives what it printed, or what it said when it failed.
pub(crate) fn try_run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
