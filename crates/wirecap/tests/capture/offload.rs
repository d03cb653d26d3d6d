//! Advanced mode: buddies take over what is above T, and only that, and the chunks go home. Counted in cells,
//! of which each packet takes one in copy mode.

use wirecap::{Capture, Dispatch, Grouping, Mode, Modes, Report};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{
    check,
    crew::Crew,
    gate::Gate,
    need_root, wait_until,
    wire::{QueueSender, Wire, give_it_a_chance},
};

const CHUNK: u64 = 64;
/// M × R of a queue.
const POOL: u64 = CHUNK * 64;
/// T. So low that the most cells under way, plus as many on their way home, fit the pool: nothing is lost.
const THRESHOLD: u32 = 20;
/// Frames into the hot queue that stay below T.
const BELOW: u64 = POOL / 5 - CHUNK;
/// All frames into the hot queue.
const HOT: u64 = 5_000;
/// Frames into each of the other queues.
const COLD: u64 = 500;

/// Four queues, four workers. Worker 0 waits at a gate with its first batch.
struct Lab {
    wire: Wire,
    capture: Capture,
    crew: Crew,
    gate: Gate,
}

impl Lab {
    fn new(label: &str, dispatch: Dispatch, mode: Mode, grouping: Grouping) -> Self {
        let wire = Wire::with_queues(label, 4);
        let builder = Capture::builder().cells_per_chunk(CHUNK as u32).chunks_per_pool(64).modes(Modes::Copy);
        let mut capture = wire.capture(builder.mode(mode).dispatch(dispatch).grouping(grouping));
        let gate = Gate::closed();
        let at_gate = gate.clone();
        let crew = Crew::start(capture.take_workers(), move |worker, _| {
            if worker == 0 {
                at_gate.pass();
            }
        });
        Self { wire, capture, crew, gate }
    }

    fn sender(&self, queue: u16) -> QueueSender {
        self.wire.queue_sender(queue, FrameSpec::default())
    }

    /// Opens the gate, waits for `packets` in total, and ends the capture.
    fn finish(self, packets: u64) -> Report {
        self.gate.open();
        self.crew.wait_for(packets);
        wait_until("all cells are home", || self.capture.report().pool_used_percent() == 0.0);
        self.capture.stopper().stop();
        let arrivals = self.crew.join();
        let report = self.capture.finish();
        let account = check::account_closed(&report);
        assert_eq!(account.delivered, arrivals.len() as u64);
        for packets in check::in_order(&arrivals).values() {
            check::increasing(&check::intact(packets.iter().copied(), FrameSpec::default()));
        }
        check::pools_whole(&report);
        report
    }
}

fn taken_over(report: &Report) -> u64 {
    report.workers.iter().map(|worker| worker.offloaded_in).sum()
}

/// At the end, all that was given away was taken over.
fn offloaded(report: &Report) -> u64 {
    let given_away: u64 = report.workers.iter().map(|worker| worker.offloaded_out).sum();
    assert_eq!(taken_over(report), given_away, "{report:#?}");
    given_away
}

fn buddies_help_above_the_threshold_only(dispatch: Dispatch) {
    let mode = Mode::advanced(THRESHOLD).unwrap();
    let lab = Lab::new("offload", dispatch, mode, Grouping::All);
    let mut hot = lab.sender(0);
    hot.send(BELOW);
    wait_until("the hot queue sees its frames", || lab.capture.report().total().seen == BELOW);
    give_it_a_chance();
    assert_eq!((taken_over(&lab.capture.report()), lab.crew.arrived()), (0, 0), "below T");

    // Packets not taken over stay below the threshold, except for a chunk or two on their way.
    hot.send_while(HOT - BELOW, |sent| sent - lab.crew.arrived() > BELOW + 4 * CHUNK);
    let helped = taken_over(&lab.capture.report());
    assert!(helped >= HOT - POOL, "{helped} packets were taken over");
    for queue in 1..4 {
        lab.sender(queue).send(COLD);
    }

    let report = lab.finish(HOT + 3 * COLD);
    assert_eq!(report.total().lost.total(), 0, "{report:#?}");
    assert_eq!((report.workers[0].offloaded_in, report.workers[0].offloaded_out), (0, offloaded(&report)));
    let kept = report.workers[0].packets;
    assert!(kept >= BELOW / 2 && kept <= HOT - helped, "worker 0 got the packets below T: {kept}");
}

#[test]
fn buddies_help_above_the_threshold_only_in_pull() {
    need_root!("offload::buddies_help_above_the_threshold_only_in_pull");
    buddies_help_above_the_threshold_only(Dispatch::Pull);
}

#[test]
fn buddies_help_above_the_threshold_only_in_push() {
    need_root!("offload::buddies_help_above_the_threshold_only_in_push");
    buddies_help_above_the_threshold_only(Dispatch::Push);
}

