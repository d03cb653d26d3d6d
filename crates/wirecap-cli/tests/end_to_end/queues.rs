//! Receive queues of one interface, captured by several `wirecap` processes at the same time.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use wirecap_lab::require_root;
use wirecap_sys::{bpf, netdev};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{CommandOutput, Lab, assert_frames, by_queue, cores, read};

const FRAMES: u64 = 20_000;

fn devices(lab: &Lab) -> Value {
    let ended = lab.spawn(&["interfaces", "--json"]).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let interfaces: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(interfaces[0]["devices"], json!([]), "loopback has none");
    interfaces[1]["devices"].clone()
}

fn queues(ended: &CommandOutput) -> Vec<u64> {
    let account = ended.account();
    let queues = account.0["ports"][0]["queues"].as_array().unwrap();
    queues.iter().map(|queue| queue["queue"].as_u64().unwrap()).collect()
}

#[test]
fn two_processes_write_the_packets_of_their_own_queues() {
    if !require_root("two_processes_write_the_packets_of_their_own_queues") {
        return;
    }
    let lab = Lab::with_queues("twoprocs", 4);
    let (first_file, rest_file) = (lab.path("first.pcapng"), lab.path("rest.pcapng"));
    let first = lab.capture(&["r0@0", "-w", first_file.to_str().unwrap()]);
    first.wait_for("r0@0 (veth), queue 0: native XDP");
    let rest = lab.capture(&["r0@1-3", "-w", rest_file.to_str().unwrap()]);
    rest.wait_for("r0@1-3 (veth), queues 1-3: native XDP");
    assert_eq!(
        devices(&lab),
        json!([
            { "name": "r0@0", "in_use": true, "pids": [first.pid()] },
            { "name": "r0@1", "in_use": true, "pids": [rest.pid()] },
            { "name": "r0@2", "in_use": true, "pids": [rest.pid()] },
            { "name": "r0@3", "in_use": true, "pids": [rest.pid()] },
        ])
    );
    let table = String::from_utf8(lab.spawn(&["interfaces"]).wait().stdout).unwrap();
    let expected = format!("r0@0 in use (pid {}), r0@1-3 in use (pid {})", first.pid(), rest.pid());
    assert!(table.contains(&expected), "{table}");

    // A core's frames arrive in the queue of its number.
    for core in 0..cores() {
        lab.send(0, core, FRAMES, LiveOptions::default());
    }
    let first = first.stop();
    let rest_frames = if cores() > 1 { FRAMES } else { 0 };
    first.account().assert_lossless(FRAMES);
    assert_eq!(queues(&first), [0]);
    // The founder is gone, and the other process continues.
    if cores() > 1 {
        lab.send(0, 1, FRAMES, LiveOptions::default());
    }
    let rest = rest.stop();
    rest.account().assert_lossless(2 * rest_frames);
    assert_eq!(queues(&rest), [1, 2, 3]);

    let (first, rest) = (read(&first_file), read(&rest_file));
    let (first, rest) = (by_queue(&first.packets), by_queue(&rest.packets));
    assert_eq!(first.keys().copied().collect::<Vec<_>>(), [(0, None)], "queue 0 alone needs no number");
    assert_frames(&first[&(0, None)], FrameSpec::default(), usize::MAX);
    if cores() > 1 {
        assert_eq!(rest.keys().copied().collect::<Vec<_>>(), [(0, Some(1))]);
        // Two runs of the generator, each numbered from 0.
        let packets = &rest[&(0, Some(1))];
        assert_frames(&packets[..FRAMES as usize], FrameSpec::default(), usize::MAX);
        assert_frames(&packets[FRAMES as usize..], FrameSpec::default(), usize::MAX);
    }
}

#[test]
fn conflicts_are_explained_and_a_killed_founder_costs_nothing() {
    if !require_root("conflicts_are_explained_and_a_killed_founder_costs_nothing") {
        return;
    }
    let lab = Lab::with_queues("conflicts", 2);
    let refused = |port: &str, code: i32, words: &str| {
        let ended = lab.spawn(&["capture", port]).wait();
        assert_eq!((ended.code, ended.stdout.len()), (Some(code), 0), "{ended:#?}");
        assert!(ended.stderr.contains(words), "no {words:?} in {}", ended.stderr);
    };
    refused("r0@2", 1, "r0 has 2 receive queues, numbers 0 to 1, so there is no r0@2");
    refused("packet:r0@1", 2, "give packet:r0 to capture all of it passively, or xdp:r0@1");
    refused("r0@if5", 2, "is no set of receive queues");
    let founder = lab.capture(&["r0@1"]);
    refused("r0", 1, &format!("receive queues of r0 are captured by wirecap (pid {})", founder.pid()));
    refused("r0@0-1", 1, &format!("r0@1 is captured by wirecap (pid {})", founder.pid()));
    let member = lab.capture(&["r0@0"]);
    founder.signal(Signal::SIGKILL);
    founder.wait();
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let successor = lab.capture(&["r0@1"]);
    member.stop().account().assert_lossless(FRAMES);
    successor.stop().account().assert_lossless(0);
    let whole = lab.capture(&["r0"]);
    refused("r0@1", 1, &format!("r0 is captured as a whole by wirecap (pid {})", whole.pid()));
    whole.stop().account().assert_lossless(0);
}

#[test]
fn lost_queues_are_reported_at_once_and_in_the_account() {
    if !require_root("lost_queues_are_reported_at_once_and_in_the_account") {
        return;
    }
    let lab = Lab::with_queues("lostqueues", 2);
    let capture = lab.capture(&["r0@0-1"]);
    capture.wait_for("r0@0-1 (veth), queues 0-1: native XDP");
    let interface = lab.right.enter(|| netdev::interface("r0")).unwrap();
    let table = bpf::shared_map(interface.xdp_programs[0].program_id, "wirecap_queues").unwrap().unwrap();
    assert!(table.map.delete(&1_u32.to_ne_bytes()).unwrap());
    capture.wait_for("packets of queue 1 went to the host, uncounted, until it was put back");
    assert!(table.map.program_id(1).unwrap().is_some());
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0));
    let warnings = ended.account().0["ports"][0]["warnings"].to_string();
    assert!(warnings.contains("packets of queue 1 went to the host, uncounted"), "{warnings}");
}
