//! Handles that form a group: the thread of one takes over what another one is too slow for.

use wirecap_lab::VethOptions;
use wirecap_testing::{need_root, wait_or_explain};
use wirecap_traffic::FrameSpec;

use crate::rig::{Library, PORT, Program, Rig};

const QUEUES: u32 = 3;
const FRAMES: u64 = 10_000;
/// Cells of each pool.
const CELLS: u64 = 64 * 32;

/// Starts `threads` on all queues of the port; the first thread stalls until few packets are left.
fn stalled_reader(rig: &Rig, group: &str) -> Program {
    let threads = rig.compile("threads");
    let device = |queue| format!("{PORT}@{queue}?M=64&R=32&xdp_mode=copy{group}");
    let devices: Vec<_> = (0..QUEUES).map(device).collect();
    let (frames, left) = (FRAMES.to_string(), CELLS.to_string());
    let mut arguments = vec!["1", &frames, &left];
    arguments.extend(devices.iter().map(String::as_str));
    rig.spawn_ready(Library::Wirecap, &threads, &arguments)
}

fn rig() -> Rig {
    Rig::with("group", VethOptions { queues: QUEUES, ..VethOptions::default() })
}

/// Packets that all threads have got so far.
fn got(program: &Program) -> u64 {
    let said = program.running.said();
    said.lines().rev().find_map(|line| line.strip_prefix("got ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_group_takes_over_the_packets_of_a_thread_that_stalls() {
    need_root!("a_group_takes_over_the_packets_of_a_thread_that_stalls");
    let rig = rig();
    let program = stalled_reader(&rig, "&group=ids&T=60");
    let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
    while sender.sent() < FRAMES {
        sender.send(500.min(FRAMES - sender.sent()));
        let sent = sender.sent();
        // Up to the threshold, and one chunk beyond it, packets stay with the first thread.
        let waits = |program: &Program| sent - got(program) > CELLS * 60 / 100 + 128;
        wait_or_explain(|| format!("of {sent}: {}", program.running.said()), || !waits(&program));
    }
    assert_eq!(program.succeed(), "10000 packets, 0 dropped, several threads\n");
}

#[test]
fn without_a_group_they_are_lost_and_counted() {
    need_root!("without_a_group_they_are_lost_and_counted");
    let rig = rig();
    let program = stalled_reader(&rig, "");
    rig.wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
    let ended = program.wait();
    let figures: Vec<u64> = ended.stdout.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [packets, dropped] = figures[..] else { panic!("{ended:#?}") };
    assert!(dropped > 0 && ended.stdout.ends_with("one thread\n"), "{ended:#?}");
    assert_eq!(packets + dropped, FRAMES, "{ended:#?}");
}

/// The handle that is not read has two queues: its own worker has both.
#[test]
fn members_that_wait_in_the_kernel_help_those_that_come_later() {
    need_root!("members_that_wait_in_the_kernel_help_those_that_come_later");
    const QUEUES: u32 = 4;
    let rig = Rig::with("helping", VethOptions { queues: QUEUES, ..VethOptions::default() });
    let helping = rig.compile("helping");
    let device = |queues| format!("{PORT}@{queues}?M=64&R=32&xdp_mode=copy&group=late&T=60");
    // Up to the threshold, and one chunk beyond it, packets stay with the handle that is not read.
    let stay = CELLS * 60 / 100 + 128;
    let wanted = (FRAMES - stay).to_string();
    let devices = ["0", "1", "2-3"].map(device);
    let arguments = [&wanted, &devices[0], &devices[1], &devices[2]].map(String::as_str);
    let program = rig.spawn_ready(Library::Wirecap, &helping, &arguments);
    let mut sender = rig.wire.queue_sender(2, FrameSpec::default());
    while sender.sent() < FRAMES {
        sender.send(500.min(FRAMES - sender.sent()));
        let sent = sender.sent();
        let waits = |program: &Program| sent.saturating_sub(got(program)) > stay && sent < FRAMES;
        wait_or_explain(|| format!("of {sent}: {}", program.running.said()), || !waits(&program));
    }
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}
