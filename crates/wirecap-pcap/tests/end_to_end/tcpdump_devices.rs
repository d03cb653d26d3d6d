//! Devices that tcpdump captures, that it does not find, that go down or away.

use wirecap_testing::{need_root, wait_until};

use crate::{
    frames::{mixture, udp},
    rig::{Library, PORT, Rig, same},
};

#[test]
fn libpcap_serves_any_and_loopback() {
    need_root!("libpcap_serves_any_and_loopback");
    let rig = Rig::with_addresses("passed");
    for (device, address) in [("any", None), ("lo", Some("127.0.0.1"))] {
        let printed = same(device, |library| {
            let arguments = ["-i", device, "-n", "-t", "-l", "-c", "6", "icmp"];
            let program = rig.spawn(library, "tcpdump", &arguments);
            program.running.wait_for("listening on");
            match address {
                None => rig.ping(3),
                Some(address) => {
                    let mut ping = rig.wire.inside.command("ping");
                    let status = ping.args(["-q", "-c", "3", "-i", "0.01", "-e", "7", address]).output();
                    assert!(status.unwrap().status.success());
                }
            }
            let ended = program.wait();
            assert_eq!((ended.code, ended.accounts.len()), (Some(0), 0), "{ended:#?}");
            let listening = ended.stderr.lines().find(|line| line.contains("listening on")).unwrap();
            format!("{listening}\n{}", ended.stdout)
        });
        assert_eq!(printed.matches("echo reply").count(), 3, "{device}: {printed}");
    }
}

#[test]
fn a_file_is_read_by_libpcap() {
    need_root!("a_file_is_read_by_libpcap");
    let rig = Rig::new("read");
    let file = rig.path("file.pcap");
    let file = file.to_str().unwrap();
    let program = rig.spawn(Library::System, "tcpdump", &["-i", PORT, "-Z", "root", "-c", "50", "-w", file]);
    program.running.wait_for("listening on");
    rig.send(&mixture(50));
    program.succeed();
    let printed = same("-r", |library| {
        rig.spawn(library, "tcpdump", &["-n", "-tttt", "-e", "-xx", "-r", file, "ip"]).wait().stdout
    });
    assert!(printed.lines().count() > 100, "{printed}");
}

#[test]
fn the_list_begins_with_libpcaps() {
    need_root!("the_list_begins_with_libpcaps");
    let rig = Rig::with_addresses("listed");
    let listed = |library| rig.spawn(library, "tcpdump", &["-D"]).wait().stdout;
    let (libpcap, ours) = (listed(Library::System), listed(Library::Wirecap));
    assert!(libpcap.contains("in0 ["), "{libpcap}");
    let more = ours.strip_prefix(libpcap.as_str()).unwrap_or_else(|| panic!("{libpcap}\n{ours}"));
    let lists = |more: &str, device: &str| more.contains(&format!(".{device} (in0, "));
    assert!(["tap:in0", "packet:in0"].iter().all(|device| lists(more, device)), "{ours}");
    // The host uses it: a program that opens every device must not take it.
    assert!(!more.contains("xdp:in0") && !more.contains("in0@"), "{ours}");

    let rig = Rig::new("unused");
    let ours = rig.spawn(Library::Wirecap, "tcpdump", &["-D"]).wait().stdout;
    assert!(lists(&ours, "xdp:in0"), "{ours}");
}

#[test]
fn a_device_that_cannot_be_opened_is_an_error() {
    need_root!("a_device_that_cannot_be_opened_is_an_error");
    let rig = Rig::new("errors");
    let run = |library, device: &str| {
        let ended = rig.spawn(library, "tcpdump", &["-i", device, "-c", "1"]).wait();
        format!("{:?}: {}", ended.code, ended.stderr)
    };
    let printed = same("no device", |library| run(library, "no-such-device"));
    assert!(printed.contains("No such device exists"), "{printed}");
    rig.wire.veth.b().set_down().unwrap();
    let printed = same("down", |library| run(library, PORT));
    assert!(printed.contains("That device is not up"), "{printed}");
    rig.wire.veth.b().set_up().unwrap();
    for (settings, message) in [
        ("R=x", "?R=x: not a whole number"),
        ("R=5&R=6", "?R=5&R=6: R is given twice"),
        ("xdp_mode=zero-copy", "zero-copy is not available: the driver does not offer it"),
        ("timestamp=hardware", "; set timestamp=kernel"),
        ("Q=1", "?Q=1: unknown setting \"Q\""),
        ("R", "\"R\" is not a setting; write NAME=VALUE"),
    ] {
        let printed = run(Library::Wirecap, &format!("{PORT}?{settings}"));
        assert!(printed.starts_with("Some(1)") && printed.contains(message), "{printed}");
    }
}

#[test]
fn an_interface_that_was_down_is_captured_again() {
    need_root!("an_interface_that_was_down_is_captured_again");
    let rig = Rig::new("down");
    let printed = same("down and up", |library| {
        let arguments = ["-i", PORT, "-n", "-t", "-l", "-xx", "-c", "20"];
        let program = rig.spawn(library, "tcpdump", &arguments);
        program.running.wait_for("listening on");
        let frames: Vec<_> = (0..20).map(|sequence| udp(60, sequence)).collect();
        rig.send(&frames[..10]);
        // Five lines each: the headers, and 60 bytes.
        program.wait_for_lines(50);
        let port = rig.wire.veth.b();
        port.set_down().unwrap();
        port.set_up().unwrap();
        for end in [rig.wire.veth.a(), port] {
            wait_until("the link is up", || {
                let shown = end.namespace().ip(&["-o", "link", "show", "dev", end.name()]).unwrap();
                shown.contains(" state UP ")
            });
        }
        rig.send(&frames[10..]);
        program.succeed()
    });
    assert_eq!(printed.lines().count(), 100, "{printed}");
}

#[test]
fn a_device_that_disappears_ends_the_capture() {
    need_root!("a_device_that_disappears_ends_the_capture");
    let rig = Rig::new("gone");
    let printed = same("gone", |library| {
        let second = rig.second_pair();
        let program = rig.spawn(library, "tcpdump", &["-i", "in1", "-n", "-t", "-l"]);
        program.running.wait_for("listening on");
        crate::rig::send_from(&second, [&udp(60, 0)]);
        program.wait_for_lines(1);
        drop(second);
        let ended = program.wait();
        ended.assert_captured(library);
        format!("{:?}\n{}\n{}", ended.code, ended.stdout, ended.stderr)
    });
    assert!(printed.starts_with("Some(1)"), "{printed}");
    assert!(printed.contains("The interface disappeared"), "{printed}");
}
