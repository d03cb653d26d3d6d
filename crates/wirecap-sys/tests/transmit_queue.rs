//! Transmit queues on a veth pair: frames that lie in cells, sent again and again.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::sys::{
    socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt},
    time::TimeVal,
};
use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::xsk::{BindChoice, BindMode, CellPart, MAX_PARTS, TransmitOptions, TransmitQueue, XskError};

const PATIENCE: Duration = Duration::from_secs(10);

/// Two ends: from one frames are sent, at the other they are heard.
struct Lab {
    left: Namespace,
    _right: Namespace,
    veth: VethPair,
    ear: OwnedFd,
}

impl Lab {
    fn new(label: &str, mtu: u32) -> Self {
        let left = Namespace::new(&format!("{label}_l")).unwrap();
        let right = Namespace::new(&format!("{label}_r")).unwrap();
        let options = VethOptions { mtu, ..VethOptions::default() };
        let veth = VethPair::new(&left, "l0", &right, "r0", options).unwrap();
        let ear = right.enter(|| {
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap()
        });
        setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        Self { left, _right: right, veth, ear }
    }

    fn open(&self, options: TransmitOptions) -> Result<TransmitQueue, XskError> {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.left.enter(|| TransmitQueue::open(ifindex, 0, options))
    }

    fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 70_000];
        let len = recv(self.ear.as_raw_fd(), &mut bytes, MsgFlags::empty()).expect("a frame");
        bytes.truncate(len);
        bytes
    }
}

/// A frame of a type that nobody speaks, with a number.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|index| (index as u32 * 7 + number) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn frames_lie_in_more_cells_than_the_ring_has_and_are_sent_again_and_again() {
    if !require_root("frames_lie_in_more_cells_than_the_ring_has_and_are_sent_again_and_again") {
        return;
    }
    const CELLS: u32 = 300;
    let lab = Lab::new("again", 1500);
    let options = TransmitOptions { cells: CELLS, ring_entries: 64, ..TransmitOptions::default() };
    let mut queue = lab.open(options).unwrap();
    assert_eq!((queue.mode(), queue.room(), queue.options()), (BindMode::Copy, 64, options));
    assert!(queue.fallback().expect("no veth has zero-copy").is_unsupported());
    let len = |cell: u32| 60 + cell as usize * 4;
    for cell in 0..CELLS {
        let bytes = queue.cell_mut(cell).expect("idle at the start");
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
                assert!(queue.cell_mut(cell).is_none() && !queue.stage(cell, 60), "it is the kernel's");
            }
            assert_eq!(queue.in_flight(), batch);
            assert!(queue.finish(PATIENCE, |cell| round_trip.push(cell)).unwrap());
            for cell in next..next + batch {
                assert!(queue.cell_mut(cell).is_some(), "it came back");
                assert_eq!(lab.hear(), frame(cell, len(cell)), "round {round}, cell {cell}");
            }
            next += batch;
        }
    }
    assert_eq!(round_trip, (0..3 * CELLS).map(|sent| sent % CELLS).collect::<Vec<_>>());
    assert_eq!((queue.foreign(), queue.statistics().unwrap().tx_invalid_descs), (0, 0));
}

#[test]
fn what_cannot_be_sent_changes_nothing() {
    if !require_root("what_cannot_be_sent_changes_nothing") {
        return;
    }
    let lab = Lab::new("cannot", 1500);
    let options = TransmitOptions { cells: 40, ring_entries: 32, ..TransmitOptions::default() };
    let mut queue = lab.open(options).unwrap();
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
        assert_eq!(lab.hear(), frame(cell, 60));
    }
}

#[test]
fn a_frame_of_several_cells_is_one_frame() {
    if !require_root("a_frame_of_several_cells_is_one_frame") {
        return;
    }
    let lab = Lab::new("parts", 9000);
    let options = TransmitOptions {
        cells: 64,
        ring_entries: 32,
        multi_buffer: true,
        bind: BindChoice::Only(BindMode::Copy),
        ..TransmitOptions::default()
    };
    let mut queue = lab.open(options).unwrap();
    assert!(queue.fallback().is_none(), "copy is what was asked for");
    for len in [2048, 2049, 4096, 9014] {
        let frame = frame(len as u32, len);
        // Not one behind the other.
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
        assert!(lab.hear() == frame, "{len} bytes");
    }
    let same = CellPart { cell: 7, len: 100 };
    assert!(!queue.stage_parts(&[same, same]), "a cell is there once");
    let many: Vec<CellPart> = (0..=MAX_PARTS as u32).map(|cell| CellPart { cell, len: 10 }).collect();
    assert!(!queue.stage_parts(&many));
    assert!(queue.stage_parts(&many[1..]), "as many as are possible");
    assert!(queue.finish(PATIENCE, |_| ()).unwrap());
    assert_eq!(lab.hear().len(), MAX_PARTS * 10);
}

#[test]
fn frames_wait_in_the_ring_while_the_interface_is_down() {
    if !require_root("frames_wait_in_the_ring_while_the_interface_is_down") {
        return;
    }
    let lab = Lab::new("down", 1500);
    let mut queue = lab.open(TransmitOptions { cells: 8, ring_entries: 8, ..Default::default() }).unwrap();
    lab.left.ip(&["link", "set", "dev", "l0", "down"]).unwrap();
    queue.cell_mut(3).unwrap()[..60].copy_from_slice(&frame(3, 60));
    assert!(queue.stage(3, 60));
    assert_eq!(queue.flush().unwrap_err().kind(), io::ErrorKind::NetworkDown);
    assert!(queue.cell_mut(3).is_none() && queue.in_flight() == 1, "it is the kernel's all the same");
    lab.left.ip(&["link", "set", "dev", "l0", "up"]).unwrap();
    assert!(queue.finish(PATIENCE, |cell| assert_eq!(cell, 3)).unwrap());
    assert_eq!(lab.hear(), frame(3, 60));
    lab.left.ip(&["link", "del", "dev", "l0"]).unwrap();
    assert!(queue.stage(3, 60));
    assert_eq!(queue.flush().unwrap_err().raw_os_error(), Some(nix::errno::Errno::ENXIO as i32));
}

#[test]
fn a_mode_that_is_insisted_on_and_a_queue_that_is_not_there_are_errors() {
    if !require_root("a_mode_that_is_insisted_on_and_a_queue_that_is_not_there_are_errors") {
        return;
    }
    let lab = Lab::new("modes", 1500);
    let only = TransmitOptions { bind: BindChoice::Only(BindMode::ZeroCopy), ..Default::default() };
    assert!(lab.open(only).unwrap_err().is_unsupported());
    let odd = TransmitOptions { ring_entries: 100, ..Default::default() };
    assert!(matches!(lab.open(odd), Err(XskError::RingSize(100))));
    let ifindex = lab.veth.a().ifindex().unwrap();
    let error = lab.left.enter(|| TransmitQueue::open(ifindex, 9, TransmitOptions::default())).unwrap_err();
    assert!(matches!(error, XskError::Bind { queue_id: 9, .. }), "{error}");
}
