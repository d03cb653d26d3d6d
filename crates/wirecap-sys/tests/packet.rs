//! AF_PACKET rings on real veth pairs: sent packets are in the blocks, and blocks come home in any order.
//!
//! Needs root. Without it the tests are skipped, loudly.

use std::time::{Duration, Instant};

use wirecap_core::{Direction, Geometry, Handover, PoolId};
use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::{
    memory::LivePool,
    packet::{BlockReader, Fanout, PacketConfig, PacketError, PacketSocket, PacketStatistics},
};
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, Marks, Template};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

/// Two hosts, a cable, and a socket that listens at the right end.
struct Bed {
    left: Namespace,
    right: Namespace,
    veth: VethPair,
}

impl Bed {
    fn new() -> Self {
        let (left, right) = (Namespace::new("packet_l").unwrap(), Namespace::new("packet_r").unwrap());
        let veth = VethPair::new(&left, "l0", &right, "r0", VethOptions::default()).unwrap();
        Self { left, right, veth }
    }

    fn open(&self, block_bytes: u32, blocks: u32) -> PacketSocket {
        let ifindex = self.veth.b().ifindex().unwrap();
        let geometry = Geometry::new(block_bytes / 2048, blocks, 2048).unwrap();
        self.right
            .enter(|| PacketSocket::open(&PacketConfig { ifindex, geometry, retire_ms: 5, outgoing: true }))
            .unwrap()
    }

    /// Sends frames with these numbers from the left.
    fn send(&self, numbers: std::ops::Range<u64>) {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.left.enter(|| {
            let mut sender = PacketSender::open(ifindex, SendPath::Direct).unwrap();
            let mut template = Template::new(FrameSpec::default()).unwrap();
            for number in numbers {
                sender.send(template.stamp(number as u32 % 16, number)).unwrap();
            }
            sender.finish().unwrap();
        });
    }
}

/// The engine's side of a socket.
struct Reader {
    socket: PacketSocket,
    pool: LivePool,
    blocks: BlockReader,
}

impl Reader {
    fn new(mut socket: PacketSocket) -> Self {
        let (mut pool, blocks) = socket.carve(ID).unwrap();
        assert!(socket.carve(ID).is_none(), "only once");
        assert_eq!(socket.attach(&mut pool), pool.geometry().chunks_per_pool());
        Self { socket, pool, blocks }
    }

    /// A block that is there.
    fn look(&mut self) -> Option<Handover> {
        let block = self.socket.receive(u64::MAX, |_| true)?;
        let mut filler = self.pool.filler().expect("an attached block");
        assert!(filler.fill_block(block));
        filler.finish();
        self.pool.hand_over()
    }

