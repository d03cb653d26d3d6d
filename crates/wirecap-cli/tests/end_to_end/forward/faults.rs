//! Faults at one end: counted, reported at growing intervals, and both interfaces are usable afterwards.

use std::{
    fs::{self, File},
    io::ErrorKind,
    process::Command,
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wirecap_lab::{Capture, VethOptions, require_root};
use wirecap_testing::wait_until;

use super::{Cable, dropped, frame, way};
use crate::lab::{READY, SmallDisk, WIRECAP, partial, read};

/// A little longer than the pause between two reports of drops.
const PERIOD: Duration = Duration::from_millis(1_300);

#[test]
fn unsent_packets_are_counted_by_cause_and_reported_rarely() {
    if !require_root("forward::unsent_packets_are_counted_by_cause_and_reported_rarely") {
        return;
    }
    let cable = Cable::quiet("causes");
    for (host, name) in [(&cable.right, "r0"), (&cable.middle, "m1")] {
        host.ip(&["link", "set", name, "mtu", "1000"]).unwrap();
    }
    let running = cable.forward(&[]);
    running.wait_for("m0 has an MTU of 1500 and m1 of 1000: longer packets from m0 are dropped (too_long)");
    let listener = cable.listen("packet:r0", "arrived.pcapng", &["-c", "20", "ether proto 0x88b5"]);
    let mut sender = cable.sender();
    let mut send =
        |frames: u8, len: usize| (0..frames).for_each(|number| sender.send(&frame(number, len)).unwrap());
    send(10, 200);
    send(5, 1_400);
    running.wait_for("so far: too_long 5");
    // Longer packets are forwarded once the link takes them.
    for (host, name) in [(&cable.right, "r0"), (&cable.middle, "m1")] {
        host.ip(&["link", "set", name, "mtu", "1500"]).unwrap();
    }
    thread::sleep(PERIOD);
    send(5, 1_400);
    // Packets that are under way when the link goes down are lost.
    let path = partial(&cable.path("arrived.pcapng"));
    let arrived = || Capture::read(File::open(&path).unwrap()).unwrap().packets.len();
    wait_until("the longer packets arrive", || arrived() == 15);
    cable.right.ip(&["link", "set", "r0", "down"]).unwrap();
    running.wait_for("m1 has no carrier; forwarding resumes when the other end is connected and up again");
    for _ in 0..8 {
        send(10, 200);
        thread::sleep(PERIOD / 8);
    }
    running.wait_for("link_down");
    // As the account: too long is no loss.
    let listed = Command::new(WIRECAP).args(["status", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let own = listed.as_array().unwrap().iter().find(|one| one["pid"] == running.pid()).cloned().unwrap();
    assert!((1..=80).contains(&own["lost"].as_u64().unwrap()), "{own}");
    cable.right.ip(&["link", "set", "r0", "up"]).unwrap();
    running.wait_for("m1 is up");
    send(5, 200);
    listener.wait();
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let way = way(&ended, "m0");
    assert_eq!(way["dropped"]["too_long"].as_u64(), Some(5), "{way:#}");
    assert_eq!(way["dropped"]["link_down"].as_u64(), Some(80), "{way:#}");
    assert_eq!((way["forwarded"].as_u64(), dropped(&way)), (Some(20), 85), "{way:#}");
    let told = ended.stderr.lines().filter(|line| line.contains("not sent on")).count();
    assert!((2..=5).contains(&told), "{ended:#?}");
}

#[test]
fn drops_of_the_driver_are_reported_during_and_after_the_run() {
    if !require_root("forward::drops_of_the_driver_are_reported_during_and_after_the_run") {
        return;
    }
    let cable = Cable::quiet("unsent");
    // A veth drops frames that are too long for the other end.
    cable.right.ip(&["link", "set", "r0", "mtu", "600"]).unwrap();
    let running = cable.spawn(&["forward", "m0", "m1", "--stats", "1s"]);
    running.wait_for(READY);
    let mut sender = cable.sender();
    for number in 0..5 {
        sender.send(&frame(number, 100)).unwrap();
        sender.send(&frame(number, 1_000)).unwrap();
    }
    running.wait_for("m1 did not send 5 packets that it got; so far: driver 5, by its own counters 5");
    running.wait_for("lost 5  10 packets");
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let table = String::from_utf8(ended.stdout.clone()).unwrap();
    let is_way = |line: &&str| line.starts_with("m0    m1 ") && !line.contains('.');
    let row: Vec<_> = table.lines().find(is_way).unwrap().split_whitespace().collect();
    assert_eq!(row, ["m0", "m1", "10", "5500", "0", "5"], "{table}");
    let told = "m1 did not send 5 packets that it got: driver 5, by its own counters 5";
    assert!(table.contains(told), "{table}");
    let lost = "5 of 10 packets were lost (50.00 %): after capture, unsent 5 (the lines \"did not send\" have the interfaces)";
    assert!(ended.stderr.contains(lost), "{ended:#?}");
}

#[test]
fn a_full_ring_holds_packets_back_or_drops_them_as_requested() {
    if !require_root("forward::a_full_ring_holds_packets_back_or_drops_them_as_requested") {
        return;
    }
    for (asked, expected) in [("drop", (64, 136)), ("wait", (200, 0))] {
        let cable = Cable::quiet("full");
        let running = cable.forward(&["--transmit-ring", "64", "--on-full", asked]);
        // While wirecap is stopped, all frames wait in its receive ring and become one batch.
        running.signal(Signal::SIGSTOP);
        let mut sender = cable.sender();
        for number in 0..200 {
            sender.send(&frame(number, 100)).unwrap();
        }
        running.signal(Signal::SIGCONT);
        thread::sleep(PERIOD);
        let ended = running.stop();
        let way = way(&ended, "m0");
        let count = |value: &Value| value.as_u64().unwrap();
        let became = (count(&way["forwarded"]), count(&way["dropped"]["ring_full"]));
        assert_eq!(became, expected, "{asked}: {way:#}");
    }
}

#[test]
fn a_deleted_end_is_reported_and_the_other_is_given_back() {
    if !require_root("forward::a_deleted_end_is_reported_and_the_other_is_given_back") {
        return;
    }
    let cable = Cable::new("deleted", VethOptions::default());
    let running = cable.forward(&[]);
    cable.assert_ping(3, &["192.0.2.2"]);
    cable.middle.ip(&["link", "del", "m1"]).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("m1 was removed"), "{ended:#?}");
    assert!(way(&ended, "m0")["forwarded"].as_u64().unwrap() >= 3);
    let shown = cable.middle.ip(&["link", "show", "m0"]).unwrap();
    assert!(!shown.contains("xdp"), "{shown}");
}

#[test]
fn after_kill_9_both_ends_can_be_used_again() {
    if !require_root("forward::after_kill_9_both_ends_can_be_used_again") {
        return;
    }
    let cable = Cable::new("killed", VethOptions::default());
    for _ in 0..3 {
        let running = cable.forward(&[]);
        cable.assert_ping(5, &["192.0.2.2"]);
        running.signal(Signal::SIGKILL);
        running.wait();
    }
    for name in ["m0", "m1"] {
        let shown = cable.middle.ip(&["link", "show", name]).unwrap();
        assert!(!shown.contains("xdp"), "{shown}");
    }
    // The middle host can be reached through m0 again.
    cable.middle.ip(&["addr", "add", "192.0.2.3/24", "dev", "m0"]).unwrap();
    cable.assert_ping(3, &["192.0.2.3"]);
}

#[test]
fn invalid_arguments_are_refused_with_a_hint() {
    if !require_root("forward::invalid_arguments_are_refused_with_a_hint") {
        return;
    }
    let cable = Cable::new("refused", VethOptions::default());
    cable.middle.ip(&["link", "property", "add", "dev", "m0", "altname", "outside"]).unwrap();
    cable.middle.ip(&["link", "add", "p0", "type", "veth", "peer", "name", "p1"]).unwrap();
    for (arguments, code, words) in [
        (&["p0", "p1"][..], 2, "p0 and p1 are the two ends of a pair"),
        (&["m0"][..], 2, "forward is between two interfaces, and one is given"),
        (&["m0", "m1", "m2"], 2, "forward is between two interfaces, and 3 are given"),
        (&["m0", "m0"], 2, "m0"),
        (&["m0", "outside"], 2, "m0 is given twice"),
        (&["m0", "packet:m1"], 2, "packet:m1 cannot be forwarded"),
        (&["m0", "trace:x.pcap"], 2, "wirecap replay"),
        (&["m0", "m9"], 1, "m9"),
        (&["m0", "m1", "--workers", "2"], 2, "use at most 1"),
        (&["m0", "m1", "--transmit-ring", "100"], 2, "power of two"),
        (&["m0", "m1", "--drop", "udp prt 53"], 2, "syntax error"),
        (&["m0", "m1", "--vlan", "1=5000"], 2, "--vlan"),
        (&["m0", "m1", "--ttl", "0"], 2, "--ttl"),
        (&["m0", "m1", "--set-source", "m7=02:00:00:00:00:01"], 2, "m7 is not one of the two"),
        (&["m0", "m1", "--set-source", "m1=01:00:00:00:00:01"], 2, "--set-source"),
        (&["m0", "m1", "--set-destination", "02:00:00:00:00:01"], 2, "write --set-destination m0="),
    ] {
        let ended = cable.spawn(&[&["forward"], arguments].concat()).wait();
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {ended:#?}");
        assert!(ended.stdout.is_empty(), "{arguments:?}: {ended:#?}");
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_does_not_cut_the_wire() {
    if !require_root("forward::a_disk_that_is_full_at_the_start_does_not_cut_the_wire") {
        return;
    }
    let cable = Cable::quiet("full");
    let directory = cable.path("disk");
    let _disk = SmallDisk::mount(&directory);
    let filled = fs::write(directory.join("other"), vec![0; 64 << 20]);
    assert_eq!(filled.unwrap_err().kind(), ErrorKind::StorageFull);
    let path = directory.join("all.pcapng");
    for arguments in [&[][..], &["-W", "3", "-C", "1"]] {
        let running = cable.forward(&[&["-w", path.to_str().unwrap()], arguments].concat());
        running.wait_for("No space left on device (os error 28); make room, or choose another disk; forwarding continues without writing");
        let listener = cable.listen("packet:r0", "arrived.pcapng", &["-c", "5", "ether proto 0x88b5"]);
        let mut sender = cable.sender();
        (0..5).for_each(|number| sender.send(&frame(number, 200)).unwrap());
        listener.wait();
        let ended = running.stop();
        assert_eq!(ended.code, Some(1), "nothing is written: {ended:#?}");
        assert!(ended.stderr.contains("choose another disk; nothing was written"), "{ended:#?}");
        let account = ended.account();
        assert!(account.0["written"].is_null() && way(&ended, "m0")["forwarded"] == 5, "{:#}", account.0);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "{arguments:?}");
        fs::remove_file(cable.path("arrived.pcapng")).unwrap();
    }
    // Another mistake keeps it from starting.
    let ended = cable.spawn(&["forward", "m0", "m1", "-w", "/proc/x.pcapng"]).wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
}

#[test]
fn a_full_disk_does_not_cut_the_wire() {
    if !require_root("forward::a_full_disk_does_not_cut_the_wire") {
        return;
    }
    let cable = Cable::quiet("disk");
    let directory = cable.path("disk");
    let _disk = SmallDisk::mount(&directory);
    let path = directory.join("all.pcapng");
    let running = cable.forward(&["-w", path.to_str().unwrap()]);
    let mut sender = cable.sender();
    // Three times the size of the disk.
    for number in 0..2_100_u32 {
        sender.send(&frame(number as u8, 1_500)).unwrap();
    }
    running.wait_for("No space left on device");
    running.wait_for("forwarding continues without writing");
    running.signal(Signal::SIGUSR1);
    let listener = cable.listen("packet:r0", "arrived.pcapng", &["-c", "5", "ether proto 0x88b5"]);
    (0..5).for_each(|number| sender.send(&frame(number, 200)).unwrap());
    listener.wait();
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "not everything is in the file: {ended:#?}");
    let account = ended.account();
    let (forwarded, kept) = (way(&ended, "m0")["forwarded"].as_u64().unwrap(), account.written("packets"));
    assert_eq!(forwarded, account.sum("delivered"), "{:#}", account.0);
    assert_eq!(read(&partial(&path)).packets.len() as u64, kept);
    assert!((300..2_000).contains(&kept), "{kept}");
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    let accounts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(accounts.len(), 2, "so far, and at the end");
    for account in accounts {
        let written = &account["written"];
        assert!(written["ended_outputs"] == 1 && written["failed_outputs"] == 1, "{written}");
    }
    let unwritten = match account.sum("delivered") - kept {
        1 => "1 packet was captured but not written".into(),
        more => format!("{more} packets were captured but not written"),
    };
    assert!(ended.stderr.contains(&unwritten), "{ended:#?}");
}
