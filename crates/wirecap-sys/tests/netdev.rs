//! Queries about interfaces in the test's own network namespace: a veth pair with four queues each way.
//!
//! Needs root and the commands `ip` and `ping`. Without root the tests are skipped, loudly: WIRECAP_NO_SKIP
//! makes that a failure, and WIRECAP_SKIP_LOG names a file that lists the skipped tests.

use std::env;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS, XdpMode};
use wirecap_sys::netdev::{
    AttachedMode, AttachedProgram, Error, HardwareType, Interface, LinkChanges, LinkEvent, LinkReader,
    LinkStatistics, PromiscuousMode, QueueSource, changes, interface, interfaces,
};

/// Whether hosts can reach the interface: it has an address other than the link-local one that every
/// interface gives itself.
fn has_ip_address(interface: &Interface) -> bool {
    interface.addresses.iter().any(|address| !address.is_ipv6_link_local())
}

/// A network namespace with the pair `left` and `right` in it; deleted at the end of the test, even if that
/// fails.
struct Namespace {
    name: String,
}

impl Namespace {
    /// `None` without root: the test is skipped.
    fn with_veth_pair() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip();
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = Self { name: format!("wctest-{}-netdev-{number}", std::process::id()) };
        run("ip", &["netns", "add", &namespace.name]);
        let queues = "numrxqueues 4 numtxqueues 4";
        namespace.ip(&format!("link add left mtu 1400 {queues} type veth peer name right mtu 1400 {queues}"));
        // No router solicitations and the like: only the test's own packets.
        namespace.ip("link set left addrgenmode none");
        namespace.ip("link set right addrgenmode none");
        namespace.ip("link set left up");
        namespace.ip("link set right up");
        Some(namespace)
    }

    /// Runs `ip` in the namespace.
    fn ip(&self, arguments: &str) {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(arguments.split_whitespace());
        run("ip", &all);
    }

    /// Runs `test` on a thread that is in the namespace.
    fn enter<T: Send>(&self, test: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace has a name there");
        let inside = || {
            setns(&file, CloneFlags::CLONE_NEWNET).expect("setns needs CAP_SYS_ADMIN: run the tests as root");
            test()
        };
        std::thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // No panic here: `drop` may run during another panic.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// Prints that the running test was skipped, and logs it if WIRECAP_SKIP_LOG is set.
fn skip() {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test of netdev");
    assert!(
        env::var_os("WIRECAP_NO_SKIP").is_none(),
        "{test} needs root, and WIRECAP_NO_SKIP forbids skipping"
    );
    eprintln!("SKIPPED: {test}: needs root");
    if let Some(path) = env::var_os("WIRECAP_SKIP_LOG") {
        let mut log = File::options().create(true).append(true).open(path).unwrap();
        writeln!(log, "{test}: needs root").unwrap();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
}

/// The first event, within five seconds, that `wanted` accepts.
fn await_event(changes: &mut LinkChanges, wanted: impl Fn(&LinkEvent) -> bool) -> LinkEvent {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        while let Some(event) = changes.next_event().unwrap() {
            if wanted(&event) {
                return event;
            }
        }
        assert!(Instant::now() < deadline, "the event did not come");
        let mut fds = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(200_u8)).unwrap();
    }
}

#[test]
fn a_veth_is_described() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let left: Interface = namespace.enter(|| interface("left").unwrap());
    assert_eq!(left.name, "left");
    assert_eq!((left.up, left.carrier, left.mtu), (true, true, 1400));
    assert_eq!(left.hardware_type, HardwareType::ETHERNET);
    assert!(left.mac.is_some());
    let driver = left.driver.as_ref().expect("veth answers ETHTOOL_GDRVINFO");
    assert_eq!((driver.name.as_str(), driver.bus.as_deref()), ("veth", None));
    assert_eq!((left.queues.current, left.queues.max, left.queues.source), (4, 4, QueueSource::Driver));
    assert_eq!(left.speed_mbps, Some(10_000));
    assert_eq!((left.numa_node, left.master), (None, None));
    assert!(!has_ip_address(&left) && left.promiscuity == 0);
    assert!(left.xdp_programs.is_empty());
}

