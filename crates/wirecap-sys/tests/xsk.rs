//! AF_XDP sockets on a veth pair: captured packets are sent again from the same cells.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wirecap_core::{ChunkRange, Geometry, PoolId};
use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::{
    bpf::{
        Assembler, Helper, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg, Size,
        XDP_PASS, XdpMode,
    },
    memory::{CellReader, CellWriter, LivePool, PacketMemory},
    xsk::{BindMode, RingSizes, Sender, Socket, SocketConfig, Umem},
};
use wirecap_testing::{PacketSender, SendPath};

const PATIENCE: Duration = Duration::from_secs(10);

/// One end of a veth pair that captures and sends.
struct End {
    socket: Socket,
    sender: Sender,
    pool: LivePool,
    reader: CellReader,
    _link: Link,
}

/// Redirects all packets of queue 0 to the socket.
fn program(socket: &Socket) -> Program {
    let sockets = Map::create(&MapSpec {
        kind: MapKind::XskMap,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        name: "sockets",
    })
    .unwrap();
    socket.put_into(&sockets, 0).unwrap();
    let mut asm = Assembler::new();
    asm.load(Size::Word, Reg::R2, Reg::R1, 16);
    asm.load_map_fd(Reg::R1, &sockets).mov_imm(Reg::R3, XDP_PASS);
    asm.call(Helper::RedirectMap).exit();
    let insns = asm.finish().unwrap();
    Program::load(&ProgramSpec::new(ProgramKind::Xdp, "xsk_test", &insns)).unwrap()
}

impl End {
    fn open(ifindex: u32, memory: &Arc<PacketMemory>, id: PoolId, geometry: Geometry) -> Self {
        let mut pool = memory.carve(id, geometry).unwrap();
        let reader = pool.reader();
        let rings = RingSizes::both(geometry.ring_entries(), 64).unwrap();
        let config = SocketConfig { ifindex, queue_id: 0, headroom: 0, rings, multi_buffer: false };
        let mut socket = Socket::create(config, Umem::Register(memory)).unwrap();
        socket.attach(&mut pool);
        socket.bind(BindMode::Copy, PATIENCE, |_| true).unwrap();
        let sender = socket.take_sender().unwrap().expect("the socket has a transmit ring");
        assert!(socket.take_sender().unwrap().is_none(), "once");
        let link = Link::attach_xdp(&program(&socket), ifindex, XdpMode::Native).unwrap();
        Self { socket, sender, pool, reader, _link: link }
    }