/// With `pull` buddies take over what waits already, with `push` what comes from then on.
fn a_lower_threshold_has_an_effect_at_once(dispatch: Dispatch) {
    let lab = Lab::new("lowered", dispatch, Mode::advanced(100).unwrap(), Grouping::All);
    let mut hot = lab.sender(0);
    let half = POOL / 2;
    hot.send(half);
    wait_until("the hot queue sees its frames", || lab.capture.report().total().seen == half);
    give_it_a_chance();
    assert_eq!((taken_over(&lab.capture.report()), lab.crew.arrived()), (0, 0), "below T");
    assert_eq!(lab.capture.set_threshold_percent(THRESHOLD), Ok(Some(100)));
    hot.send(4 * CHUNK);
    wait_until("a buddy helps", || lab.crew.arrived() > 0);
    let sent = half + 4 * CHUNK;
    let offloads = lab.capture.offloads();
    assert!(!offloads.is_empty() && offloads.iter().all(|offload| offload.home == 0), "{offloads:?}");
    let report = lab.finish(sent);
    assert_eq!((report.total().lost.total(), report.threshold_percent), (0, Some(THRESHOLD as u8)));
    assert!(offloaded(&report) > 0, "{report:#?}");
}

#[test]
fn a_lower_threshold_has_an_effect_at_once_in_pull() {
    need_root!("offload::a_lower_threshold_has_an_effect_at_once_in_pull");
    a_lower_threshold_has_an_effect_at_once(Dispatch::Pull);
}

#[test]
fn a_lower_threshold_has_an_effect_at_once_in_push() {
    need_root!("offload::a_lower_threshold_has_an_effect_at_once_in_push");
    a_lower_threshold_has_an_effect_at_once(Dispatch::Push);
}

/// T is a percentage of the pool of one queue: a worker that is late with one of its two queues is helped,
/// even if the other one is empty.
#[test]
fn a_hot_queue_does_not_hide_behind_an_idle_one_of_the_same_worker() {
    need_root!("offload::a_hot_queue_does_not_hide_behind_an_idle_one_of_the_same_worker");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("hidden", 4);
        let builder = Capture::builder().cells_per_chunk(CHUNK as u32).chunks_per_pool(64).workers(2);
        let builder = builder.modes(Modes::Copy);
        let mut capture = wire.capture(builder.mode(Mode::advanced(60).unwrap()).dispatch(dispatch));
        let gate = Gate::closed();
        let at_gate = gate.clone();
        let crew = Crew::start(capture.take_workers(), move |worker, _| {
            if worker == 0 {
                at_gate.pass();
            }
        });
        // Twice the pool: everything arrives only if worker 1 helps worker 0, whose other queue is 2.
        wire.queue_sender(0, FrameSpec::default())
            .send_while(2 * POOL, |sent| sent - crew.arrived() > POOL * 3 / 4);
        gate.open();
        crew.wait_for(2 * POOL);
        capture.stopper().stop();
        crew.join();
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).lost.total(), 0, "{dispatch:?}: {report:#?}");
        assert!(report.workers[1].offloaded_in >= POOL, "{dispatch:?}: {report:#?}");
    }
}

#[test]
fn basic_mode_loses_on_the_hot_queue_and_nowhere_else() {
    need_root!("offload::basic_mode_loses_on_the_hot_queue_and_nowhere_else");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let lab = Lab::new("basic", dispatch, Mode::Basic, Grouping::All);
        lab.sender(0).send(HOT);
        for queue in 1..4 {
            let mut cold = lab.sender(queue);
            let before = lab.crew.arrived();
            cold.send(COLD);
            lab.crew.wait_for(before + COLD);
        }
        wait_until("all frames are seen", || lab.capture.report().total().seen == HOT + 3 * COLD);
        let report = lab.finish(POOL + 3 * COLD);
        let lost: Vec<u64> =
            report.ports[0].queues.iter().map(|queue| queue.account.lost.no_free_cell).collect();
        assert_eq!(lost, [HOT - POOL, 0, 0, 0], "{dispatch:?}");
        assert_eq!(report.total().lost.total(), HOT - POOL);
        assert_eq!(offloaded(&report), 0);
    }
}

#[test]
fn a_chunk_does_not_leave_its_buddy_group() {
    need_root!("offload::a_chunk_does_not_leave_its_buddy_group");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let groups = Grouping::Sets(vec![vec![0, 3], vec![1, 2]]);
        let lab = Lab::new("groups", dispatch, Mode::advanced(THRESHOLD).unwrap(), groups);
        let mut hot = lab.sender(0);
        hot.send_while(HOT, |sent| sent - lab.crew.arrived() > BELOW + 4 * CHUNK);
        let report = lab.finish(HOT);
        assert_eq!(report.total().lost.total(), 0, "{dispatch:?}");
        let got: Vec<u64> = report.workers.iter().map(|worker| worker.packets).collect();
        assert_eq!((got[1], got[2], got[0] + got[3]), (0, 0, HOT), "{dispatch:?}");
        assert_eq!(report.workers[3].offloaded_in, got[3]);
    }
}
