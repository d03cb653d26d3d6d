//! Programs that wait by themselves, and loops that are broken.

use wirecap_testing::need_root;
use wirecap_traffic::FrameSpec;

use crate::{
    frames::udp,
    rig::{Library, PORT, Rig, same},
};

const BURST: u64 = 3_000;
const BURSTS: u64 = 4;

#[test]
fn an_event_loop_gets_every_frame_and_sleeps_in_silence() {
    need_root!("an_event_loop_gets_every_frame_and_sleeps_in_silence");
    let rig = Rig::new("waiting");
    let waiting = rig.compile("waiting");
    let (all, burst) = ((BURST * BURSTS).to_string(), BURST.to_string());
    for way in ["select", "poll", "epoll"] {
        let printed = same(way, |library| {
            let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
            let program = rig.spawn_ready(library, &waiting, &[PORT, way, &all, &burst]);
            for bursts in 1..=BURSTS {
                sender.send(BURST);
                program.wait_for_lines(bursts as usize);
            }
            program.succeed()
        });
        let last = format!("{all} frames, 0 in disorder, then silence");
        assert_eq!(printed.lines().last(), Some(last.as_str()), "{printed}");
        assert!(!printed.contains("for nothing"), "{printed}");
    }
}

/// Of a tap, which has a queue for each core; by default, packets of several queues are 2 ms old.
#[test]
fn packets_come_soon_in_immediate_mode() {
    need_root!("packets_come_soon_in_immediate_mode");
    let rig = Rig::new("delays");
    let delays = rig.compile("delays");
    let printed = same("delays", |library| {
        let device = if library == Library::Wirecap { format!("tap:{PORT}") } else { PORT.into() };
        let program = rig.spawn_ready(library, &delays, &[&device, "100"]);
        for sequence in 0..100 {
            rig.send([&udp(60, sequence)]);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        program.succeed()
    });
    assert_eq!(printed, "soon\n");
}

#[test]
fn a_loop_is_broken_under_traffic_and_goes_on() {
    need_root!("a_loop_is_broken_under_traffic_and_goes_on");
    let rig = Rig::new("breaking");
    let breaking = rig.compile("breaking");
    for way in ["thread", "signal"] {
        let printed = same(way, |library| {
            let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
            let program = rig.spawn_ready(library, &breaking, &[PORT, way, "20000"]);
            sender.send(20_000);
            program.succeed()
        });
        assert_eq!(printed, "20000 frames, 0 in disorder, broken often\n");
    }
}

#[test]
fn an_event_loop_learns_that_its_device_is_gone() {
    need_root!("an_event_loop_learns_that_its_device_is_gone");
    let printed = same("removed", |library| {
        let rig = Rig::new("removed");
        let removed = rig.compile("removed");
        let program = rig.spawn_ready(library, &removed, &[PORT, "0"]);
        let deleted = rig.wire.inside.command("ip").args(["link", "delete", PORT]).status().unwrap();
        assert!(deleted.success());
        let ended = program.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.stdout
    });
    assert_eq!(printed, "0 frames, -1: The interface disappeared\n");
}

/// Longer ago than the last look after the interface.
#[test]
fn packets_of_a_device_that_is_gone_are_delivered_first() {
    need_root!("packets_of_a_device_that_is_gone_are_delivered_first");
    let printed = same("removed later", |library| {
        let rig = Rig::new("removed_later");
        let removed = rig.compile("removed");
        let program = rig.spawn_ready(library, &removed, &[PORT, "1000"]);
        rig.wire.queue_sender(0, FrameSpec::default()).send(BURST);
        // They are with the kernel: it handles the first of them.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let deleted = rig.wire.inside.command("ip").args(["link", "delete", PORT]).status().unwrap();
        assert!(deleted.success());
        program.succeed()
    });
    assert_eq!(printed, format!("{BURST} frames, -1: The interface disappeared\n"));
}

/// The descriptor is readable before the filter has refused them.
#[test]
fn unwanted_packets_do_not_hold_up_an_event_loop_whose_handle_blocks() {
    need_root!("unwanted_packets_do_not_hold_up_an_event_loop_whose_handle_blocks");
    let rig = Rig::new("unwanted");
    let unwanted = rig.compile("unwanted");
    let printed = same("unwanted", |library| {
        let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
        let program = rig.spawn_ready(library, &unwanted, &[PORT, "tcp"]);
        while program.printed().is_empty() {
            sender.send(1);
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        program.succeed()
    });
    assert_eq!(printed, "0 wanted, other work was done\n");
}

#[test]
fn threads_are_cancelled_while_they_read() {
    need_root!("threads_are_cancelled_while_they_read");
    let rig = Rig::new("cancelling");
    let cancelling = rig.compile("cancelling");
    let program = rig.spawn_ready(Library::Wirecap, &cancelling, &[PORT]);
    let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
    while program.printed().lines().count() < 3 {
        sender.send(200);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let expected = "while it waits: cancelled, cleaned up 1 times\n\
                    while packets come: cancelled, cleaned up 2 times\n\
                    while the filter refuses them: cancelled, cleaned up 3 times\n";
    assert_eq!(program.succeed(), expected);
}
