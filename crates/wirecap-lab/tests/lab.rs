//! Tests of the laboratory. Need root.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{Uid, setresuid};
use wirecap_lab::{Error, Namespace, VethOptions, VethPair, require_root, sweep};

#[test]
fn a_namespace_lives_as_long_as_its_last_clone() {
    if !require_root("a_namespace_lives_as_long_as_its_last_clone") {
        return;
    }
    let namespace = Namespace::new("gone").unwrap();
    let path = format!("/run/netns/{}", namespace.name());
    let mut sleeper = namespace.command("sleep").arg("600").spawn().unwrap();
    // Until ip(8) has become sleep(1) inside, the namespace has no process to kill.
    while !namespace.ip(&["netns", "pids", namespace.name()]).unwrap().contains(&sleeper.id().to_string()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let clone = namespace.clone();
    drop(namespace);
    assert!(Path::new(&path).exists(), "the clone keeps the namespace");
    drop(clone);
    assert!(!Path::new(&path).exists());
    assert!(!sleeper.wait().unwrap().success(), "the process is killed with its namespace");
}

#[test]
fn the_caller_stays_outside() {
    if !require_root("the_caller_stays_outside") {
        return;
    }
    let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = here();
    let namespace = Namespace::new("inside").unwrap();
    let (inside, interfaces) = namespace.enter(|| {
        let interfaces = fs::read_dir("/sys/class/net").unwrap();
        (here(), interfaces.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>())
    });
    assert_ne!(inside, before);
    assert_eq!(here(), before);
    assert_eq!(interfaces, ["lo"], "/sys shows the namespace");
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| namespace.enter(|| panic!("inner"))));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"inner"));
}

#[test]
fn a_pair_carries_packets() {
    if !require_root("a_pair_carries_packets") {
        return;
    }
    let (left, right) = (Namespace::new("left").unwrap(), Namespace::new("right").unwrap());
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    let _veth = VethPair::new(&left, "l0", &right, "r0", options).unwrap();
    let receiver = right.enter(|| UdpSocket::bind("192.0.2.2:0").unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let to: SocketAddr = receiver.local_addr().unwrap();
    left.enter(|| UdpSocket::bind("192.0.2.1:0").unwrap().send_to(b"hello", to).unwrap());
    let mut buffer = [0; 16];
    let (length, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip().to_string().as_str()), (&b"hello"[..], "192.0.2.1"));
}

#[test]
fn the_kernel_sends_nothing_on_a_new_pair() {
    if !require_root("the_kernel_sends_nothing_on_a_new_pair") {
        return;
    }
    let (left, right) = (Namespace::new("quiet_l").unwrap(), Namespace::new("quiet_r").unwrap());
    let received = |ipv6| {
        let veth =
            VethPair::new(&left, "l0", &right, "r0", VethOptions { ipv6, ..VethOptions::default() }).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let packets = right.enter(|| {
            fs::read_to_string("/sys/class/net/r0/statistics/rx_packets").unwrap().trim().parse::<u64>()
        });
        drop(veth);
        packets.unwrap()
    };
    assert_eq!(received(false), 0);
    assert!(received(true) > 0, "with IPv6 the kernel sends packets, so the zero above is meaningful");
}

#[test]
fn queues_mtu_and_carrier() {
    if !require_root("queues_mtu_and_carrier") {
        return;
    }
    let namespace = Namespace::new("queues").unwrap();
    let options = VethOptions { queues: 4, mtu: 9000, ..VethOptions::default() };
    let veth = VethPair::new(&namespace, "q0", &namespace, "q1", options).unwrap();
    assert_eq!(queues(&namespace, "q0"), (4, 4));
    veth.a().set_channels(2, 1).unwrap();
    assert_eq!(queues(&namespace, "q0"), (2, 1));
    assert!(matches!(veth.a().set_channels(5, 1), Err(Error::Failed { .. })));
    assert_eq!(attribute(&namespace, "q1", "mtu"), "9000");
    veth.b().set_mtu(1400).unwrap();
    assert_eq!(attribute(&namespace, "q1", "mtu"), "1400");
    assert_eq!(attribute(&namespace, "q1", "carrier"), "1");
    veth.a().set_down().unwrap();
    assert_eq!(attribute(&namespace, "q1", "carrier"), "0");
    veth.a().set_up().unwrap();
    assert_eq!(attribute(&namespace, "q1", "carrier"), "1");
    veth.b().set_gro(true).unwrap();
    assert!(namespace.ethtool(&["-k", "q1"]).unwrap().contains("generic-receive-offload: on"));

    let ifindex = veth.a().ifindex().unwrap().to_string();
    assert_eq!(attribute(&namespace, "q0", "ifindex"), ifindex);
    let gone = veth.a().clone();
    drop(veth);
    let error = gone.ifindex().unwrap_err();
    assert!(error.to_string().contains("q0"), "{error}");
}

