//! The end of a trace and of its capture: at the end of the file, by a stop, beside live ports, at damage.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use wirecap::{Capture, Error, PortEvent, WaitOutcome, port::null::NullPort, report::TraceFailure};

use wirecap_lab::trace_bytes::{ORDERS, Order};
use wirecap_testing::{check, crew::Crew, wait_until};

use crate::run::{DeliveredPacket, assert_same, collect, file, port, setups, to_the_end};

fn record(order: Order, number: u32) -> Vec<u8> {
    order.pcap_record(number, 0, (100, 100), &[number as u8; 100])
}

fn expected(packets: u32) -> Vec<DeliveredPacket> {
    let packet = |number: u32| DeliveredPacket {
        port: 0,
        number: number.into(),
        timestamp_ns: u64::from(number) * 1_000_000_000,
        original_len: 100,
        outbound: None,
        data: vec![number as u8; 100],
    };
    (0..packets).map(packet).collect()
}

fn pcap(order: Order, packets: u32) -> Vec<u8> {
    let records = (0..packets).flat_map(|number| record(order, number));
    order.pcap_header(0xa1b2_c3d4, (2, 4), 0, 1).into_iter().chain(records).collect()
}

#[test]
fn workers_see_the_end_of_a_capture_without_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    for packets in [0, 1, 256, 5_000] {
        let path = file(&directory, "end.pcap", &pcap(Order::Little, packets));
        let mut capture = Capture::builder().chunks_per_pool(4).port(port(&path)).open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let mut got = 0;
        loop {
            match worker.next_batch_within(Duration::from_secs(30)) {
                WaitOutcome::Batch(batch) => got += batch.len(),
                WaitOutcome::Idle => panic!("neither packets nor the end"),
                WaitOutcome::Ended => break,
            }
        }
        assert_eq!((got, capture.is_at_end()), (packets as usize, true));
        assert!(
            matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Ended),
            "the capture stays ended"
        );
        let name = format!("trace:{}", path.display());
        assert_eq!(capture.events(), [PortEvent::Read(name)]);
        assert_eq!((capture.events(), capture.all_ports_gone()), (vec![], false), "reported once");
        check::account_closed(&capture.finish());
    }
}

#[test]
fn a_file_without_an_interface_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "section.pcapng", &Order::Little.section(&[]));
    let (got, report) = to_the_end(Capture::builder().port(port(&path)).open().unwrap());
    assert!(got.is_empty() && report.ports[0].error.is_none());
}

