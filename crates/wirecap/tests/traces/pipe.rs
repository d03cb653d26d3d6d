//! Pipes: packets are captured while the writer still writes.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use wirecap::{Capture, Wait};

use wirecap_lab::trace_bytes::Order;
use wirecap_testing::{check, crew::Crew};

use crate::run::port;

fn fifo(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    path
}

/// A capture that is being opened, and the writing end of the pipe that it waits for.
fn begin(path: &Path, wait: Wait) -> (thread::JoinHandle<Capture>, File) {
    let read = path.to_owned();
    let open = move || Capture::builder().chunks_per_pool(4).wait(wait).port(port(&read)).open().unwrap();
    (thread::spawn(open), OpenOptions::new().write(true).open(path).unwrap())
}

#[test]
fn packets_come_as_they_are_written_and_the_last_writer_ends_the_trace() {
    for wait in [Wait::Sleep, Wait::Block, Wait::Busy] {
        let directory = tempfile::tempdir().unwrap();
        let path = fifo(&directory);
        let order = Order::Little;
        let (open, mut writer) = begin(&path, wait);
        let header = order.pcap_header(0xa1b2_c3d4, (2, 4), 0, 113);
        // Bit by bit, so that the reader has to wait within the header.
        writer.write_all(&header[..3]).unwrap();
        writer.write_all(&header[3..20]).unwrap();
        writer.write_all(&header[20..]).unwrap();
        let mut capture = open.join().unwrap();
        let crew = Crew::eager(capture.take_workers());
        for number in 0..50_u32 {
            let record = order.pcap_record(number, 0, (5_000, 5_000), &[number as u8; 5_000]);
            writer.write_all(&record[..700]).unwrap();
            // A report can be made although the pipe is empty.
            assert!(!capture.is_at_end() && capture.report().ports[0].error.is_none());
            writer.write_all(&record[700..]).unwrap();
            crew.wait_for(u64::from(number) + 1);
        }
        drop(writer);
        let arrivals = crew.join();
        let report = capture.finish();
        check::account_closed(&report);
        assert_eq!((report.total().delivered, report.ports[0].link_type), (50, 113), "{wait:?}");
        assert_eq!(report.ports[0].read_percent, None, "the length of a pipe is unknown");
        for (number, arrival) in arrivals.iter().enumerate() {
            assert_eq!(arrival.bytes, [number as u8; 5_000]);
        }
    }
}

#[test]
fn a_paused_pipe_is_reported_as_such_until_it_continues() {
    for wait in [Wait::Sleep, Wait::Block] {
        let directory = tempfile::tempdir().unwrap();
        let path = fifo(&directory);
        let order = Order::Little;
        let (open, mut writer) = begin(&path, wait);
        writer.write_all(&order.pcap_header(0xa1b2_c3d4, (2, 4), 0, 1)).unwrap();
        let mut capture = open.join().unwrap();
        let horizons = capture.horizons();
        assert_eq!(horizons.of(0, 0), None, "no thread has checked yet whether a packet waits");
        let crew = Crew::eager(capture.take_workers());
        for number in 1..4 {
            writer.write_all(&order.pcap_record(number, 0, (4, 4), b"abcd")).unwrap();
            crew.wait_for(number.into());
            let taken = Instant::now();
            let horizon = loop {
                let horizon = horizons.of(0, 0);
                let asked = taken.elapsed();
                match horizon {
                    Some(horizon) => break horizon,
                    None => assert!(asked < Duration::from_secs(30), "{wait:?}: the pipe never pauses"),
                }
                thread::sleep(Duration::from_millis(1));
            };
            assert!(horizon.is_pause() && horizon.number == u64::from(number), "{wait:?}: {horizon:?}");
        }
        drop(writer);
        crew.join();
        let horizon = horizons.of(0, 0).unwrap();
        assert_eq!((horizon.number, horizon.time_ns), (3, u64::MAX), "{wait:?}");
        check::account_closed(&capture.finish());
    }
}

#[test]
fn a_capture_of_a_silent_pipe_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo(&directory);
    let order = Order::Big;
    let writer = thread::spawn({
        let path = path.clone();
        move || {
            let mut writer = OpenOptions::new().write(true).open(path).unwrap();
            let begun = &order.pcap_record(0, 0, (100, 100), &[1; 100])[..60];
            let header = order.pcap_header(0xa1b2_c3d4, (2, 4), 0, 1);
            writer
                .write_all(&[header, order.pcap_record(0, 0, (4, 4), b"abcd"), begun.into()].concat())
                .unwrap();
            writer
        }
    });
    let mut capture = Capture::builder().chunks_per_pool(4).port(port(&path)).open().unwrap();
    let silent = writer.join().unwrap();
    let crew = Crew::eager(capture.take_workers());
    crew.wait_for(1);
    capture.stopper().stop();
    assert_eq!(crew.join().len(), 1);
    let report = capture.finish();
    check::account_closed(&report);
    assert!(report.ports[0].error.is_none(), "the trace was stopped, not damaged");
    drop(silent);
}
