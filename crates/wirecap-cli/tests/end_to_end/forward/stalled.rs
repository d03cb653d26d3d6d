//! A stalled reader of the copy: the copy loses packets, the traffic does not.
//!
//! ```text
//!   left:l0 ══ m0 ─ wirecap forward -w - ─ m1 ══ r0:right
//!                          └── standard output ──► open, and not read
//! ```

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

use wirecap_lab::Capture;
use wirecap_lab::require_root;
use wirecap_testing::PacketSender;

use super::{Cable, frame};
use crate::lab::{READY, RunningCommand, WIRECAP};

const FRAME_LEN: usize = 1_400;
/// The most that may wait for the output; `MUCH` is more, even with what a pipe and the merger take.
const WAITING_BYTES: usize = 64 << 20;
const MUCH: usize = 3 * WAITING_BYTES / FRAME_LEN;
/// Frames per second, few enough that nothing is lost for another reason.
const PER_SECOND: f64 = 40_000.0;

/// Sends frames at a rate that causes no loss by itself.
fn send(sender: &mut PacketSender, frames: usize) {
    let begun = Instant::now();
    let frame = frame(1, FRAME_LEN);
    for number in 0..frames {
        while number as f64 > begun.elapsed().as_secs_f64() * PER_SECOND {
            thread::sleep(Duration::from_millis(1));
        }
        sender.send(&frame).unwrap();
    }
}

fn forward(cable: &Cable) -> RunningCommand {
    let mut command = cable.middle.command(WIRECAP);
    // The pool is for a machine on which the worker waits for its turn.
    command.args(["forward", "m0", "m1", "--json", "-w", "-", "-R", "256"]);
    let running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    running
}

#[test]
fn a_reader_that_stalls_does_not_cut_the_wire() {
    if !require_root("forward::a_reader_that_stalls_does_not_cut_the_wire") {
        return;
    }
    let cable = Cable::quiet("stalled");
    let mut running = forward(&cable);
    let mut sender = cable.sender();
    send(&mut sender, MUCH);
    running.wait_for("not written, because the output does not accept them in time");
    // The reader wakes up and takes the waiting packets; from now on, packets are written again.
    let mut stdout = running.take_stdout();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        bytes
    });
    thread::sleep(Duration::from_secs(2));
    send(&mut sender, 1_000);
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "not everything is in the copy: {ended:#?}");
    let copy = Capture::read(reader.join().unwrap().as_slice()).unwrap();
    let account = ended.account_on_stderr();
    let forwarded = account.0["forwarded"][0]["forwarded"].as_u64().unwrap();
    assert_eq!(
        (forwarded, account.sum("delivered")),
        (MUCH as u64 + 1_000, MUCH as u64 + 1_000),
        "{ended:#?}"
    );
    let (written, not_taken) = (account.written("packets"), account.written("not_taken"));
    assert!(not_taken > 0 && written > 1_000, "{ended:#?}");
    assert_eq!(written + not_taken, forwarded, "{ended:#?}");
    assert!(copy.damage.is_none() && copy.packets.len() as u64 == written, "{ended:#?}");
    assert_eq!(account.written("out_of_order"), 0, "{ended:#?}");
    let last = copy.packets.last().unwrap().timestamp_ns;
    assert!(copy.packets[copy.packets.len() - 1_000].timestamp_ns.unwrap() + 5_000_000_000 > last.unwrap());
}

#[test]
fn a_reader_that_never_wakes_up_does_not_prevent_the_end() {
    if !require_root("forward::a_reader_that_never_wakes_up_does_not_prevent_the_end") {
        return;
    }
    let cable = Cable::quiet("asleep");
    let running = forward(&cable);
    let mut sender = cable.sender();
    send(&mut sender, 2_000);
    let begun = Instant::now();
    let ended = running.stop();
    assert!(begun.elapsed() < Duration::from_secs(20), "{ended:#?}");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("cannot write standard output: it accepted nothing for 5 s at the end"),
        "{ended:#?}"
    );
    let account = ended.account_on_stderr();
    assert_eq!(account.0["forwarded"][0]["forwarded"].as_u64(), Some(2_000), "{ended:#?}");
    assert!(account.written("packets") < 2_000, "{ended:#?}");
}
