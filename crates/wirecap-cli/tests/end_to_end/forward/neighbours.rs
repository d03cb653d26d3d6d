//! The router and the kernel's table of neighbours: the host's entries stay unchanged, and a scan starves no
//! new next hop.
//!
//! ```text
//!   left 192.0.2.1 ══ m0 .254 ─ wirecap forward --route ─ m1 198.51.100.254, 10.0.0.254/8 ══ right 198.51.100.1, 10.9.9.9
//! ```

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use wirecap_headers::{MacAddress, checksum};
use wirecap_lab::{MachineLock, Namespace, require_root};

use super::{
    Cable,
    routes::{cause, mac, networks, route},
};
use crate::lab::RunningCommand;

const TABLE: &str = "
    192.0.2.0/24     dev m0
    fd00:1::/64      dev m0
    198.51.100.0/24  dev m1
    fd00:2::/64      dev m1
    10.0.0.0/8       dev m1
";
/// Longer than the pause before the router rechecks known neighbours.
const REFRESHED: Duration = Duration::from_secs(12);

fn ip(host: &Namespace, line: &str) -> String {
    host.ip(&line.split_whitespace().collect::<Vec<_>>()).unwrap()
}

fn set(host: &Namespace, setting: &str, value: &str) {
    host.enter(|| fs::write(format!("/proc/sys/net/{setting}"), value).unwrap());
}

#[test]
fn entries_that_the_kernel_does_not_resolve_stay_unchanged() {
    if !require_root("forward::entries_that_the_kernel_does_not_resolve_stay_unchanged") {
        return;
    }
    // All namespaces share one table of neighbours. Where a scan fills it up, the kernel removes entries
    // without ARP.
    let _alone = MachineLock::wait_for("neighbours");
    let cable = networks("permanent");
    // The right host has these addresses, and answers neither ARP requests nor neighbour solicitations for
    // them.
    set(&cable.right, "ipv4/conf/r0/arp_ignore", "1");
    set(&cable.right, "ipv6/conf/lo/disable_ipv6", "0");
    let right = mac(&cable.right, "r0");
    for (address, kind) in [
        ("198.51.100.2", "nud permanent"),
        ("198.51.100.3", "nud noarp"),
        ("198.51.100.4", "nud reachable extern_learn"),
        ("fd00:2::2", "nud permanent"),
        ("fd00:2::4", "nud stale extern_learn"),
    ] {
        ip(&cable.right, &format!("addr add {address} dev lo"));
        ip(&cable.middle, &format!("neigh replace {address} lladdr {right} dev m1 {kind}"));
    }
    let shown = || {
        let lines = ip(&cable.middle, "neigh show dev m1 nud all");
        // The kernel lists multicast addresses among those without ARP.
        let of_hosts = lines.lines().filter(|line| !line.starts_with("ff"));
        let having = |words: &[&str]| {
            of_hosts.clone().filter(|line| words.iter().any(|word| line.contains(word))).count()
        };
        (having(&["PERMANENT", "NOARP"]), having(&["extern_learn"]), lines.clone())
    };
    assert_eq!((shown().0, shown().1), (3, 2), "{}", shown().2);
    let running = route(&cable, TABLE, &[]);
    let begun = Instant::now();
    while begun.elapsed() < REFRESHED {
        for host in ["198.51.100.2", "198.51.100.3", "198.51.100.4", "fd00:2::2", "fd00:2::4"] {
            cable.assert_ping(3, &[host]);
        }
        assert_eq!((shown().0, shown().1), (3, 2), "{}", shown().2);
        thread::sleep(Duration::from_millis(500));
    }
    let ended = running.stop();
    assert_eq!(cause(&ended, "m0", "no_neighbour"), 0, "{ended:#?}");
    assert_eq!((shown().0, shown().1), (3, 2), "{}", shown().2);
}