#[test]
fn errors_name_the_mistake() {
    if !require_root("errors_name_the_mistake") {
        return;
    }
    for label in ["", "with space", "../escape", "-", &"x".repeat(33)] {
        assert!(matches!(Namespace::new(label), Err(Error::BadLabel { .. })), "{label:?}");
    }
    let namespace = Namespace::new("mistakes").unwrap();
    let long =
        VethPair::new(&namespace, "a_name_too_long_for_linux", &namespace, "b", VethOptions::default());
    let text = long.unwrap_err().to_string();
    assert!(text.contains("ip -n") && text.contains("a_name_too_long_for_linux"), "{text}");
}

#[test]
fn a_sweep_removes_namespaces_of_dead_processes() {
    if !require_root("a_sweep_removes_namespaces_of_dead_processes") {
        return;
    }
    // Once the process has been waited for, its id is free.
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let stale = format!("wirecap-{dead}-0-left_behind");
    let foreign = format!("notours-{dead}-0-left_behind");
    for name in [&stale, &foreign] {
        assert!(Command::new("ip").args(["netns", "add", name]).status().unwrap().success());
    }
    let living = Namespace::new("living").unwrap();
    sweep();
    let exists = |name: &str| Path::new("/run/netns").join(name).exists();
    let outcome = (exists(&stale), exists(&foreign), exists(living.name()));
    assert!(Command::new("ip").args(["netns", "del", &foreign]).status().unwrap().success());
    assert_eq!(outcome, (false, true, true));
}

/// Set for the child process, which runs the test below without root.
const UNPRIVILEGED: &str = "WIRECAP_LAB_TEST_UNPRIVILEGED";
/// The user id of the user `nobody`.
const NOBODY_ID: u32 = 65_534;

#[test]
fn without_root_a_test_is_skipped_loudly_or_fails() {
    if std::env::var_os(UNPRIVILEGED).is_some() {
        // Without root this fails, and the user stays the same.
        let _ = setresuid(Uid::from_raw(NOBODY_ID), Uid::from_raw(NOBODY_ID), Uid::from_raw(NOBODY_ID));
        assert!(!require_root("the_child"));
        return;
    }
    let child = |variable: Option<(&str, &str)>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "without_root_a_test_is_skipped_loudly_or_fails"]).env(UNPRIVILEGED, "1");
        for name in ["WIRECAP_NO_SKIP", "WIRECAP_SKIP_LOG", "CI"] {
            command.env_remove(name);
        }
        let output = command.envs(variable).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (passed, said) = child(None);
    assert!(passed && said.contains("SKIPPED: the_child: needs root"), "{said}");
    for forbidding in [("WIRECAP_NO_SKIP", "1"), ("CI", "true")] {
        let (passed, said) = child(Some(forbidding));
        assert!(!passed && said.contains("the_child needs root, and"), "{forbidding:?}: {said}");
    }
}

/// Receive and transmit queues in use.
fn queues(namespace: &Namespace, interface: &str) -> (usize, usize) {
    let count = |kind: &str| {
        let entries = fs::read_dir(format!("/sys/class/net/{interface}/queues")).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(kind))
            .count()
    };
    namespace.enter(|| (count("rx-"), count("tx-")))
}

fn attribute(namespace: &Namespace, interface: &str, attribute: &str) -> String {
    let path = format!("/sys/class/net/{interface}/{attribute}");
    namespace.enter(|| fs::read_to_string(path).unwrap().trim().to_owned())
}
