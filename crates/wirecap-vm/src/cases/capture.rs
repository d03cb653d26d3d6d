//! Every queue delivers every frame once, byte for byte, in the best mode of the driver; the account closes.

use std::collections::BTreeSet;

use wirecap::{Dispatch, Mode, Wait};
use wirecap_traffic::FrameSpec;

use super::Case;
use wirecap_testing::{check, crew::Crew};

use crate::machine::Machine;

pub(super) const CASES: [Case; 6] = [
    ("capture-basic-pull", |machine| captures(machine, Mode::Basic, Dispatch::Pull, Wait::Sleep)),
    ("capture-basic-push", |machine| captures(machine, Mode::Basic, Dispatch::Push, Wait::Sleep)),
    ("capture-advanced-pull", |machine| captures(machine, advanced(), Dispatch::Pull, Wait::Sleep)),
    ("capture-advanced-push", |machine| captures(machine, advanced(), Dispatch::Push, Wait::Sleep)),
    ("capture-block-pull", |machine| captures(machine, Mode::Basic, Dispatch::Pull, Wait::Block)),
    ("capture-block-push", |machine| captures(machine, Mode::Basic, Dispatch::Push, Wait::Block)),
];

const FRAMES: u64 = 3_000;

fn advanced() -> Mode {
    Mode::advanced(60).unwrap()
}

fn captures(machine: &Machine, mode: Mode, dispatch: Dispatch, wait: Wait) {
    let builder = machine.builder().mode(mode).dispatch(dispatch).wait(wait);
    let mut capture = machine.capture(builder);
    let crew = Crew::eager(capture.take_workers());
    let spec = FrameSpec { len: 300, ..FrameSpec::default() };
    let mut traffic = machine.traffic(spec);
    traffic.send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    assert_eq!((report.total().seen, report.total().delivered), (FRAMES, FRAMES), "{report:#?}");
    check::each_once(check::intact(&arrivals, spec), FRAMES, 0);
    let queues = check::in_order(&arrivals);
    let seen: BTreeSet<u16> = queues.keys().map(|&(_, queue)| queue).collect();
    assert_eq!(seen.len() as u32, machine.captured.queues, "every queue has packets: {seen:?}");
    check::pools_whole(&report);
}
