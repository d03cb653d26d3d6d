//! The gauge of the pool rises before the first packet is lost, wherever packets wait, on every kind of port.

use wirecap::{
    Builder, Capture, Dispatch, Mode, Modes, PortSpec, Report, Timestamp, port::fault::Faults,
    report::QueueMode,
};
use wirecap_sys::cpu;
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, kernel_is_at_least, need_root, wait_until, wire::Wire};

const CHUNK: u32 = 16;
const CHUNKS: u32 = 4;

fn builder() -> Builder {
    Capture::builder().cells_per_chunk(CHUNK).chunks_per_pool(CHUNKS).workers(1).mode(Mode::Basic)
}

/// Sends frames one by one to a capture with a stalled worker. The gauge has to rise until the last frame
/// before the first loss.
fn rises_before_the_first_loss(port: impl Into<PortSpec> + Send, builder: Builder) -> Report {
    rises_with(port, builder, FrameSpec::default())
}

fn rises_with(port: impl Into<PortSpec> + Send, builder: Builder, frame: FrameSpec) -> Report {
    let wire = Wire::with_queues("gauge", 1);
    let mut capture = wire.inside.enter(|| builder.port(port).open()).unwrap();
    let workers = capture.take_workers();
    let name = capture.report().ports[0].name.clone();
    if capture.report().ports[0].queues[0].mode == QueueMode::Tap {
        // It packs by CPU.
        cpu::pin_to_core(0).unwrap();
    }
    let mut sender = wire.queue_sender(0, frame);
    assert_eq!(capture.report().pool_used_percent(), 0.0, "{name}");

    let mut before = vec![0.0];
    let at_loss = loop {
        sender.send(1);
        let mut report = capture.report();
        wait_until("the frame is seen", || {
            report = capture.report();
            report.total().seen >= sender.sent()
        });
        let gauge = report.pool_used_percent();
        let last = *before.last().unwrap();
        assert!(gauge >= last, "{name}: from {last} to {gauge} after {} frames", before.len());
        if report.total().lost.total() > 0 {
            break report;
        }
        before.push(gauge);
    };
    assert!(before.len() > 40, "{name}: a loss after {} frames", before.len());
    // The kernel hands a block over after 5 ms, full or not, so each block may end at any moment.
    let is_block_of_kernel = at_loss.ports[0].queues[0].mode == QueueMode::Packet;
    let least = if is_block_of_kernel { 10.0 } else { 25.0 };
    assert!(before[before.len() / 2] > least, "{name}: the gauge rises with waiting packets: {before:?}");
    let least = if is_block_of_kernel { 100.0 - 100.0 / f64::from(CHUNKS) } else { 100.0 };
    let last = before[before.len() - 1];
    assert!(last >= least, "{name}: {last} after {} frames, then a loss", before.len());
    assert_eq!((at_loss.pool_used_percent(), at_loss.pool_peak_percent()), (100.0, 100.0), "{name}");

    let crew = Crew::eager(workers);
    wait_until("the pool is empty again", || capture.report().pool_used_percent() == 0.0);
    capture.stopper().stop();
    crew.join();
    let report = capture.finish();
    check::account_closed(&report);
    assert_eq!((report.pool_used_percent(), report.pool_peak_percent()), (0.0, 100.0), "{name}");
    report
}

#[test]
fn of_an_interface_that_is_taken() {
    need_root!("gauge::of_an_interface_that_is_taken");
    let report = rises_before_the_first_loss("xdp:in0", builder());
    assert_eq!(report.ports[0].queues[0].mode, QueueMode::Copy);
    rises_before_the_first_loss("xdp:in0@0", builder());
    rises_before_the_first_loss("xdp:in0", builder().timestamp(Timestamp::Kernel));
    let report = rises_before_the_first_loss("xdp:in0", builder().modes(Modes::Generic));
    assert_eq!(report.ports[0].queues[0].mode, QueueMode::Generic);
}

#[test]
fn where_a_capture_thread_takes_packets_from_the_ring() {
    need_root!("gauge::where_a_capture_thread_takes_packets_from_the_ring");
    rises_before_the_first_loss("xdp:in0", builder().dispatch(Dispatch::Push));
}

#[test]
fn where_the_ring_is_shorter_than_the_pool() {
    need_root!("gauge::where_the_ring_is_shorter_than_the_pool");
    rises_before_the_first_loss("xdp:in0", builder().chunks_per_pool(16).ring_entries(64));
}

#[test]
fn where_a_filter_in_user_space_decides() {
    need_root!("gauge::where_a_filter_in_user_space_decides");
    rises_before_the_first_loss("xdp:in0", builder().filter("not protochain 99"));
}

#[test]
fn of_a_port_with_faults() {
    need_root!("gauge::of_a_port_with_faults");
    let inner = Box::new(PortSpec::from("xdp:in0"));
    rises_before_the_first_loss(PortSpec::Fault { inner, faults: Faults::default() }, builder());
}

#[test]
fn of_an_interface_that_the_host_keeps() {
    need_root!("gauge::of_an_interface_that_the_host_keeps");
    rises_before_the_first_loss("packet:in0", builder().cells_per_chunk(4));
    rises_before_the_first_loss("packet:in0", builder().cells_per_chunk(4).dispatch(Dispatch::Push));
}

/// Blocks of 128 KiB, the smallest, have a rest that is too short for the next packet.
#[test]
fn where_packets_are_packed() {
    need_root!("gauge::where_packets_are_packed");
    let builder = || builder().cells_per_chunk(64);
    for len in [60, 1_514] {
        let frame = FrameSpec { len, ..FrameSpec::default() };
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let report = rises_with("xdp:in0", builder().dispatch(dispatch), frame);
            check::mode(&report, Modes::Best);
        }
        if kernel_is_at_least(6, 6) {
            rises_with("tap:in0", builder(), frame);
        }
    }
}
