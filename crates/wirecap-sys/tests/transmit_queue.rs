//! Transmit queues on a veth pair: frames in cells, sent again and again.

use std::{io, time::Duration};

use wirecap_lab::{Earshot, VethOptions, require_root};
use wirecap_sys::xsk::{
    BindChoice, BindMode, CellPart, MAX_PARTS, TransmitOptions, TransmitQueue, TransmitRings, XskError,
};

const PATIENCE: Duration = Duration::from_secs(10);

fn wire(label: &str, mtu: u32) -> Earshot {
    Earshot::new(label, VethOptions { mtu, ..VethOptions::default() }).unwrap()
}

fn open(wire: &Earshot, options: TransmitOptions) -> Result<TransmitQueue, XskError> {
    let ifindex = wire.end().ifindex().unwrap();
    wire.enter(|| TransmitQueue::open(ifindex, 0, options))
}

/// A numbered frame of an unused type.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|index| (index as u32 * 7 + number) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn more_cells_than_the_ring_has_entries_are_sent_again_and_again() {
    if !require_root("more_cells_than_the_ring_has_entries_are_sent_again_and_again") {
        return;
    }
    const CELLS: u32 = 300;
    let wire = wire("again", 1500);
    let options = TransmitOptions { cells: CELLS, ring_entries: 64, ..TransmitOptions::default() };
    let mut queue = open(&wire, options).unwrap();
    assert_eq!((queue.mode(), queue.room(), queue.options()), (BindMode::Copy, 64, options));
    assert!(queue.fallback().expect("no veth has zero-copy").is_unsupported());
    let len = |cell: u32| 60 + cell as usize * 4;
    for cell in 0..CELLS {
        let bytes = queue.cell_mut(cell).expect("cells are idle at the start");
        assert!(bytes.len() == 2048 && bytes.iter().all(|&byte| byte == 0), "cell {cell}");
        bytes[..len(cell)].copy_from_slice(&frame(cell, len(cell)));
    }
    let mut round_trip = Vec::new();
    for round in 0..3 {
        let mut next = 0;
        while next < CELLS {
            let batch = (CELLS - next).min(64);
            for cell in next..next + batch {
                assert!(queue.stage(cell, len(cell) as u32), "round {round}, cell {cell}");
                assert!(queue.cell_mut(cell).is_none() && !queue.stage(cell, 60), "the cell is the kernel's");
            }
            assert_eq!(queue.in_flight(), batch);
            assert!(queue.finish(PATIENCE, |cell| round_trip.push(cell)).unwrap());
            for cell in next..next + batch {
                assert!(queue.cell_mut(cell).is_some(), "the cell came back");
                assert_eq!(wire.hear(), frame(cell, len(cell)), "round {round}, cell {cell}");
            }
            next += batch;
        }
    }
    assert_eq!(round_trip, (0..3 * CELLS).map(|sent| sent % CELLS).collect::<Vec<_>>());
    assert_eq!((queue.foreign(), queue.statistics().unwrap().tx_invalid_descs), (0, 0));
}

#[test]
fn a_refused_frame_changes_nothing() {
    if !require_root("a_refused_frame_changes_nothing") {
        return;
    }
    let wire = wire("cannot", 1500);
    let options = TransmitOptions { cells: 40, ring_entries: 32, ..TransmitOptions::default() };
    let mut queue = open(&wire, options).unwrap();
    let part = |cell, len| CellPart { cell, len };
    for refused in [
        &[part(0, 0)][..],
        &[part(0, 2049)],
        &[part(40, 60)],
        &[part(u32::MAX, 60)],
        &[part(0, 60), part(1, 60)],
        &[],
    ] {
        assert!(!queue.stage_parts(refused), "{refused:?}");
    }
    assert!(queue.cell_mut(40).is_none() && queue.cell_mut(u32::MAX).is_none(), "no such cells");
    assert_eq!((queue.in_flight(), queue.room()), (0, 32));
    for cell in 0..32 {
        queue.cell_mut(cell).unwrap()[..60].copy_from_slice(&frame(cell, 60));
        assert!(queue.stage(cell, 60));
    }
    assert!(!queue.stage(32, 60), "the ring is full");
    assert!(queue.cell_mut(32).is_some());
    assert!(queue.finish(PATIENCE, |_| ()).unwrap());
    for cell in 0..32 {
        assert_eq!(wire.hear(), frame(cell, 60));
    }
}

#[test]
fn a_frame_of_several_cells_is_one_frame() {
    if !require_root("a_frame_of_several_cells_is_one_frame") {
        return;
    }
    let wire = wire("parts", 9000);
    let options = TransmitOptions {
        cells: 64,
        ring_entries: 32,
        multi_buffer: true,
        bind: BindChoice::Only(BindMode::Copy),
        ..TransmitOptions::default()
    };
    let mut queue = open(&wire, options).unwrap();
    assert!(queue.fallback().is_none(), "copy mode was requested");
    for len in [2048, 2049, 4096, 9014] {
        let frame = frame(len as u32, len);
        // The cells of a frame are not adjacent.
        let parts: Vec<CellPart> = (0..)
            .zip(frame.chunks(2048))
            .map(|(index, bytes)| {
                let cell = 63 - index * 5;
                queue.cell_mut(cell).unwrap()[..bytes.len()].copy_from_slice(bytes);
                CellPart { cell, len: bytes.len() as u32 }
            })
            .collect();
        assert!(queue.stage_parts(&parts));
        let mut back = Vec::new();
        assert!(queue.finish(PATIENCE, |cell| back.push(cell)).unwrap());
        assert_eq!(back.len(), parts.len(), "{len}");
        assert!(wire.hear() == frame, "{len} bytes");
    }
    let same = CellPart { cell: 7, len: 100 };
    assert!(!queue.stage_parts(&[same, same]), "a frame cannot contain a cell twice");
    let many: Vec<CellPart> = (0..=MAX_PARTS as u32).map(|cell| CellPart { cell, len: 10 }).collect();
    assert!(!queue.stage_parts(&many));
    assert!(queue.stage_parts(&many[1..]), "the largest number of parts");
    assert!(queue.finish(PATIENCE, |_| ()).unwrap());
    assert_eq!(wire.hear().len(), MAX_PARTS * 10);
}