#[test]
fn everything_before_damage_is_delivered() {
    let directory = tempfile::tempdir().unwrap();
    for order in ORDERS {
        for packets in [0, 1, 700] {
            let whole = pcap(order, packets);
            let cut = [whole.clone(), record(order, 9)[..50].to_vec()].concat();
            let bad = [whole.clone(), order.pcap_record(0, 0, (0x7fff_ffff, 0), &[0; 500])].concat();
            for bytes in [cut, bad] {
                let path = file(&directory, "damaged.pcap", &bytes);
                for (setup, builder) in setups(64, 2) {
                    let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
                    assert_same(&setup, &got, &expected(packets));
                    let error = report.ports[0].error.as_ref().expect("the file is damaged").to_string();
                    assert!(error.contains(&format!("at byte {}", whole.len())), "{error}");
                    assert!(error.starts_with(&format!("trace:{}: ", path.display())), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_packet_of_another_link_type_ends_the_trace_and_an_unused_interface_does_not() {
    let order = Order::Big;
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = [order.section(&[]), order.interface(1, 0, &[])].concat();
    bytes.extend(order.interface(101, 0, &[order.option(2, b"tun0")]));
    for number in 0..300_u32 {
        bytes.extend(order.packet(0, u64::from(number), 100, &[number as u8; 100], &[]));
    }
    let path = file(&directory, "one.pcapng", &bytes);
    let (got, report) = to_the_end(Capture::builder().port(port(&path)).open().unwrap());
    assert_eq!((got.len(), report.ports[0].error.is_none()), (300, true));

    let offset = bytes.len();
    bytes.extend(order.packet(1, 300, 4, b"raw!", &[]));
    bytes.extend(order.packet(0, 301, 4, b"more", &[]));
    let path = file(&directory, "two.pcapng", &bytes);
    for (setup, builder) in setups(64, 2) {
        let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
        assert_eq!((got.len(), report.ports[0].link_type), (300, 1), "{setup}");
        let Some(TraceFailure::LinkTypes { interface, link_type: 1, other: 101, offset: at, .. }) =
            &report.ports[0].error
        else {
            panic!("{setup}: {:?}", report.ports[0].error);
        };
        assert_eq!((interface.as_str(), *at), ("1 (tun0)", offset as u64), "{setup}");
    }
}

#[test]
fn a_slow_worker_makes_the_file_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "slow.pcap", &pcap(Order::Little, 3_000));
    for (setup, builder) in setups(64, 2) {
        let mut capture = builder.port(port(&path)).open().unwrap();
        let slow = |_: &wirecap::Batch| thread::sleep(Duration::from_millis(2));
        let got = collect(capture.take_workers(), slow);
        assert_same(&setup, &got, &expected(3_000));
        let total = check::account_closed(&capture.finish());
        assert_eq!((total.seen, total.lost.total()), (3_000, 0), "{setup}");
    }
}

#[test]
fn held_batches_make_the_file_wait_until_they_are_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "held.pcap", &pcap(Order::Little, 2_000));
    let mut capture =
        Capture::builder().cells_per_chunk(64).chunks_per_pool(4).port(port(&path)).open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let (mut held, mut packets) = (VecDeque::new(), 0);
    loop {
        match worker.next_batch_within(Duration::from_millis(20)) {
            WaitOutcome::Batch(batch) => {
                packets += batch.len();
                held.push_back(batch);
            }
            WaitOutcome::Idle => {
                assert_eq!(held.len(), 4, "reading waits only when the pool is used up");
                assert!(!capture.is_at_end());
                held.pop_front();
            }
            WaitOutcome::Ended => break,
        }
    }
    assert_eq!(packets, 2_000);
    drop(held);
    check::pools_whole(&capture.finish());
}

#[test]
fn a_stopped_capture_has_read_no_more_than_it_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "stopped.pcap", &pcap(Order::Little, 100_000));
    for (setup, builder) in setups(64, 64) {
        let mut capture = builder.port(port(&path)).open().unwrap();
        let stopper = Arc::new(Mutex::new(Some(capture.stopper())));
        let got = collect(capture.take_workers(), move |_| {
            if let Some(stopper) = stopper.lock().unwrap().take() {
                stopper.stop();
            }
        });
        let report = capture.finish();
        let total = check::account_closed(&report);
        assert_eq!((total.seen, total.delivered), (got.len() as u64, got.len() as u64), "{setup}");
        assert!(!got.is_empty() && got.len() < 100_000, "{setup}: {}", got.len());
        assert_same(&setup, &got, &expected(got.len() as u32));
        assert!(report.ports[0].read_percent.unwrap() < 100.0, "{setup}");
        // The only worker stops the capture with the first chunk in its hands, and nothing is read ahead.
        if setup.ends_with("Pull, Basic") {
            assert_eq!(got.len(), 64, "{setup}");
        }
    }
}

#[test]
fn a_capture_goes_on_for_its_live_ports() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "beside.pcap", &pcap(Order::Little, 1_000));
    let null = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 500 };
    for (setup, builder) in setups(64, 8) {
        let builder = builder.port(port(&path)).port(null.clone());
        let mut capture = builder.open().unwrap();
        let crew = Crew::eager(capture.take_workers());
        crew.wait_for(1_500);
        wait_until("the trace is read", || matches!(capture.events()[..], [PortEvent::Read(_)]));
        assert!(!capture.is_at_end() && !capture.all_ports_gone(), "{setup}");
        capture.stopper().stop();
        assert_eq!(crew.join().len(), 1_500);
        let report = capture.finish();
        check::account_closed(&report);
        let delivered: Vec<_> = report.ports.iter().map(|port| port.queues[0].account.delivered).collect();
        assert_eq!(delivered, [1_000, 500], "{setup}");
    }
}

#[test]
fn several_traces_are_several_ports_and_the_last_ends_the_capture() {
    let directory = tempfile::tempdir().unwrap();
    let long = file(&directory, "long.pcap", &pcap(Order::Little, 5_000));
    let short = file(&directory, "short.pcap", &pcap(Order::Big, 30));
    for (setup, builder) in setups(64, 2) {
        let (got, report) = to_the_end(builder.port(port(&long)).port(port(&short)).open().unwrap());
        assert_same(&setup, &got[..5_000], &expected(5_000));
        let second: Vec<_> =
            expected(30).into_iter().map(|packet| DeliveredPacket { port: 1, ..packet }).collect();
        assert_same(&setup, &got[5_000..], &second);
        assert_eq!(report.ports.len(), 2);
    }
    let twice = Capture::builder().port(port(&long)).port(port(&long)).open();
    assert!(matches!(twice, Err(Error::PortTwice(_))));
}
