//! Packets larger than a cell.

use wirecap::{Capture, Dispatch, Mode, Modes};
use wirecap_lab::VethOptions;
use wirecap_traffic::Random;

use wirecap_testing::{
    check,
    crew::{Arrival, Crew, arrivals},
    need_root, wait_until,
    wire::Wire,
};

const FRAMES: usize = 3_000;
/// Bytes that the kernel leaves free in each cell.
const HEADROOM: usize = 256;

/// Random bytes, the same in each run.
fn frame(random: &mut Random, least: usize, most: usize) -> Vec<u8> {
    let len = least + random.below((most - least + 1) as u32) as usize;
    (0..len).map(|_| random.next() as u8).collect()
}

fn jumbo(label: &str, mtu: u32) -> Wire {
    Wire::new(label, VethOptions { mtu, ..VethOptions::default() })
}

/// Sends the frames one after the other, at most `under_way` ahead of the workers; returns the captured
/// frames.
fn send_all(wire: &Wire, mut capture: Capture, frames: &[Vec<u8>], under_way: u64) -> Vec<Arrival> {
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    for frame in frames {
        sender.send(frame).unwrap();
        wait_until("the workers keep up", || sender.frames() <= crew.arrived() + under_way);
    }
    crew.wait_for(frames.len() as u64);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.delivered, account.lost.total()), (frames.len() as u64, 0));
    assert!(report.ports[0].multi_buffer);
    check::pools_whole(&report);
    check::in_order(&arrivals);
    arrivals
}

/// Asserts that the frames came whole: in the cells that they take, or in a block.
fn assert_same(arrivals: &[Arrival], frames: &[Vec<u8>], cell_bytes: Option<usize>) {
    assert_eq!(arrivals.len(), frames.len());
    for (index, (arrival, frame)) in arrivals.iter().zip(frames).enumerate() {
        assert!(arrival.bytes == *frame, "frame {index} of {} bytes differs", frame.len());
        let parts = cell_bytes.map_or(1, |cell_bytes| frame.len().div_ceil(cell_bytes - HEADROOM));
        assert_eq!(arrival.parts, parts, "of {} bytes", frame.len());
    }
}

#[test]
fn jumbo_frames_come_in_parts_even_across_chunks() {
    need_root!("large_frames::jumbo_frames_come_in_parts_even_across_chunks");
    let mut random = Random::new(1);
    let frames: Vec<_> = (0..FRAMES).map(|_| frame(&mut random, 60, 9_014)).collect();
    for cell_bytes in [2048, 4096] {
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let wire = jumbo("jumbo", 9_000);
            // Some 13,000 cells in chunks of 64: about two chunks in three end within a packet.
            let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(32).cell_bytes(cell_bytes);
            let capture = wire.capture(builder.dispatch(dispatch).modes(Modes::Copy));
            let arrivals = send_all(&wire, capture, &frames, 100);
            assert_same(&arrivals, &frames, Some(cell_bytes as usize));
        }
    }
}

#[test]
fn the_largest_possible_frames_are_captured() {
    need_root!("large_frames::the_largest_possible_frames_are_captured");
    let mut random = Random::new(2);
    let frames: Vec<_> = (0..100).map(|_| frame(&mut random, 60_000, 65_549)).collect();
    let wire = jumbo("largest", 65_535);
    for (modes, cell_bytes) in [(Modes::Copy, Some(2048)), (Modes::Packed, None)] {
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(16).modes(modes);
        let arrivals = send_all(&wire, wire.capture(builder), &frames, 10);
        assert_same(&arrivals, &frames, cell_bytes);
    }
}

#[test]
fn large_frames_that_wait_at_the_stop_are_delivered() {
    need_root!("large_frames::large_frames_that_wait_at_the_stop_are_delivered");
    // Four packets of 15 cells leave the end of a chunk of 64 to the beginning of a fifth. They are handed
    // over first, so that the chunk contains no whole packet when the rest comes.
    let frame = frame(&mut Random::new(3), 1792 * 15, 1792 * 15);
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = jumbo("waiting", 65_535);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(64).modes(Modes::Copy);
        // In advanced mode a worker looks again at the end, as its own buddy.
        let mut capture = wire.capture(builder.mode(Mode::Basic).dispatch(dispatch));
        let mut worker = capture.take_workers().remove(0);
        let mut sender = wire.packet_sender();
        let mut came = Vec::new();
        for _ in 0..4 {
            sender.send(&frame).unwrap();
            came.extend(arrivals(0, &worker.next_batch().unwrap()));
        }
        (0..96).for_each(|_| sender.send(&frame).unwrap());
        wait_until("all frames are seen", || capture.report().total().seen == 100);
        capture.stopper().stop();
        came.extend(Crew::eager(vec![worker]).join());
        let account = check::account_closed(&capture.finish());
        assert_eq!((account.delivered, account.lost.total()), (100, 0), "{dispatch:?}");
        assert!(came.len() == 100 && came.iter().all(|arrival| arrival.bytes == frame));
        check::in_order(&came);
    }
}

#[test]
fn unread_large_frames_are_counted_as_packets() {
    need_root!("large_frames::unread_large_frames_are_counted_as_packets");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = jumbo("unread", 65_535);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(16).modes(Modes::Copy);
        let capture = wire.capture(builder.dispatch(dispatch));
        let mut sender = wire.packet_sender();
        // Each frame takes 37 cells, so 27 fit the pool of 1,024.
        (0..40).for_each(|_| sender.send(&[5; 65_549]).unwrap());
        wait_until("all frames are seen", || capture.report().total().seen == 40);
        let account = check::account_closed(&capture.finish());
        assert_eq!((account.lost.left_at_stop, account.lost.no_free_cell), (27, 13), "{dispatch:?}");
    }
}

#[test]
fn without_several_parts_frames_longer_than_a_cell_are_counted() {
    need_root!("large_frames::without_several_parts_frames_longer_than_a_cell_are_counted");
    let wire = jumbo("toolong", 3_000);
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        // With M = 8, packets are not split.
        let mut capture = wire.capture(Capture::builder().cells_per_chunk(8).dispatch(dispatch));
        let crew = Crew::eager(capture.take_workers());
        let mut sender = wire.packet_sender();
        for len in [60, 1_791, 1_792, 1_793, 3_014, 1_792] {
            sender.send(&vec![len as u8; len]).unwrap();
        }
        wait_until("all frames are seen", || capture.report().total().seen == 6);
        crew.wait_for(4);
        capture.stopper().stop();
        let lengths: Vec<usize> = crew.join().iter().map(|arrival| arrival.bytes.len()).collect();
        assert_eq!(lengths, [60, 1_791, 1_792, 1_792], "{dispatch:?}");
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.too_long, account.lost.total()), (4, 2, 2));
        assert!(!report.ports[0].multi_buffer);
    }
}

#[test]
fn large_cells_hold_longer_frames() {
    need_root!("large_frames::large_cells_hold_longer_frames");
    let wire = jumbo("cells", 3_000);
    let mut capture = wire.capture(Capture::builder().cells_per_chunk(8).cell_bytes(4096));
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    let frame = frame(&mut Random::new(4), 3_014, 3_014);
    sender.send(&frame).unwrap();
    crew.wait_for(1);
    capture.stopper().stop();
    let arrivals = crew.join();
    assert!(arrivals[0].bytes == frame && arrivals[0].parts == 1);
    assert!(!check_multi_buffer(capture));
}

fn check_multi_buffer(capture: Capture) -> bool {
    let report = capture.finish();
    check::account_closed(&report);
    report.ports[0].multi_buffer
}
