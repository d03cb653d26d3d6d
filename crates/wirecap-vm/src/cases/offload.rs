//! Buddies take over the backlog of a slow worker, and the chunks go home; a pool that is too small loses
//! packets, and the account says where.

use wirecap::{Capture, Dispatch, Mode, report::QueueReport};
use wirecap_traffic::FrameSpec;

use super::Case;
use wirecap_testing::{check, crew::Crew, gate::Gate, wait_until};

use crate::machine::Machine;

pub(super) const CASES: [Case; 3] = [
    ("offload-pull", |machine| buddies_help(machine, Dispatch::Pull)),
    ("offload-push", |machine| buddies_help(machine, Dispatch::Push)),
    ("small-pool", small_pool),
];

const CHUNK: u64 = 64;
/// M × R, the cells of a queue.
const POOL: u64 = CHUNK * 32;
const THRESHOLD: u32 = 20;
/// Frames into the hot queue.
const HOT: u64 = 3 * POOL;
/// Packets that may stay with the blocked worker: those below T, and a few chunks in transit.
const LEFT: u64 = POOL * THRESHOLD as u64 / 100 + 4 * CHUNK;

/// All frames belong to one flow, so to one queue. A gate blocks the queue's own worker; the others do its
/// work.
fn buddies_help(machine: &Machine, dispatch: Dispatch) {
    let builder = machine.builder().cells_per_chunk(CHUNK as u32).chunks_per_pool((POOL / CHUNK) as u32);
    let builder = builder.mode(Mode::advanced(THRESHOLD).unwrap()).dispatch(dispatch);
    let mut capture = machine.capture_in_cells(builder);
    let gate = Gate::closed();
    let at_gate = gate.clone();
    let crew = Crew::start(capture.take_workers(), move |worker, batch| {
        if worker == usize::from(batch.queue()) {
            at_gate.pass();
        }
    });
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.flows = 1;
    while traffic.sent() < HOT {
        traffic.send(&capture, CHUNK);
        wait_until("buddies help", || traffic.sent() - crew.arrived() <= LEFT + CHUNK);
    }
    wait_until("buddies have all packets over T", || crew.arrived() >= HOT - LEFT);
    gate.open();
    machine.wait_for(HOT, &crew, &capture);
    wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    check::pools_whole(&report);
    check::in_order(&arrivals);
    check::each_once(check::intact(&arrivals, FrameSpec::default()), HOT, 0);
    let taken_over: u64 = report.workers.iter().map(|worker| worker.offloaded_in).sum();
    assert!(taken_over >= HOT - LEFT, "{report:#?}");
}

/// No worker takes packets, and more packets arrive than there are cells. The pool fills to its last chunk;
/// the queue counts further packets as lost if the kernel copies, and the NIC drops them if the driver has no
/// cell to receive into. Once the cells are back, packets arrive again: wirecap must wake the driver, which
/// went to sleep without cells.
fn small_pool(machine: &Machine) {
    let builder = machine.builder().cells_per_chunk(CHUNK as u32).chunks_per_pool(8).mode(Mode::Basic);
    let mut capture = machine.capture_in_cells(builder);
    let workers = capture.take_workers();
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.flows = 1;
    let (pool, sent) = (8 * CHUNK, 40 * CHUNK);
    if machine.zero_copy {
        traffic.send_slowly(sent);
    } else {
        traffic.send(&capture, sent);
    }
    wait_until("the kernel finds no cell", || queues_sum(&capture, |queue| queue.fill_ring_empty) > 0);
    if !machine.zero_copy {
        wait_until("all frames are seen", || capture.report().total().seen == sent);
    }
    let full = capture.report();
    let kept = full.total().seen - full.total().lost.total();
    assert!((pool - CHUNK..=pool).contains(&kept), "the pool is used to the last chunk: {full:#?}");
    println!(
        "small-pool: {sent} sent, {} seen, {} lost for want of a cell, {} dropped by the NIC, fill ring empty {} times",
        full.total().seen,
        full.total().lost.no_free_cell,
        full.ports[0].dropped_before_xdp,
        queues_sum(&capture, |queue| queue.fill_ring_empty),
    );
    let crew = Crew::eager(workers);
    machine.wait_for(kept, &crew, &capture);
    let before = capture.report().total();
    traffic.send(&capture, pool);
    wait_until("packets arrive again", || capture.report().total().delivered >= before.delivered + pool);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    let total = report.total();
    let lost = if machine.zero_copy { 0 } else { sent - pool };
    assert_eq!((total.lost.no_free_cell, total.lost.total()), (lost, lost), "{report:#?}");
    assert!(before.seen + report.ports[0].dropped_before_xdp <= sent + pool, "{report:#?}");
    check::in_order(&arrivals);
    check::increasing(&check::intact(&arrivals, FrameSpec::default()));
    check::pools_whole(&report);
}

fn queues_sum(capture: &Capture, figure: impl Fn(&QueueReport) -> u64) -> u64 {
    capture.report().ports[0].queues.iter().map(figure).sum()
}
