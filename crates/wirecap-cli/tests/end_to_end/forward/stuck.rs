//! A router with one stuck output: the other output gets all of its packets.
//!
//! ```text
//!   left:l0 ══ m0 ─┐                         ┌─ m1 ══ r0:right
//!                  wirecap forward --route ──┤
//!                                            └─ m2 ══ s0 ──► h0, a queue that lets ten frames a second through
//! ```
//!
//! Packets that arrive at `s0` go into the queueing discipline of `h0` without a copy. So the kernel
//! completes them late, and their cells stay with the transmit ring of `m2`.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use wirecap_headers::{MacAddress, checksum};
use wirecap_lab::require_root;

use super::{Cable, dropped, routes::mac, way};
use crate::lab::READY;

/// One in `STUCK_EVERY` frames leaves by the stuck port.
const STUCK_EVERY: u64 = 20;
/// How long the healthy port may take for a window.
const WINDOW_TIMEOUT: Duration = Duration::from_secs(20);

/// INVARIANT: `m2`, `s0` and `h0` are in one namespace and go with it, at once. The kernel cannot delete `m2`
/// as long as `h0` has packets of its socket.
struct Fork {
    cable: Cable,
    path: std::path::PathBuf,
    /// The counter of frames that the right host has received.
    received: File,
}

impl Fork {
    fn new(label: &str) -> Self {
        let cable = Cable::quiet(label);
        for (name, peer) in [("m2", "s0"), ("h0", "h1")] {
            let ip = |line: &[&str]| _ = cable.middle.ip(line).unwrap();
            ip(&["link", "add", name, "type", "veth", "peer", "name", peer]);
            for end in [name, peer] {
                ip(&["link", "set", end, "up"]);
            }
        }
        for line in [
            "qdisc add dev h0 root tbf rate 8kbit burst 2000 limit 1gb",
            "qdisc add dev s0 ingress",
            "filter add dev s0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev h0",
        ] {
            let output = cable.middle.command("tc").args(line.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "tc {line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let table = format!(
            "198.51.100.0/24 dev m1 lladdr {}\n203.0.113.0/24 dev m2 lladdr {}\n",
            mac(&cable.right, "r0"),
            mac(&cable.middle, "s0"),
        );
        let path = cable.path("table.txt");
        fs::write(&path, table).unwrap();
        let received = "/sys/class/net/r0/statistics/rx_packets";
        let received = cable.right.enter(|| File::open(received)).unwrap();
        Self { cable, path, received }
    }

    /// A datagram to a host behind the router.
    fn frame(&self, to: [u8; 4]) -> Vec<u8> {
        let [router, left] = [mac(&self.cable.middle, "m0"), mac(&self.cable.left, "l0")]
            .map(|address| address.parse::<MacAddress>().unwrap().0);
        let mut packet = vec![0x45, 0, 0, 100, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1];
        packet.extend(to);
        packet.extend([0x10, 0, 0x20, 0, 0, 80, 0, 0]);
        packet.resize(100, 0);
        let _ = checksum::fill(&mut packet);
        [&router[..], &left, &[0x08, 0x00], &packet].concat()
    }

    /// Frames that the right host has received.
    fn arrived(&self) -> u64 {
        let mut text = [0; 32];
        let len = self.received.read_at(&mut text, 0).unwrap();
        std::str::from_utf8(&text[..len]).unwrap().trim().parse().unwrap()
    }

    /// Sends frames, one in [`STUCK_EVERY`] to the stuck port, never more than `window` ahead of the right
    /// host. Returns how many were for the right host, and how many of them arrived.
    fn send(&self, frames: u64, window: u64) -> (u64, u64) {
        let [healthy, stuck] = [[198, 51, 100, 1], [203, 0, 113, 1]].map(|to| self.frame(to));
        let (mut sender, before) = (self.cable.sender(), self.arrived());
        let mut sent = 0;
        for number in 0..frames {
            if number % STUCK_EVERY == 0 {
                sender.send(&stuck).unwrap();
                continue;
            }
            sender.send(&healthy).unwrap();
            sent += 1;
            if sent % (window / 4) == 0 && !self.wait_for(before + sent.saturating_sub(3 * window / 4)) {
                break;
            }
        }
        let healthy = frames - frames / STUCK_EVERY;
        if sent == healthy {
            self.wait_for(before + sent);
        }
        (healthy, self.arrived() - before)
    }

    fn wait_for(&self, frames: u64) -> bool {
        let begun = Instant::now();
        while self.arrived() < frames {
            if begun.elapsed() > WINDOW_TIMEOUT {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        true
    }

    /// Routes frames, one in [`STUCK_EVERY`] to the stuck port, which ends with `share` cells. All others
    /// arrive.
    fn route(&self, (frames, window, share): (u64, u64, u64), arguments: &[&str]) {
        let flags = ["forward", "m0", "m1", "m2", "--json", "--route", self.path.to_str().unwrap()];
        let begun = Instant::now();
        let running = self.cable.spawn(&[&flags[..], arguments].concat());
        running.wait_for(READY);
        let (sent, arrived) = self.send(frames, window);
        let ended = running.stop();
        assert_eq!(arrived, sent, "{arguments:?}: {}", ended.stderr);
        let (way, account) = (way(&ended, "m0"), ended.account());
        let stuck = &account.0["ports"][2]["transmitted"][0];
        assert_eq!(account.0["ports"][0]["queues"][0]["lost"]["no_free_cell"], 0, "{arguments:?}: {way:#}");
        // Ten cells leave in a second, and twenty at once at the start: at most all of them since the last
        // frame came.
        let (held, left) = (stuck["in_flight"].as_u64().unwrap(), 20 + 10 * begun.elapsed().as_secs() + 10);
        assert!((share.saturating_sub(left)..=share).contains(&held), "{arguments:?}: {stuck:#}");
        // All frames that did not fit were dropped for one cause.
        let (taken, offered) = (stuck["packets"].as_u64().unwrap(), frames / STUCK_EVERY);
        assert_eq!(way["forwarded"], sent + taken, "{arguments:?}: {way:#}");
        assert_eq!(way["dropped"]["over_share"], offered - taken, "{arguments:?}: {way:#}");
        assert_eq!(dropped(&way), offered - taken, "{arguments:?}: {way:#}");
    }
}

#[test]
fn a_stuck_output_costs_the_others_nothing() {
    if !require_root("forward::a_stuck_output_costs_the_others_nothing") {
        return;
    }
    // A sixth of a pool of 32 chunks of 256 cells: three outputs share half of it.
    let share = 32 * 256 / 6;
    for asked in ["drop", "wait"] {
        Fork::new(&format!("stuck_{asked}")).route((80_000, 1_000, share), &["--on-full", asked]);
    }
}

#[test]
fn an_output_holds_no_more_than_its_share_at_any_sizes() {
    if !require_root("forward::an_output_holds_no_more_than_its_share_at_any_sizes") {
        return;
    }
    for (cells, chunks, ring) in [("2", "4096", "4096"), ("256", "4", "2048"), ("1024", "2", "2048")] {
        let pool: u64 = cells.parse::<u64>().unwrap() * chunks.parse::<u64>().unwrap();
        let sizes = ["-M", cells, "-R", chunks, "--transmit-ring", ring, "--on-full", "drop"];
        // A new fork each time: stuck packets keep the socket of `m2`.
        Fork::new(&format!("share_{cells}")).route((10 * pool, pool / 10, pool / 6), &sizes);
    }
}
