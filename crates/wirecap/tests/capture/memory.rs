//! The memory of a capture: the kernel's share of it, the size of pools, the reach of transmitters, and an
//! opening that is given up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wirecap::{
    Builder, Capture, Error, Homes, Mode, Modes, Reach, Refusal, WaitOutcome, port::null::NullPort,
};
use wirecap_lab::VethOptions;

use wirecap_testing::{check, need_root, wire::Wire};

const QUEUES: u32 = 24;

/// Kernel memory mapped page by page, in MiB: rings, and the records of cells where there are many.
fn kernel_mib() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("VmallocUsed:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// The kernel's memory once nothing is freed any more: the kernel takes some time after a capture has ended.
fn settled_mib() -> u64 {
    let mut last = u64::MAX;
    loop {
        let now = kernel_mib();
        if now >= last {
            return now;
        }
        last = now;
        thread::sleep(Duration::from_millis(300));
    }
}

/// The growth of the kernel's memory while a capture is open: the lesser of two measurements, since other
/// programs allocate, too.
fn growth_mib(open: impl Fn() -> Capture) -> u64 {
    let growth = || {
        let before = settled_mib();
        let capture = open();
        let growth = kernel_mib().saturating_sub(before);
        drop(capture);
        growth
    };
    growth().min(growth())
}

#[test]
fn the_kernels_records_grow_with_the_cells_not_with_queues_times_cells() {
    need_root!("memory::the_kernels_records_grow_with_the_cells_not_with_queues_times_cells");
    let wire = Wire::with_queues("records", QUEUES);
    let growth = growth_mib(|| {
        let capture = wire.capture(Capture::builder().chunks_per_pool(16).modes(Modes::Copy));
        // 24 x 4096 cells: 12 MiB of records and 2 MiB of rings. If each socket had records of all cells,
        // they would take 288 MiB.
        let about = capture.report().memory.kernel_bytes >> 20;
        assert!((10..20).contains(&about), "{about} MiB");
        capture
    });
    assert!(growth < 100, "{growth} MiB");
}

#[test]
fn sending_by_its_own_worker_needs_records_of_only_that_workers_cells() {
    need_root!("memory::sending_by_its_own_worker_needs_records_of_only_that_workers_cells");
    let wire = Wire::with_queues("reach", QUEUES);
    let builder = || {
        let builder = Capture::builder().chunks_per_pool(16).transmit(64).homes(Homes::ByQueue);
        builder.mode(Mode::Basic).workers(QUEUES as usize).reach(Reach::Worker)
    };
    let growth = growth_mib(|| wire.capture(builder()));
    assert!(growth < 100, "{growth} MiB");
}

#[test]
fn a_packet_out_of_reach_is_given_back() {
    need_root!("memory::a_packet_out_of_reach_is_given_back");
    let wire = Wire::with_queues("out_of_reach", 2);
    let builder = Capture::builder().chunks_per_pool(2).transmit(64).allocators(2).homes(Homes::ByQueue);
    let mut capture = wire.capture(builder.reach(Reach::Worker));
    let mut allocators = capture.take_allocators();
    let mut transmitters = capture.take_transmitters();
    assert_eq!(transmitters.iter().map(wirecap::Transmitter::worker).collect::<Vec<_>>(), [0, 1]);
    let packet = allocators[1].packet(&[7; 60]).unwrap();
    let refused = packet.forward(&mut transmitters[0]).unwrap_err();
    assert_eq!(refused.reason, Refusal::NotSendable);
    refused.packet.forward(&mut transmitters[1]).unwrap();
}

fn null(queues: u16) -> Builder {
    let port = NullPort { queues, packet_bytes: 60, packets_per_queue: 10 };
    Capture::builder().port(port).cells_per_chunk(16)
}

#[test]
fn r_follows_from_the_memory_of_all_pools() {
    // A chunk is 32 KiB.
    let memory = |builder: Builder| builder.open().unwrap().report().memory;
    let report = memory(null(4).memory(1 << 20));
    assert_eq!((report.chunks_per_pool, report.cells_bytes, report.bounded), (8, 1 << 20, None));
    assert_eq!(memory(null(3).memory((1 << 20) - 1)).chunks_per_pool, 10, "rounded down");
    assert_eq!(
        memory(null(2).allocators(2).memory(1 << 20)).chunks_per_pool,
        8,
        "allocators have pools, too"
    );
    assert_eq!(
        memory(null(1).memory(u64::MAX).chunks_per_pool(7)).chunks_per_pool,
        7,
        "the last setting counts"
    );
    let error = null(4).memory(100_000).open().unwrap_err();
    assert!(matches!(error, Error::LittleMemory { bytes: 100_000, least: 131_072 }), "{error}");
    // A pool has 4,194,304 cells of 2 KiB at most.
    let error = null(4).memory(u64::MAX).open().unwrap_err();
    assert!(matches!(error, Error::MuchMemory { bytes: u64::MAX, most } if most == 32 << 30), "{error}");
}

#[test]
fn by_default_pools_take_at_most_a_share_of_the_available_memory() {
    let plain = null(1).open().unwrap().report().memory;
    assert_eq!((plain.chunks_per_pool, plain.bounded), (128, None));
    // With chunks of 32 MiB, 128 for each of 64 queues would be 256 GiB.
    let many = null(64).cells_per_chunk(1 << 14);
    let prepared = many.prepare().unwrap();
    let (chunks, bytes) = (prepared.geometry().chunks_per_pool(), prepared.cells_bytes());
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
    assert!(chunks == 1 || (chunks < 128 && bytes < total / 8), "R = {chunks}, {} MiB", bytes >> 20);
}

#[test]
fn opening_is_given_up_within_a_second() {
    need_root!("memory::opening_is_given_up_within_a_second");
    let wire = Wire::new("give_up", VethOptions { queues: 64, ..VethOptions::default() });
    let sized = |chunks, modes| Capture::builder().chunks_per_pool(chunks).modes(modes);
    let given_up = |builder: Builder, after| {
        let flag = Arc::new(AtomicBool::new(false));
        let builder = builder.give_up(Arc::clone(&flag));
        thread::scope(|scope| {
            let opening = scope.spawn(|| wire.try_capture(builder).map(drop));
            thread::sleep(after);
            flag.store(true, Ordering::Relaxed);
            let asked = Instant::now();
            let opened = opening.join().unwrap();
            // The opening may have succeeded just before; it was then ended like a capture.
            assert!(opened.is_ok() || matches!(opened, Err(Error::GivenUp)), "{opened:?}");
            if opened.is_ok() { Duration::ZERO } else { asked.elapsed() }
        })
    };
    for (chunks, modes) in [(4, Modes::Copy), (20, Modes::Copy), (20, Modes::Best)] {
        let begun = Instant::now();
        let capture = wire.capture(sized(chunks, modes));
        check::mode(&capture.report(), modes);
        drop(capture);
        let whole = begun.elapsed();
        for part in 1..5 {
            let after = whole * part / 5;
            // The best of three: other work on the machine may delay one attempt.
            let took = (0..3).map(|_| given_up(sized(chunks, modes), after)).min().unwrap();
            assert!(took < Duration::from_secs(1), "R = {chunks}, {modes}, after {after:?}: {took:?}");
        }
    }
    // The queues are free again.
    let mut capture = wire.capture(Capture::builder().chunks_per_pool(1));
    capture.stopper().stop();
    assert!(
        capture
            .take_workers()
            .into_iter()
            .all(|mut worker| matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Ended))
    );
}
