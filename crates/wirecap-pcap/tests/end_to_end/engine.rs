//! The engine from C: the example, and what functions return that cannot do what is asked.

use wirecap_lab::Capture;
use wirecap_testing::{need_root, running_command::RunningCommand, wait_until};
use wirecap_traffic::{FrameSpec, Marks};

use crate::{
    frames::udp,
    rig::{PORT, Rig, send_from},
};

const FRAMES: u64 = 2_000;

const FORWARD: &str = "examples/forward.c";

#[test]
fn a_c_program_forwards_packets_changed_in_place() {
    need_root!("a_c_program_forwards_packets_changed_in_place");
    let rig = Rig::new("engine");
    let second = rig.second_pair();
    let (file, program) = (rig.path("out.pcap"), rig.compile_with_library(FORWARD, &[]));
    let mut tcpdump = rig.wire.outside.command("tcpdump");
    tcpdump.args(["-i", "out1", "-U", "-Z", "root", "-w", file.to_str().unwrap(), "udp"]);
    let listener = RunningCommand::spawn(tcpdump);
    listener.wait_for("listening on");
    let mut forward = rig.wire.inside.command(&program);
    forward.args([PORT, "in1", "300", &FRAMES.to_string()]);
    let running = RunningCommand::spawn(forward);
    running.wait_for("ready");
    rig.wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
    let ended = running.wait();
    let expected = format!("{FRAMES} received, {FRAMES} sent, 0 matches, 0 lost, 0 unexplained\n");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), expected, "{}", ended.stderr);
    let bytes = 24 + FRAMES * (16 + 60);
    listener.wait_for_bytes(&file, bytes);
    listener.stop();
    let packets = Capture::read(std::fs::File::open(&file).unwrap()).unwrap().packets;
    let sequences = packets.iter().map(|packet| Marks::read(&packet.data).unwrap().sequence);
    assert!(sequences.eq(0..FRAMES), "each once, in order");
    assert!(packets.iter().all(|packet| packet.data[..6] == [2, 0, 0, 0, 0, 9]), "changed in place");
    drop(second);
}

#[test]
fn a_c_program_gets_the_reason_why_a_capture_was_not_opened() {
    need_root!("a_c_program_gets_the_reason_why_a_capture_was_not_opened");
    let rig = Rig::new("refused");
    let mut command = rig.wire.inside.command(&rig.compile_with_library(FORWARD, &[]));
    let output = command.args(["no-such", PORT, "1", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("no interface named \"no-such\""), "{said}");
    wait_until("nothing stays behind", || !rig.wire.is_captured());
    rig.send([&udp(60, 0)]);
}

#[test]
fn functions_of_the_engine_say_why_they_cannot() {
    need_root!("functions_of_the_engine_say_why_they_cannot");
    let rig = Rig::new("errors");
    let second = rig.second_pair();
    let mut command = rig.wire.inside.command(&rig.compile_with_library("tests/c/engine_errors.c", &[]));
    command.args([PORT, "in1"]);
    let running = RunningCommand::spawn(command);
    running.wait_for("about to keep");
    rig.send([&udp(60, 0)]);
    for ready in ["ready", "ready again"] {
        running.wait_for(ready);
        rig.send([&udp(60, 0)]);
        send_from(&second, [&udp(60, 0)]);
    }
    running.wait_for("remove it");
    assert!(rig.wire.inside.command("ip").args(["link", "delete", PORT]).status().unwrap().success());
    let ended = running.wait();
    let expected = "\
        opened: 0, no interface named \"no-such\" in this network namespace\n\
        opened: 0, invalid \"keep=2\": workers takes a whole number, such as workers=4, and keep is 0 or 1\n\
        kept of cells: 1\n\
        taken again: 0, beyond: 0\n\
        out of a device without a ring: -1, ENXIO\n\
        out of no device: -1, ENXIO\n\
        out of blocks: -1, EOPNOTSUPP\n\
        kept of blocks: 0\n\
        out of the ring: 0, 0\n\
        once more: -1, EINVAL\n\
        nothing: -1, EINVAL\n\
        flushed: 0\n\
        data of nothing: 0, 0 bytes\n\
        gone: 0\n\
        gone: 1\n\
        out of a device that is gone: -1, ENODEV\n";
    assert_eq!(String::from_utf8_lossy(&ended.stdout), expected, "{}", ended.stderr);
}
