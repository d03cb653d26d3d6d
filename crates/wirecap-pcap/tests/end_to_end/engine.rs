//! The engine from C: the example of the header's page.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use wirecap_lab::Capture;
use wirecap_testing::{need_root, running_command::RunningCommand, wait_until};
use wirecap_traffic::{FrameSpec, Marks};

use crate::{
    frames::udp,
    rig::{PORT, Rig, our_library},
};

const FRAMES: u64 = 2_000;

/// Compiles the example against the header and the library.
fn compile(rig: &Rig) -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = rig.path("forward");
    // Under the name that programs look for.
    let library = rig.path("libpcap.so.0.8");
    symlink(our_library(), &library).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(own.join("include")).arg("-o").arg(&program);
    cc.arg(own.join("examples/forward.c")).arg(&library).arg("-lpcap");
    cc.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    let output = cc.output().expect("cc: apt-get install gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.to_str().unwrap().to_owned()
}

#[test]
fn a_c_program_forwards_packets_changed_in_place() {
    need_root!("a_c_program_forwards_packets_changed_in_place");
    let rig = Rig::new("engine");
    let second = rig.second_pair();
    let (file, program) = (rig.path("out.pcap"), compile(&rig));
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
    let mut command = rig.wire.inside.command(compile(&rig).as_str());
    let output = command.args(["no-such", PORT, "1", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("no interface named \"no-such\""), "{said}");
    wait_until("nothing stays behind", || !rig.wire.is_captured());
    rig.send([&udp(60, 0)]);
}