/// Stops a scan on drop, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends packets to addresses that no host has, until `stop` is set. Returns how many.
fn scan(cable: &Cable, source: impl Fn(u32) -> [u8; 4], per_second: u32, stop: &AtomicBool) -> u32 {
    let [router, left] = [mac(&cable.middle, "m0"), mac(&cable.left, "l0")];
    let [router, left] = [router, left].map(|mac| mac.parse::<MacAddress>().unwrap().0);
    let mut sender = cable.sender();
    let (begun, mut sent) = (Instant::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        while f64::from(sent) < begun.elapsed().as_secs_f64() * f64::from(per_second) {
            let [_, a, b, c] = sent.to_be_bytes();
            let mut packet = vec![0x45, 0, 0, 28, 0, 7, 0, 0, 64, 17, 0, 0];
            packet.extend(source(sent));
            packet.extend([10, 64 + a, b, c]);
            packet.extend([0xc0, 0, 0x82, 0x35, 0, 8, 0, 0]);
            let _ = checksum::fill(&mut packet);
            sender.send(&[&router[..], &left, &[0x08, 0x00], &packet].concat()).unwrap();
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// The kernel's statistics of the neighbour table, for each CPU. All namespaces share that table, so if it is
/// full, the hosts get no entries either.
fn neighbour_table_statistics() -> String {
    fs::read_to_string("/proc/net/stat/arp_cache").unwrap()
}

/// CPU time of the thread that resolves next hops, in seconds.
fn resolver_seconds(running: &RunningCommand) -> f64 {
    // `ip netns exec` has become wirecap, so the process id is that of wirecap.
    let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
    let of_resolver = tasks
        .map(|task| task.unwrap().path())
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == "wirecap-hops"));
    let stat =
        fs::read_to_string(of_resolver.expect("a thread that resolves next hops").join("schedstat")).unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

#[test]
fn a_scan_of_addresses_that_no_host_has_starves_no_new_next_hop() {
    const PER_SECOND: u32 = 2_000;
    if !require_root("forward::a_scan_of_addresses_that_no_host_has_starves_no_new_next_hop") {
        return;
    }
    // Two scans at a time fill up the table that all namespaces share.
    let _alone = MachineLock::wait_for("neighbours");
    let one = |_: u32| [192, 0, 2, 66_u8];
    let many = |number: u32| {
        let [_, a, b, c] = number.wrapping_mul(2_654_435_761).to_be_bytes();
        [172, 16 | a & 15, b, c]
    };
    // Beside a scan by one source, the first packet of another one gets its share. Beside a scan by many, one
    // packet may be crowded out on a busy machine; a host tries again, and then its next hop is found.
    for (label, source, tries) in [("one", &one as &(dyn Fn(u32) -> [u8; 4] + Sync), 1), ("many", &many, 10)]
    {
        let cable = networks(&format!("scan_by_{label}"));
        ip(&cable.middle, "addr add 10.0.0.254/8 dev m1");
        for host in 1..=9 {
            ip(&cable.right, &format!("addr add 10.9.9.{host}/8 dev r0"));
        }
        let running = route(&cable, TABLE, &[]);
        let stop = AtomicBool::new(false);
        let scanned = thread::scope(|scope| {
            let scanner = scope.spawn(|| scan(&cable, source, PER_SECOND, &stop));
            let end = Stop(&stop);
            // Waits until everything that fills up is full.
            thread::sleep(Duration::from_secs(4));
            let (begun, before) = (Instant::now(), resolver_seconds(&running));
            for host in 1..=8 {
                let address = format!("10.9.9.{host}");
                let patience = if tries == 1 { "20" } else { "3" };
                let mut last = None;
                let mut answers = || {
                    let asked = cable.ping_until_found(&["-c", "1", "-W", patience, &address]);
                    last.insert(asked).status.success()
                };
                let has_answered = (0..tries).any(|_| answers());
                assert!(
                    has_answered,
                    "{label}: {address} does not answer: {last:?}\n{}",
                    neighbour_table_statistics()
                );
                thread::sleep(Duration::from_millis(200));
            }
            let share = (resolver_seconds(&running) - before) / begun.elapsed().as_secs_f64();
            // The host itself finds a new neighbour on that link as well.
            let mut ping = cable.middle.command("ping");
            let asked = ping.args(["-q", "-c", "1", "-W", "5", "10.9.9.9"]).output().unwrap();
            assert!(asked.status.success(), "{label}: {asked:?}");
            drop(end);
            assert!(share < 0.4, "{label}: resolving next hops took {:.0} % of a core", share * 100.0);
            scanner.join().unwrap()
        });
        let ended = running.stop();
        assert!(scanned > 6_000, "{scanned}");
        let unsent = cause(&ended, "m0", "no_neighbour") + cause(&ended, "m0", "waiting_full");
        // Besides the packets of the scan, only repeated pings were dropped.
        assert!((u64::from(scanned)..u64::from(scanned) + 16).contains(&unsent), "{scanned}: {ended:#?}");
    }
}