#[test]
fn frames_wait_in_the_ring_while_the_interface_is_down() {
    if !require_root("frames_wait_in_the_ring_while_the_interface_is_down") {
        return;
    }
    let wire = wire("down", 1500);
    let mut queue = open(&wire, TransmitOptions { cells: 8, ring_entries: 8, ..Default::default() }).unwrap();
    wire.end().set_down().unwrap();
    queue.cell_mut(3).unwrap()[..60].copy_from_slice(&frame(3, 60));
    assert!(queue.stage(3, 60));
    assert_eq!(queue.flush().unwrap_err().kind(), io::ErrorKind::NetworkDown);
    assert!(queue.cell_mut(3).is_none() && queue.in_flight() == 1, "the cell is still the kernel's");
    wire.end().set_up().unwrap();
    assert!(queue.finish(PATIENCE, |cell| assert_eq!(cell, 3)).unwrap());
    assert_eq!(wire.hear(), frame(3, 60));
    wire.end().namespace().ip(&["link", "del", "dev", "l0"]).unwrap();
    assert!(queue.stage(3, 60));
    assert_eq!(queue.flush().unwrap_err().raw_os_error(), Some(nix::errno::Errno::ENXIO as i32));
}

#[test]
fn an_unavailable_mode_and_a_missing_queue_are_errors() {
    if !require_root("an_unavailable_mode_and_a_missing_queue_are_errors") {
        return;
    }
    let wire = wire("modes", 1500);
    let only = TransmitOptions { bind: BindChoice::Only(BindMode::ZeroCopy), ..Default::default() };
    assert!(open(&wire, only).unwrap_err().is_unsupported());
    let odd = TransmitOptions { ring_entries: 100, ..Default::default() };
    assert!(matches!(open(&wire, odd), Err(XskError::RingSize(100))));
    let ifindex = wire.end().ifindex().unwrap();
    let error = wire.enter(|| TransmitQueue::open(ifindex, 9, TransmitOptions::default())).unwrap_err();
    assert!(matches!(error, XskError::Bind { queue_id: 9, .. }), "{error}");
}

#[test]
fn entries_in_the_ring_of_a_socket_are_seen_from_outside() {
    if !require_root("entries_in_the_ring_of_a_socket_are_seen_from_outside") {
        return;
    }
    /// No other test here has a ring of this size.
    const ENTRIES: u32 = 512;
    for refused in [500, 2, 0] {
        assert_eq!(TransmitRings::of_process(refused).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let wire = wire("outside", 1500);
    let options = TransmitOptions { cells: 2 * ENTRIES, ring_entries: ENTRIES, ..TransmitOptions::default() };
    let mut queue = open(&wire, options).unwrap();
    let send = |queue: &mut TransmitQueue, cells: std::ops::Range<u32>| {
        for cell in cells {
            queue.cell_mut(cell).unwrap()[..60].copy_from_slice(&frame(cell, 60));
            assert!(queue.stage(cell, 60 + cell % 7));
        }
        assert!(queue.finish(PATIENCE, |_| ()).unwrap());
    };
    send(&mut queue, 0..5);
    let mut rings = TransmitRings::of_process(ENTRIES).unwrap();
    let mut seen = || {
        let mut rings = rings.take()?;
        assert_eq!(rings.len(), 1, "one socket has such a ring");
        let lists = rings.remove(0).into_iter().map(|entry| (entry.address, entry.len, entry.options));
        Ok::<_, io::Error>(lists.collect::<Vec<_>>())
    };
    assert_eq!(seen().unwrap(), [], "earlier frames are not reported");
    assert!(queue.stage(7, 60));
    assert_eq!(seen().unwrap(), [], "the kernel does not see the frame yet");
    assert!(queue.finish(PATIENCE, |_| ()).unwrap());
    assert_eq!(seen().unwrap(), [(7 * 2048, 60, 0)]);
    for round in 0..3 {
        let cells = round * 300..round * 300 + 300;
        send(&mut queue, cells.clone());
        let expected: Vec<_> = cells.map(|cell| (u64::from(cell) * 2048, 60 + cell % 7, 0)).collect();
        assert_eq!(seen().unwrap(), expected, "even across the end of the ring");
    }
    send(&mut queue, 0..ENTRIES);
    assert_eq!(seen().unwrap().len(), ENTRIES as usize);
    send(&mut queue, 0..ENTRIES);
    send(&mut queue, 0..1);
    assert_eq!(seen().unwrap_err().kind(), io::ErrorKind::InvalidData, "one entry is lost");
    drop(queue);
    assert_eq!(seen().unwrap_err().kind(), io::ErrorKind::NotFound);
}