#[test]
fn xdp_features_of_a_veth_are_native_and_not_zero_copy() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let Some(features) = namespace.enter(|| interface("left").unwrap()).xdp_features else {
        // "unknown" is right only where the kernel is older than the query.
        let release = nix::sys::utsname::uname().unwrap().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert!(version < (6, 3), "kernel {release} should report XDP features");
        return;
    };
    assert!(features.native && features.redirect && features.multi_buffer, "{features:?}");
    assert!(!features.zero_copy, "{features:?}");
    assert_eq!(features.zero_copy_max_segments, None);
}

#[test]
fn all_interfaces_of_the_namespace_and_no_other_are_listed_by_index() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let (all, each) = namespace.enter(|| {
        let all = interfaces().unwrap();
        let each: Vec<_> = all.iter().map(|one| interface(&one.name).unwrap()).collect();
        (all, each)
    });
    let mut names: Vec<_> = all.iter().map(|interface| interface.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["left", "lo", "right"]);
    assert!(all.is_sorted_by_key(|interface| interface.ifindex));
    assert_eq!(all, each, "the list and the single queries agree");
    let loopback = &all[0];
    assert_eq!((loopback.name.as_str(), loopback.hardware_type), ("lo", HardwareType::LOOPBACK));
    assert_eq!((loopback.up, loopback.mac, &loopback.driver), (false, None, &None));
    assert_eq!((loopback.queues.current, loopback.queues.source), (1, QueueSource::Allocated));
}

#[test]
fn queues_can_be_read_again_from_any_namespace() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    // Some machines have no ethtool -L; a pair made with fewer queues shows the same.
    namespace.ip("link add three numrxqueues 3 type veth peer name other numtxqueues 3");
    let (mut reader, left, three) = namespace.enter(|| {
        let ifindex = |name: &str| interface(name).unwrap().ifindex;
        (LinkReader::open().unwrap(), ifindex("left"), ifindex("three"))
    });
    namespace.ip("link set three name renamed");
    assert_eq!(reader.queues(left).unwrap().current, 4);
    assert_eq!(reader.queues(three).unwrap().current, 3);
    assert_eq!(reader.statistics(left).unwrap().rx_packets, 0);
    assert!(matches!(reader.queues(99_999), Err(Error::NoSuchIndex(_))));
    assert!(matches!(reader.statistics(99_999), Err(Error::NoSuchIndex(_))));
}

#[test]
fn a_link_that_is_down_is_distinguished_from_one_without_carrier() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.ip("link set right down");
    let state = |name: &'static str| namespace.enter(move || interface(name).unwrap());
    assert_eq!((state("left").up, state("left").carrier), (true, false));
    assert_eq!((state("right").up, state("right").carrier), (false, false));
}

#[test]
fn link_local_addresses_are_listed_but_do_not_count() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.ip("addr add fe80::1/64 dev left nodad");
    let left = namespace.enter(|| interface("left").unwrap());
    assert_eq!(left.addresses.len(), 1);
    assert!(!has_ip_address(&left));

    namespace.ip("addr add 2001:db8::7/48 dev left nodad");
    assert!(has_ip_address(&namespace.enter(|| interface("left").unwrap())));
    assert!(!has_ip_address(&namespace.enter(|| interface("right").unwrap())));
}

#[test]
fn an_interface_lists_its_own_address_not_the_peers() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.ip("addr add 192.0.2.1 peer 192.0.2.99/32 dev left");
    let left = namespace.enter(|| interface("left").unwrap());
    assert!(has_ip_address(&left));
    assert_eq!(left.addresses.len(), 1);
    assert_eq!(left.addresses[0].address, "192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(left.addresses[0].to_string(), "192.0.2.1/32");
}

#[test]
fn membership_in_a_bridge_is_reported() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.ip("link add bridge0 type bridge");
    namespace.ip("link set left master bridge0");
    let (left, bridge) = namespace.enter(|| (interface("left").unwrap(), interface("bridge0").unwrap()));
    assert_eq!(left.master, Some(bridge.ifindex));
}

