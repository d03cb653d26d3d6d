//! `wirecap forward`: two hosts that are connected only through it.
//!
//! ```text
//!   left:l0 ══ m0 ─ wirecap forward ─ m1 ══ r0:right
//! ```

mod changes;
mod discarded;
mod faults;
mod hosts;
mod icmp;
mod malformed;
mod neighbours;
mod own_interfaces;
pub mod routes;
mod stalled;
mod stuck;

use std::{
    path::PathBuf,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_testing::{PATIENCE, PacketSender, SendPath};

use crate::lab::{CommandOutput, READY, RunningCommand, WIRECAP};

/// Between a ping that found no neighbour and the next one.
const BETWEEN_PINGS: Duration = Duration::from_millis(500);

/// The two hosts, and the middle between them.
pub struct Cable {
    pub left: Namespace,
    pub middle: Namespace,
    pub right: Namespace,
    /// Its ends are `l0` and `m0`.
    pub first: VethPair,
    /// Its ends are `r0` and `m1`.
    pub second: VethPair,
    directory: TempDir,
}

impl Cable {
    /// Hosts with the addresses 192.0.2.1 and .2, and fd00::1 and ::2 with IPv6.
    pub fn new(label: &str, options: VethOptions) -> Self {
        let [left, middle, right] =
            ["l", "m", "r"].map(|place| Namespace::new(&format!("{label}_{place}")).unwrap());
        let host = |number: u8| {
            let mut addresses = vec![format!("192.0.2.{number}/24")];
            if options.ipv6 {
                addresses.push(format!("fd00::{number}/64"));
            }
            VethOptions { addresses_a: addresses, ..options.clone() }
        };
        let first = VethPair::new(&left, "l0", &middle, "m0", host(1)).unwrap();
        let second = VethPair::new(&right, "r0", &middle, "m1", host(2)).unwrap();
        Self { left, middle, right, first, second, directory: tempfile::tempdir().unwrap() }
    }

    /// Hosts that send nothing by themselves.
    pub fn quiet(label: &str) -> Self {
        Self::quiet_of(label, VethOptions::default())
    }

    /// The same, over links with these options.
    pub fn quiet_of(label: &str, options: VethOptions) -> Self {
        let cable = Self::new(label, options);
        for (host, name) in [(&cable.left, "l0"), (&cable.right, "r0")] {
            host.ip(&["link", "set", name, "arp", "off"]).unwrap();
        }
        cable
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts `wirecap forward m0 m1 --json` with more arguments, and waits until it forwards.
    pub fn forward(&self, arguments: &[&str]) -> RunningCommand {
        let running = self.spawn(&[&["forward", "m0", "m1", "--json"], arguments].concat());
        running.wait_for(READY);
        running
    }

    /// Starts `wirecap` in the middle.
    pub fn spawn(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.middle.command(WIRECAP);
        command.args(arguments);
        RunningCommand::spawn(command)
    }

    /// A socket that sends raw frames from the left host.
    pub fn sender(&self) -> PacketSender {
        let ifindex = self.first.a().ifindex().unwrap();
        self.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap()
    }

    /// A socket that sends raw frames from the right host.
    pub fn sender_of_right(&self) -> PacketSender {
        let ifindex = self.second.a().ifindex().unwrap();
        self.right.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap()
    }

    /// Starts a capture of `l0` or `r0`, and waits until it captures.
    pub fn listen(&self, port: &str, file: &str, arguments: &[&str]) -> RunningCommand {
        let host = if port.ends_with("r0") { &self.right } else { &self.left };
        let mut command = host.command(WIRECAP);
        command.args(["capture", port, "--json", "-w", self.path(file).to_str().unwrap()]);
        command.args(arguments);
        let running = RunningCommand::spawn(command);
        running.wait_for(READY);
        running
    }

    pub fn ping(&self, arguments: &[&str]) -> Output {
        self.left.command("ping").arg("-q").args(arguments).output().unwrap()
    }

    /// Pings, and requires an answer each time. Each ping is its own process: in a series, ping(8) waits for
    /// a late answer no longer than twice the longest one so far, which is too short on a busy machine.
    pub fn assert_ping(&self, count: u32, arguments: &[&str]) {
        for number in 1..=count {
            let output = self.ping_until_found(&[&["-c", "1", "-W", "20"], arguments].concat());
            let (said, wrong) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(said.contains("1 received"), "{arguments:?}, {number} of {count}: {said}{wrong}");
        }
    }

    /// Pings until the hosts on the way have found their neighbours: on a busy machine an answer may take
    /// longer than the 3 s that they wait for it. After that a router reports an error, and pauses before it
    /// asks again.
    pub fn ping_until_found(&self, arguments: &[&str]) -> Output {
        let begun = Instant::now();
        loop {
            let output = self.ping(arguments);
            let gave_up = String::from_utf8_lossy(&output.stdout).contains("+1 errors");
            if !gave_up || begun.elapsed() > PATIENCE {
                return output;
            }
            thread::sleep(BETWEEN_PINGS);
        }
    }
}

/// The `--json` report about packets that come in by a port.
pub fn way(ended: &CommandOutput, from: &str) -> Value {
    let account = ended.account();
    let ways = account.0["forwarded"].as_array().unwrap_or_else(|| panic!("{ended:#?}")).clone();
    let way = ways.into_iter().find(|way| way["from"] == from).unwrap();
    // Each delivered packet was forwarded, or dropped for a cause.
    let ports = account.0["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == from).unwrap();
    let delivered: u64 =
        port["queues"].as_array().unwrap().iter().map(|queue| queue["delivered"].as_u64().unwrap()).sum();
    assert_eq!(delivered, way["forwarded"].as_u64().unwrap() + dropped(&way), "{ended:#?}");
    way
}

/// Packets that were not forwarded.
pub fn dropped(way: &Value) -> u64 {
    way["dropped"].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum()
}

/// A numbered frame of `len` bytes that no host answers.
pub fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// Whether a program is installed; if not, prints a loud notice.
pub fn have(program: &str, test: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        assert!(std::env::var_os("WIRECAP_NO_SKIP").is_none(), "{program} is missing; install it");
        wirecap_lab::skip(test, &format!("{program} is not installed"));
    }
    there
}
