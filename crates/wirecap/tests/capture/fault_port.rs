//! Faulty ports: lost interrupts, starving kernels, drivers that report foreign cells.

use wirecap::{
    Capture, Dispatch, Mode, PortSpec,
    port::{fault::Faults, null::NullPort},
};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

const PACKETS: u64 = 5_000;

/// Each fault alone, then all together.
fn troubles() -> [Faults; 5] {
    let none = Faults { seed: 42, ..Faults::default() };
    [
        Faults { stall: 2, ..none },
        Faults { short_batch: 2, ..none },
        Faults { starve: 2, ..none },
        Faults { foreign_cell: 2, ..none },
        Faults { stall: 3, short_batch: 3, starve: 3, foreign_cell: 3, ..none },
    ]
}

fn faulty(port: impl Into<PortSpec>, faults: Faults) -> PortSpec {
    PortSpec::Fault { inner: Box::new(port.into()), faults }
}

fn setups() -> impl Iterator<Item = (Faults, Dispatch, Mode)> {
    troubles().into_iter().flat_map(|faults| {
        let mode = Mode::Advanced { threshold_percent: 20 };
        [(Dispatch::Pull, mode), (Dispatch::Push, mode), (Dispatch::Pull, Mode::Basic)]
            .map(|(dispatch, mode)| (faults, dispatch, mode))
    })
}

#[test]
fn packets_from_memory_survive_every_fault() {
    // The second kind of packet has three parts.
    for packet_bytes in [60, 4000] {
        for (faults, dispatch, mode) in setups() {
            let null = NullPort { queues: 2, packet_bytes, packets_per_queue: PACKETS };
            let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4);
            let builder = builder.dispatch(dispatch).mode(mode).port(faulty(null, faults));
            let mut capture = builder.open().unwrap();
            let crew = Crew::eager(capture.take_workers());
            crew.wait_for(2 * PACKETS);
            capture.stopper().stop();
            let arrivals = crew.join();
            let report = capture.finish();
            let account = check::account_closed(&report);
            assert_eq!((account.seen, account.delivered), (2 * PACKETS, 2 * PACKETS), "{faults:?}");
            assert!(arrivals.iter().all(|arrival| arrival.bytes.len() == packet_bytes as usize));
            assert_eq!(check::in_order(&arrivals).len(), 2);
        }
    }
}

#[test]
fn packets_of_an_interface_survive_every_fault() {
    need_root!("fault_port::packets_of_an_interface_survive_every_fault");
    let wire = Wire::with_queues("trouble", 1);
    for (faults, dispatch, mode) in setups() {
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(64);
        let builder = builder.dispatch(dispatch).mode(mode).port(faulty("in0", faults));
        let mut capture = wire.inside.enter(|| builder.open()).unwrap();
        let crew = Crew::eager(capture.take_workers());
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send_while(PACKETS, |sent| sent > crew.arrived() + 512);
        crew.wait_for(PACKETS);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.seen, account.delivered), (PACKETS, PACKETS), "{faults:?} {dispatch:?}");
        assert_eq!(report.ports[0].name, "in0");
        check::in_order(&arrivals);
        check::each_once(check::intact(&arrivals, FrameSpec::default()), PACKETS, 0);
    }
}

#[test]
fn the_account_of_a_faulty_interface_closes_even_if_no_worker_reads() {
    need_root!("fault_port::the_account_of_a_faulty_interface_closes_even_if_no_worker_reads");
    let wire = Wire::with_queues("unread", 1);
    for faults in troubles() {
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(64);
            let builder = builder.dispatch(dispatch).port(faulty("in0", faults));
            let capture = wire.inside.enter(|| builder.open()).unwrap();
            wire.queue_sender(0, FrameSpec::default()).send(1_000);
            wait_until("all frames are seen", || capture.report().total().seen == 1_000);
            let account = check::account_closed(&capture.finish());
            assert_eq!((account.seen, account.lost.left_at_stop), (1_000, 1_000), "{faults:?} {dispatch:?}");
        }
    }
}