#[test]
fn an_attached_program_is_reported_with_its_mode() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let mut assembler = Assembler::new();
    assembler.mov_imm(Reg::R0, XDP_PASS).exit();
    let program = assembler.finish().unwrap();
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "pass", &program)).unwrap();
    namespace.enter(|| {
        let left = || interface("left").unwrap();
        let modes = [(XdpMode::Native, AttachedMode::Native), (XdpMode::Generic, AttachedMode::Generic)];
        for (asked, reported) in modes {
            let link = Link::attach_xdp(&program, left().ifindex, asked).unwrap();
            let expected = AttachedProgram { mode: reported, program_id: program.id().unwrap() };
            assert_eq!(left().xdp_programs, [expected]);
            link.detach().unwrap();
            assert!(left().xdp_programs.is_empty());
        }
    });
}

#[test]
fn a_misspelt_name_gets_the_nearest_as_a_suggestion() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.enter(|| {
        let error = interface("rihgt").unwrap_err();
        assert!(matches!(&error, Error::NoSuchInterface { nearest, .. } if nearest == &["right"]));
        let message = error.to_string();
        assert!(message.contains("\"rihgt\"") && message.ends_with("did you mean \"right\"?"), "{message}");

        let error = interface("enp3s0f1").unwrap_err();
        assert!(matches!(&error, Error::NoSuchInterface { nearest, .. } if nearest.is_empty()));
        assert!(!error.to_string().contains("did you mean"), "{error}");

        // Cut to 15 bytes these would be accepted or misunderstood.
        assert!(matches!(interface("left_and_much_more"), Err(Error::NoSuchInterface { .. })));
        assert!(matches!(interface(&"left".repeat(32)), Err(Error::NameTooLong(_))));
        assert!(matches!(interface("left:1"), Err(Error::NameInvalid { .. })));
        assert!(matches!(LinkStatistics::of("rihgt"), Err(Error::NoSuchInterface { .. })));
        for ifindex in [0, 99_999, u32::MAX] {
            assert!(matches!(LinkStatistics::of_index(ifindex), Err(Error::NoSuchIndex(_))), "{ifindex}");
        }
    });
}

#[test]
fn an_alternative_name_is_accepted() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let long = "the-left-end-of-the-pair";
    namespace.ip(&format!("link property add dev left altname sinister altname {long}"));
    namespace.enter(|| {
        for name in ["sinister", long] {
            let left = interface(name).unwrap();
            assert_eq!((left.name.as_str(), left.alternative_names.len()), ("left", 2), "{name}");
            assert_eq!(left, interface("left").unwrap(), "{name}");
            assert!(LinkStatistics::of(name).is_ok(), "{name}");
        }
        let error = interface("the-left-end-of-a-pair").unwrap_err();
        assert!(matches!(&error, Error::NoSuchInterface { nearest, .. } if nearest == &[long]), "{error}");
    });
}

#[test]
fn traffic_is_counted() {
    const PINGS: u64 = 5;
    const PING_BYTES: u64 = 14 + 20 + 8 + 56;
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.ip("addr add 192.0.2.1/24 dev left");
    // No host has this address; a fixed neighbour lets the pings go out and reach `right` anyway.
    namespace.ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev left");
    namespace.enter(|| {
        let right = interface("right").unwrap();
        let before = (LinkStatistics::of("left").unwrap(), LinkStatistics::of_index(right.ifindex).unwrap());
        let arguments = ["-c", &PINGS.to_string(), "-i", "0.01", "-W", "0.1", "192.0.2.2"];
        Command::new("ping").args(arguments).output().expect("ping is there");
        let left = LinkStatistics::of("left").unwrap().since(&before.0);
        let right = LinkStatistics::of_index(right.ifindex).unwrap().since(&before.1);
        assert_eq!((left.tx_packets, left.tx_bytes), (PINGS, PINGS * PING_BYTES));
        assert_eq!((right.rx_packets, right.rx_bytes), (PINGS, PINGS * PING_BYTES));
        assert_eq!((right.rx_errors, right.rx_missed_errors, right.tx_packets), (0, 0, 0));
    });
}

