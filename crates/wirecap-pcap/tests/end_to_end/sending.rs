//! Programs that send.

use wirecap_lab::Ear;
use wirecap_testing::need_root;

use crate::rig::{Library, PORT, Rig, same};

/// A program that forwards packets between two handles would get its own again and again.
#[test]
fn a_handle_does_not_capture_what_it_has_injected_and_another_one_does() {
    need_root!("a_handle_does_not_capture_what_it_has_injected_and_another_one_does");
    let rig = Rig::new("own_packets");
    let own_packets = rig.compile("own_packets");
    let read = |library, device: &str| rig.spawn(library, &own_packets, &[device]).succeed();
    let by_libpcap = read(Library::System, PORT);
    assert_eq!(by_libpcap, "the first got 5, the second 10\n");
    for access in ["tap", "packet"] {
        let device = format!("{access}:{PORT}");
        assert_eq!(read(Library::Wirecap, &device), by_libpcap, "{device}");
    }
}

#[test]
fn injected_frames_arrive_at_the_other_end() {
    need_root!("injected_frames_arrive_at_the_other_end");
    let rig = Rig::new("injecting");
    let injecting = rig.compile("injecting");
    let send = |library, device: &str| {
        let ear = Ear::new(&rig.wire.outside).unwrap();
        let ended = rig.spawn(library, &injecting, &[device, "200"]).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        for number in 0..200_u8 {
            let frame = ear.hear();
            assert_eq!(frame.len(), 60 + usize::from(number), "{library:?} {device}");
            assert!(frame[..14] == *b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x09\x88\xb5", "{frame:x?}");
            assert!(frame[14..].iter().all(|&byte| byte == number), "{library:?} {device}: {frame:x?}");
        }
        ended
    };
    let printed = same("injecting", |library| send(library, PORT).stdout);
    assert_eq!(
        printed,
        "1: -1, Invalid argument, send: Invalid argument\n\
         13: -1, Invalid argument, send: Invalid argument\n\
         1515: -1, Message too long, send: Message too long\n\
         1519: -1, Message too long, send: Message too long\n\
         9000: -1, Message too long, send: Message too long\n\
         -1, Message too long\n"
    );

    // By a transmit ring of fewer entries than frames, without and with another way to receive.
    for device in
        [format!("xdp:{PORT}?transmit=64"), format!("xdp:{PORT}?transmit=64&xdp_mode=copy&M=16&R=8")]
    {
        let ended = send(Library::Wirecap, &device);
        assert_eq!(ended.stdout, printed, "{device}");
        let transmit = &ended.accounts[0]["report"]["ports"][0]["transmitted"][0];
        assert_eq!(transmit["packets"], 200, "{:#}", ended.accounts[0]);
    }
}

#[test]
fn one_process_at_a_time_sends_by_a_transmit_ring_while_its_link_is_up() {
    need_root!("one_process_at_a_time_sends_by_a_transmit_ring_while_its_link_is_up");
    let rig = Rig::new("ring_sending");
    let ring_sending = rig.compile("ring_sending");
    let device = format!("xdp:{PORT}?transmit=64");
    let program = rig.spawn(Library::Wirecap, &ring_sending, &[&device]);
    let set_link = |state| {
        let status = rig.wire.inside.command("ip").args(["link", "set", PORT, state]).status().unwrap();
        assert!(status.success());
    };
    program.wait_for_output("up: 60\n");
    set_link("down");
    program.wait_for_output("down: ");
    set_link("up");
    assert_eq!(
        program.succeed(),
        "before the fork: 60\n\
         child: 60\n\
         parent behind its child: -1, send: Device or resource busy\n\
         up: 60\n\
         down: -1, send: Network is down\n\
         up again: 60\n"
    );
}

/// Its copy of the ring is older than what was sent since.
#[test]
fn a_child_that_closes_its_copy_leaves_the_transmit_ring_alone() {
    need_root!("a_child_that_closes_its_copy_leaves_the_transmit_ring_alone");
    let rig = Rig::new("ring_forked");
    let ring_forked = rig.compile("ring_forked");
    let ear = Ear::new(&rig.wire.outside).unwrap();
    rig.spawn(Library::Wirecap, &ring_forked, &[&format!("xdp:{PORT}?transmit=64")]).succeed();
    let numbers: Vec<_> = (0..120).map(|_| ear.hear()[14]).collect();
    assert_eq!(numbers, (0..120).collect::<Vec<u8>>());
}

#[test]
fn an_interface_of_the_host_has_no_transmit_ring() {
    need_root!("an_interface_of_the_host_has_no_transmit_ring");
    let rig = Rig::new("no_ring");
    let injecting = rig.compile("injecting");
    let ended = rig.spawn(Library::Wirecap, &injecting, &[&format!("tap:{PORT}?transmit=64"), "1"]).wait();
    assert_eq!(ended.code, Some(1));
    let text =
        "in0 is captured beside the host, without a transmit ring; leave it out, or take in0 from the host";
    assert!(ended.stderr.contains(text), "{}", ended.stderr);
}