    /// The cells that hold the next packet.
    fn receive(&mut self) -> ChunkRange {
        let begun = Instant::now();
        loop {
            if self.socket.filled() > 0 {
                let mut filler = self.pool.filler().expect("an attached chunk");
                filler.fill(self.socket.receive(1).unwrap().map(|cell| (cell, 1)));
                filler.finish();
                return self.pool.hand_over().expect("a packet").range;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_captured_cell_is_sent_in_place_and_comes_home() {
    if !require_root("a_captured_cell_is_sent_in_place_and_comes_home") {
        return;
    }
    const ROUNDS: u32 = 200;
    let [left, middle, right] = ["left", "middle", "right"].map(|name| Namespace::new(name).unwrap());
    let options = VethOptions::default;
    let first = VethPair::new(&left, "l0", &middle, "m0", options()).unwrap();
    let second = VethPair::new(&middle, "m1", &right, "r0", options()).unwrap();
    let geometry = Geometry::new(8, 4, 2048).unwrap();
    let memory = Arc::new(PacketMemory::allocate(3 * geometry.pool_bytes(), 2048).unwrap());
    let (m0, m1) = (first.b().ifindex().unwrap(), second.a().ifindex().unwrap());
    // The two ends in the middle have separate registrations of one memory.
    let id = |nic_id| PoolId { nic_id, ring_id: 0 };
    let (mut from, mut to) =
        middle.enter(|| (End::open(m0, &memory, id(0), geometry), End::open(m1, &memory, id(1), geometry)));
    let r0 = second.b().ifindex().unwrap();
    let mut far = right.enter(|| End::open(r0, &memory, id(2), geometry));
    let l0 = first.a().ifindex().unwrap();
    let mut talker = left.enter(|| PacketSender::open(l0, SendPath::Queueing)).unwrap();

    for round in 0..ROUNDS {
        let frame: Vec<u8> = (0..60 + round % 1_400).map(|index| (index * 3 + round) as u8).collect();
        talker.send(&frame).unwrap();
        let range = from.receive();
        let before = from.reader.cells(&range).next().expect("one part").0;
        to.sender.send(&from.reader, [Some(range), None]).expect("room");
        to.sender.flush().unwrap();
        let arrived = far.receive();
        assert_eq!(far.reader.cells(&arrived).next().expect("one part").1, frame);
        far.pool.recycle(arrived).unwrap();
        far.socket.attach(&mut far.pool);

        let begun = Instant::now();
        let mut home = Vec::new();
        while home.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "never completed");
            to.sender.complete(|cell| home.push(cell));
        }
        let cell = home.pop().expect("one");
        assert_eq!(
            from.reader.cells(&cell).next().expect("one part").0.address,
            before.address,
            "the same cell"
        );
        assert_eq!((home.len(), to.sender.in_flight(), to.sender.foreign()), (0, 0, 0));
        from.pool.recycle(cell).unwrap();
        from.socket.attach(&mut from.pool);
    }
    assert_eq!((from.pool.refused(), from.pool.foreign()), (0, 0));
}

#[test]
fn a_refused_packet_is_given_back() {
    if !require_root("a_refused_packet_is_given_back") {
        return;
    }
    let [left, right] = ["back_l", "back_r"].map(|name| Namespace::new(name).unwrap());
    let pair = VethPair::new(&left, "l0", &right, "r0", VethOptions::default()).unwrap();
    let geometry = Geometry::new(8, 4, 2048).unwrap();
    let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
    let other = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
    let id = PoolId { nic_id: 0, ring_id: 0 };
    let ifindex = pair.b().ifindex().unwrap();
    let mut end = right.enter(|| End::open(ifindex, &memory, id, geometry));
    let l0 = pair.a().ifindex().unwrap();
    let mut talker = left.enter(|| PacketSender::open(l0, SendPath::Queueing)).unwrap();
    talker.send(&[7; 60]).unwrap();
    let range = end.receive();
    // Cells of another memory, with a pool of the same name.
    let stranger = other.carve(id, geometry).unwrap().reader();
    let range = end.sender.send_cell(&stranger, range).expect_err("another memory");
    let refused = end.sender.send(&stranger, [Some(range), None]).expect_err("another memory");
    let refused = end.sender.send(&end.reader, [None, None]).expect_err("there is no packet to send")[0]
        .is_none()
        .then_some(refused)
        .expect("nothing back");
    let [Some(range), None] = refused else { panic!("the refusal returns the range") };
    end.sender.send(&end.reader, [Some(range), None]).expect("its own memory");
    assert_eq!((end.sender.in_flight(), end.sender.room()), (1, 63));
    end.sender.flush().unwrap();
    let begun = Instant::now();
    while end.sender.complete(|cell| end.pool.recycle(cell).unwrap()) == 0 {
        assert!(begun.elapsed() < PATIENCE, "never completed");
    }
}

#[test]
fn adjacent_cells_come_home_as_one_range() {
    if !require_root("adjacent_cells_come_home_as_one_range") {
        return;
    }
    const CELLS: u32 = 5;
    let [left, right] = ["row_l", "row_r"].map(|name| Namespace::new(name).unwrap());
    let pair = VethPair::new(&left, "l0", &right, "r0", VethOptions::default()).unwrap();
    let geometry = Geometry::new(8, 4, 2048).unwrap();
    let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
    let ifindex = pair.b().ifindex().unwrap();
    let id = PoolId { nic_id: 0, ring_id: 0 };
    let mut end = right.enter(|| End::open(ifindex, &memory, id, geometry));
    let l0 = pair.a().ifindex().unwrap();
    let mut talker = left.enter(|| PacketSender::open(l0, SendPath::Queueing)).unwrap();
    for _ in 0..CELLS {
        talker.send(&[7; 60]).unwrap();
    }
    let cells: Vec<_> = (0..CELLS).map(|_| end.receive()).collect();
    for cell in cells {
        end.sender.send_cell(&end.reader, cell).expect("a whole packet, and room");
    }
    end.sender.flush().unwrap();
    let (begun, mut sent) = (Instant::now(), 0);
    while sent < CELLS {
        assert!(begun.elapsed() < PATIENCE, "never completed");
        let mut home = Vec::new();
        let completed = end.sender.complete(|cells| home.push(cells));
        assert!(home.len() <= 1, "adjacent cells come home as one range: {home:?}");
        assert_eq!(home.iter().map(ChunkRange::count).sum::<u32>(), completed);
        home.into_iter().for_each(|cells| end.pool.recycle(cells).unwrap());
        sent += completed;
    }
    assert_eq!((end.sender.in_flight(), end.sender.foreign(), end.pool.refused()), (0, 0, 0));
    assert_eq!(end.pool.levels().outstanding_cells, 0);
}

/// The kernel fills cells until the last descriptor of a socket is closed, and a driver may continue until
/// its queue can be bound again.
#[test]
fn cells_of_a_socket_go_to_one_of_the_same_queue_once_it_is_closed() {
    if !require_root("cells_of_a_socket_go_to_one_of_the_same_queue_once_it_is_closed") {
        return;
    }
    let [left, right] = ["again_l", "again_r"].map(|name| Namespace::new(name).unwrap());
    let pair = VethPair::new(&left, "l0", &right, "r0", VethOptions::default()).unwrap();
    let geometry = Geometry::new(8, 4, 2048).unwrap();
    let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
    let mut pool = memory.carve(PoolId { nic_id: 0, ring_id: 0 }, geometry).unwrap();
    let ifindex = pair.b().ifindex().unwrap();
    let open = |ifindex, queue_id| {
        let rings = RingSizes::both(geometry.ring_entries(), 64).unwrap();
        let config = SocketConfig { ifindex, queue_id, headroom: 0, rings, multi_buffer: false };
        right.enter(|| Socket::create(config, Umem::Register(&memory)).unwrap())
    };
    let mut socket = open(ifindex, 0);
    assert_eq!(socket.attach(&mut pool), 32);
    socket.bind(BindMode::Copy, PATIENCE, |_| true).unwrap();
    assert!(!pool.renew(), "the socket is open");
    drop(socket);
    assert!(pool.renew(), "the socket is closed");
    assert!(CellWriter::new(&pool).is_none(), "the driver may still use the cells");
    let attach = |socket: &mut Socket, pool: &mut LivePool| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| socket.attach(pool)))
    };
    assert!(attach(&mut open(ifindex, 1), &mut pool).is_err(), "another queue");
    let mut same = open(ifindex, 0);
    assert_eq!(attach(&mut same, &mut pool).unwrap(), 32, "all its cells");
    same.bind(BindMode::Copy, PATIENCE, |_| true).unwrap();
    let sender = same.take_sender().unwrap();
    drop(same);
    assert!(!pool.renew(), "its sending half is open");
    drop(sender);
    assert!(!pool.renew(), "the sending half was open when its lease ended");
}