#[test]
fn promiscuous_mode_ends_with_the_last_guard() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    namespace.enter(|| {
        let promiscuity = || interface("left").unwrap().promiscuity;
        let ifindex = interface("left").unwrap().ifindex;
        let first = PromiscuousMode::enable(ifindex).unwrap();
        assert_eq!(first.ifindex(), ifindex);
        assert!(interface("left").unwrap().promiscuity > 0);
        assert_eq!(interface("right").unwrap().promiscuity, 0);
        let second = PromiscuousMode::enable(ifindex).unwrap();
        assert_eq!(promiscuity(), 2);
        // A process that another test is just starting has our descriptors until it executes its program.
        let falls_to = |expected| {
            let deadline = Instant::now() + Duration::from_secs(10);
            while promiscuity() != expected {
                assert!(Instant::now() < deadline, "{} instead of {expected}", promiscuity());
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        drop(first);
        falls_to(1);
        drop(second);
        falls_to(0);
        assert!(matches!(PromiscuousMode::enable(99_999), Err(Error::NoSuchIndex(99_999))));
    });
}

#[test]
fn changes_report_down_up_and_removal() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let (mut changes, left) = namespace.enter(|| (changes().unwrap(), interface("left").unwrap().ifindex));
    // The call does not block. The kernel may still be reporting that the pair came up.
    while let Some(event) = changes.next_event().unwrap() {
        assert!(matches!(event, LinkEvent::State { up: true, carrier: true, .. }), "{event:?}");
    }

    let state = |up, carrier| {
        move |event: &LinkEvent| {
            matches!(event, LinkEvent::State { ifindex, up: u, carrier: c, .. }
                if (*ifindex, *u, *c) == (left, up, carrier))
        }
    };
    namespace.ip("link set right down");
    await_event(&mut changes, state(true, false));
    namespace.ip("link set right up");
    await_event(&mut changes, state(true, true));
    namespace.ip("link set left down");
    await_event(&mut changes, state(false, false));

    // Leaving a bridge is announced like a removal, but is not one.
    namespace.ip("link add bridge0 type bridge");
    namespace.ip("link set left master bridge0");
    namespace.ip("link set left nomaster");
    namespace.ip("link set left up");
    let of_left = |event: &LinkEvent| {
        state(true, true)(event) || matches!(event, LinkEvent::Removed { ifindex, .. } if *ifindex == left)
    };
    assert!(matches!(await_event(&mut changes, of_left), LinkEvent::State { .. }));

    namespace.ip("link delete left");
    let removed = await_event(
        &mut changes,
        |event| matches!(event, LinkEvent::Removed { ifindex, .. } if *ifindex == left),
    );
    assert_eq!(removed, LinkEvent::Removed { ifindex: left, name: "left".to_owned() });
}

#[test]
fn moving_to_another_namespace_counts_as_removal() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let Some(elsewhere) = Namespace::with_veth_pair() else { return };
    namespace.ip("link set left name wanderer");
    let (mut changes, ifindex) =
        namespace.enter(|| (changes().unwrap(), interface("wanderer").unwrap().ifindex));
    namespace.ip(&format!("link set wanderer netns {}", elsewhere.name));
    let removed = await_event(&mut changes, |event| matches!(event, LinkEvent::Removed { .. }));
    assert_eq!(removed.ifindex(), Some(ifindex));
    assert!(elsewhere.enter(|| interface("wanderer")).is_ok());
}

#[test]
fn unread_events_are_reported_as_lost() {
    let Some(namespace) = Namespace::with_veth_pair() else { return };
    let mut changes = namespace.enter(|| changes().unwrap());
    // The smallest receive buffer the kernel gives holds very few messages.
    nix::sys::socket::setsockopt(&changes, nix::sys::socket::sockopt::RcvBuf, &1).unwrap();
    for mtu in 1300..1320 {
        namespace.ip(&format!("link set left mtu {mtu}"));
    }
    await_event(&mut changes, |event| *event == LinkEvent::Overrun);
    namespace.ip("link set left down");
    await_event(&mut changes, |event| matches!(event, LinkEvent::State { up: false, .. }));
}