    fn wait(&mut self, limit: Duration) -> Option<Handover> {
        let end = Instant::now() + limit;
        loop {
            let handover = self.look();
            if handover.is_some() || Instant::now() >= end {
                return handover;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next block, which has to come, however busy the machine is.
    #[track_caller]
    fn next(&mut self) -> Handover {
        self.wait(Duration::from_secs(20)).expect("a block within 20 s")
    }

    /// Whether no block comes.
    fn is_silent(&mut self) -> bool {
        self.wait(Duration::from_millis(300)).is_none()
    }

    fn numbers(&self, handover: &Handover) -> Vec<u64> {
        let packets = self.blocks.packets(&handover.range);
        packets.filter_map(|packet| Marks::read(packet.data)).map(|marks| marks.sequence).collect()
    }

    fn recycle(&mut self, handover: Handover) {
        self.pool.recycle(handover.range).unwrap();
        self.socket.attach(&mut self.pool);
    }
}

#[test]
fn sent_packets_are_in_the_blocks_in_order() {
    if !require_root("sent_packets_are_in_the_blocks_in_order") {
        return;
    }
    let bed = Bed::new();
    let mut socket = bed.open(1 << 16, 64);
    bed.send(0..100);
    socket.listen(None).unwrap();
    bed.send(100..200);
    // Packets that came before the blocks were attached are kept.
    let mut reader = Reader::new(socket);
    bed.send(200..5_000);
    let (mut numbers, mut packets, mut bytes, mut last_ns) = (Vec::new(), 0, 0, 0);
    while numbers.len() < 4_900 {
        let handover = reader.next();
        let of_block: Vec<_> = reader.blocks.packets(&handover.range).collect();
        assert_eq!(of_block.len(), handover.packets as usize);
        assert_eq!(of_block.iter().map(|packet| packet.data.len()).sum::<usize>(), handover.bytes as usize);
        for packet in &of_block {
            assert_eq!((packet.direction, packet.original_len as usize), (Direction::In, packet.data.len()));
            assert!(packet.timestamp_ns > last_ns, "times increase");
            last_ns = packet.timestamp_ns;
        }
        numbers.extend(reader.numbers(&handover));
        packets += u64::from(handover.packets);
        bytes += u64::from(handover.bytes);
        reader.recycle(handover);
    }
    assert!(
        numbers.iter().copied().eq(100..5_000),
        "no packet from before the socket listened, and none lost"
    );
    assert!(bytes >= packets * 60);
    assert_eq!(reader.pool.captured_packets(), packets);
    assert_eq!(reader.socket.statistics().unwrap(), PacketStatistics { packets, dropped: 0 });
}

#[test]
fn blocks_come_home_in_any_order_and_packets_without_a_block_are_counted() {
    if !require_root("blocks_come_home_in_any_order_and_packets_without_a_block_are_counted") {
        return;
    }
    let bed = Bed::new();
    let mut socket = bed.open(1 << 12, 4);
    socket.listen(None).unwrap();
    let mut reader = Reader::new(socket);
    bed.send(0..1_000);
    let mut held: Vec<Handover> = (0..4).map(|_| reader.next()).collect();
    assert!(reader.is_silent(), "all blocks are held");
    let kept: u64 = held.iter().map(|handover| u64::from(handover.packets)).sum();
    let counted = reader.socket.statistics().unwrap();
    assert_eq!(counted.packets, kept + counted.dropped);
    assert!(counted.dropped > 800, "{counted:?}");
    // The second and the last block come home; the kernel waits for the first.
    reader.recycle(held.remove(3));
    reader.recycle(held.remove(1));
    bed.send(1_000..1_010);
    assert!(reader.is_silent());
    // The first and the third. The kernel may use more than one block for ten packets.
    for handover in held {
        reader.recycle(handover);
    }
    bed.send(2_000..2_010);
    let mut numbers = Vec::new();
    while numbers.len() < 10 {
        let handover = reader.next();
        numbers.extend(reader.numbers(&handover));
        reader.recycle(handover);
    }
    assert_eq!(numbers, (2_000..2_010).collect::<Vec<_>>());
    assert_eq!(reader.socket.statistics().unwrap().dropped, counted.dropped + 10);
}

#[test]
fn the_vlan_tag_is_put_back_and_both_directions_are_seen() {
    if !require_root("the_vlan_tag_is_put_back_and_both_directions_are_seen") {
        return;
    }
    let bed = Bed::new();
    let mut socket = bed.open(1 << 16, 4);
    socket.listen(None).unwrap();
    let mut reader = Reader::new(socket);
    // Two tags: the kernel removes the outer one from the frame.
    let mut frame = vec![0xff; 12];
    frame.extend([0x88, 0xa8, 0x60, 0x07, 0x81, 0x00, 0x00, 0x2a, 0x08, 0x06]);
    frame.extend([0x5a; 50]);
    let send = |from: &Namespace, ifindex: u32, frame: &[u8]| {
        from.enter(|| {
            let mut sender = PacketSender::open(ifindex, SendPath::Queueing).unwrap();
            sender.send(frame).unwrap();
            sender.finish().unwrap();
        });
    };
    send(&bed.left, bed.veth.a().ifindex().unwrap(), &frame);
    let mut back = frame.clone();
    back[20] = 0x99;
    send(&bed.right, bed.veth.b().ifindex().unwrap(), &back);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let handover = reader.next();
        let packets = reader.blocks.packets(&handover.range);
        seen.extend(packets.filter(|p| p.data[..6] == [0xff; 6]).map(|p| (p.direction, p.data.to_vec())));
        reader.recycle(handover);
    }
    assert_eq!(seen, [(Direction::In, frame), (Direction::Out, back)]);
}

#[test]
fn a_closed_socket_keeps_its_packets_and_receives_no_more() {
    if !require_root("a_closed_socket_keeps_its_packets_and_receives_no_more") {
        return;
    }
    let bed = Bed::new();
    let mut socket = bed.open(1 << 16, 4);
    socket.listen(None).unwrap();
    let closer = socket.closer().unwrap();
    let mut reader = Reader::new(socket);
    // Twice around the ring, so that blocks hold old contents.
    for round in 0..8 {
        bed.send(round * 100..round * 100 + 100);
        let mut packets = 0;
        while packets < 100 {
            let handover = reader.next();
            packets += handover.packets;
            reader.recycle(handover);
        }
    }
    bed.send(5_000..5_100);
    closer.close().unwrap();
    assert!(closer.wait_for_last_block(Duration::from_secs(5)));
    bed.send(6_000..6_100);
    let mut numbers = Vec::new();
    while reader.socket.backlog() > 0 {
        let handover = reader.next();
        numbers.extend(reader.numbers(&handover));
        reader.recycle(handover);
    }
    assert!(numbers.into_iter().eq(5_000..5_100));
}

#[test]
fn a_fanout_group_shares_the_packets() {
    if !require_root("a_fanout_group_shares_the_packets") {
        return;
    }
    let bed = Bed::new();
    let mut sockets = [bed.open(1 << 16, 8), bed.open(1 << 16, 8)];
    let group = sockets[0].found_group(Fanout::Hash).unwrap();
    sockets[1].join(group, Fanout::Hash).unwrap();
    let other = bed.open(1 << 16, 8);
    let error = other.join(group, Fanout::Cpu).unwrap_err();
    assert!(matches!(error, PacketError::Fanout { .. }), "{error}");
    assert_ne!(other.found_group(Fanout::Cpu).unwrap(), group);
    sockets.iter_mut().for_each(|socket| socket.listen(None).unwrap());
    let mut readers = sockets.map(Reader::new);
    bed.send(0..1_000);
    let mut numbers = [const { Vec::new() }; 2];
    let end = Instant::now() + Duration::from_secs(20);
    while numbers.iter().map(Vec::len).sum::<usize>() < 1_000 {
        assert!(Instant::now() < end, "within 20 s: {} and {}", numbers[0].len(), numbers[1].len());
        for (reader, numbers) in readers.iter_mut().zip(&mut numbers) {
            if let Some(handover) = reader.wait(Duration::from_millis(1)) {
                numbers.extend(reader.numbers(&handover));
                reader.recycle(handover);
            }
        }
    }
    let [mut first, second] = numbers;
    assert!(!first.is_empty() && !second.is_empty(), "{} and {}", first.len(), second.len());
    first.extend(second);
    first.sort_unstable();
    assert!(first.into_iter().eq(0..1_000), "each packet once");
}
