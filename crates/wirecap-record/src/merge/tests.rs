use proptest::{prelude::*, sample::Index};

use super::{super::order::Order, *};

/// A packet that carries its queue and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    time_ns: u64,
    queue: usize,
    number: u64,
}

/// The packets of a queue, with these times, cut into blocks whose lengths take turns.
fn blocks(queue: usize, times: &[u64], lengths: &[usize]) -> Vec<Block> {
    let (mut blocks, mut next) = (Vec::new(), 0);
    while next < times.len() {
        let len = lengths[blocks.len() % lengths.len()].min(times.len() - next);
        blocks.push(block(queue, next as u64, &times[next..next + len]));
        next += len;
    }
    blocks
}

fn block(queue: usize, first_number: u64, times: &[u64]) -> Block {
    let mut records = Records::new(Some(0));
    for (number, &time_ns) in (first_number..).zip(times) {
        records.push(time_ns, |bytes| {
            bytes.extend_from_slice(&(queue as u64).to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
        });
    }
    Block { queue, numbers: first_number..first_number + times.len() as u64, records }
}

/// Reads the packets back from the records.
fn read(out: &VecDeque<Records>) -> Vec<Packet> {
    let mut packets = Vec::new();
    for records in out {
        let mut bytes = records.bytes();
        for entry in &records.entries {
            let (record, rest) = bytes.split_at(entry.len as usize);
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            packets.push(Packet { time_ns: entry.time_ns, queue: word(0) as usize, number: word(8) });
            bytes = rest;
        }
        assert!(bytes.is_empty(), "an entry for each record");
        let times: Vec<_> = records.entries.iter().map(|entry| entry.time_ns).collect();
        assert_eq!(records.span, Records::of_times(&times).span);
    }
    packets
}

/// All packets in the expected order.
fn sorted(queues: &[Vec<u64>]) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (queue, times) in queues.iter().enumerate() {
        packets.extend((0..).zip(times).map(|(number, &time_ns)| Packet { time_ns, queue, number }));
    }
    packets.sort_unstable();
    packets
}

/// Times that increase within each queue and are close or equal across queues.
fn queues() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let times = prop::collection::vec((1..4_u64, 0..20_u64), 0..60).prop_map(|steps| {
        // A promise of time 0 promises nothing.
        let mut now = 1;
        // Mostly small steps, as in a batch, and sometimes a pause.
        steps
            .into_iter()
            .map(|(step, pause)| {
                now += if pause == 0 { 50 } else { step };
                now
            })
            .collect()
    });
    prop::collection::vec(times, 1..6)
}

/// All blocks, in an order of arrival that `order` picks.
fn arrivals(queues: &[Vec<u64>], lengths: &[usize], order: &[Index]) -> Vec<Block> {
    let mut left: Vec<_> =
        (0..).zip(queues).flat_map(|(queue, times)| blocks(queue, times, lengths)).collect();
    let mut order = order.iter().cycle();
    let mut arrivals = Vec::new();
    while !left.is_empty() {
        // Picks among the next four, so that a block overtakes only a few others.
        let at = order.next().unwrap().index(left.len().min(4));
        arrivals.push(left.remove(at));
    }
    arrivals
}

/// Lets queues take turns, each in its own order.
fn in_turn(mut blocks: Vec<Block>) -> Vec<Block> {
    blocks.sort_by_key(|block| (block.numbers.start, block.queue));
    blocks
}

struct Bed {
    merger: Merger,
    out: VecDeque<Records>,
    buffers: Buffers,
}

impl Bed {
    fn new(queues: usize) -> Self {
        let buffers = Buffers::new(vec![std::sync::mpsc::sync_channel(1).0]);
        Self { merger: Merger::new(queues), out: VecDeque::new(), buffers }
    }

    fn merge(&mut self) {
        self.merger.merge(&mut self.out, &mut self.buffers);
    }

    fn force(&mut self, most_bytes: usize) {
        self.merger.force(most_bytes, &mut self.out, &mut self.buffers);
        assert!(self.merger.held_bytes() <= most_bytes);
    }

    fn late(&self) -> u64 {
        let mut order = Order::default();
        self.out.iter().for_each(|records| order.written(&records.entries, records.span));
        order.late
    }
}

proptest! {
    #[test]
    fn output_is_sorted_and_complete_for_any_arrivals_and_promises(
        queues in queues(), lengths in prop::collection::vec(1..12_usize, 1..5),
        order in prop::collection::vec(any::<Index>(), 1..50), shuffle in any::<bool>(),
    ) {
        let expected = sorted(&queues);
        let mut bed = Bed::new(queues.len());
        let mut blocks = arrivals(&queues, &lengths, &order);
        if !shuffle {
            blocks = in_turn(blocks);
        }
        for (block, index) in blocks.into_iter().zip(order.iter().cycle()) {
            bed.merger.accept(block);
            // Any true promise: before, at or after the packets so far.
            bed.merger.ask(|queue| {
                let times = &queues[queue];
                let number = index.index(times.len() + 1);
                let time_ns = times.get(number).map_or(u64::MAX, |&time_ns| time_ns - 1);
                (index.index(3) > 0).then_some(Horizon { number: number as u64, time_ns })
            });
            if index.index(2) > 0 {
                bed.merge();
            }
            let so_far = read(&bed.out);
            prop_assert_eq!(&so_far[..], &expected[..so_far.len()]);
        }
        bed.force(0);
        prop_assert_eq!(read(&bed.out), &expected[..]);
        prop_assert_eq!(bed.late(), 0);
    }

    #[test]
    fn nothing_is_held_when_all_silent_queues_have_promised(
        queues in queues(), lengths in prop::collection::vec(1..12_usize, 1..5),
    ) {
        let mut bed = Bed::new(queues.len());
        let all = (0..).zip(&queues).flat_map(|(queue, times)| blocks(queue, times, &lengths));
        in_turn(all.collect()).into_iter().for_each(|block| bed.merger.accept(block));
        let newest_ns = queues.iter().flatten().copied().max().unwrap_or(0);
        // A queue that holds the others up is asked, perhaps more than once.
        for _ in 0..=queues.len() {
            bed.merge();
            bed.merger.ask(|queue| {
                Some(Horizon { number: queues[queue].len() as u64, time_ns: newest_ns })
            });
        }
        prop_assert_eq!(bed.merger.held_bytes(), 0);
        prop_assert_eq!(read(&bed.out), sorted(&queues));
    }

    #[test]
    fn beyond_the_bound_nothing_is_lost_and_late_packets_are_counted(
        queues in queues(), lengths in prop::collection::vec(1..12_usize, 1..5),
        order in prop::collection::vec(any::<Index>(), 1..50), most_bytes in 0..2_000_usize,
    ) {
        let mut bed = Bed::new(queues.len());
        for block in arrivals(&queues, &lengths, &order) {
            bed.merger.accept(block);
            bed.merge();
            bed.force(most_bytes);
        }
        bed.force(0);
        let mut packets = read(&bed.out);
        let late = (0..packets.len())
            .filter(|&at| packets[..at].iter().any(|before| before.time_ns > packets[at].time_ns));
        prop_assert_eq!(bed.late(), late.count() as u64);
        packets.sort_unstable();
        prop_assert_eq!(packets, sorted(&queues));
    }

    #[test]
    fn a_queue_keeps_its_order_whatever_its_times(
        queues in prop::collection::vec(prop::collection::vec(0..50_u64, 0..40), 1..5),
        lengths in prop::collection::vec(1..12_usize, 1..5), most_bytes in 0..2_000_usize,
    ) {
        let mut bed = Bed::new(queues.len());
        let all = (0..).zip(&queues).flat_map(|(queue, times)| blocks(queue, times, &lengths));
        for block in in_turn(all.collect()) {
            bed.merger.accept(block);
            bed.merge();
            bed.force(most_bytes);
        }
        bed.force(0);
        let packets = read(&bed.out);
        for (queue, times) in queues.iter().enumerate() {
            let of_queue = packets.iter().filter(|packet| packet.queue == queue);
            let of_queue: Vec<_> = of_queue.map(|packet| (packet.number as usize, packet.time_ns)).collect();
            prop_assert_eq!(of_queue, times.iter().copied().enumerate().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_silent_queue_holds_the_others_up_until_it_promises() {
    let mut bed = Bed::new(2);
    bed.merger.accept(block(0, 0, &[10, 11, 12]));
    bed.merge();
    assert_eq!(read(&bed.out), []);
    let mut asked = Vec::new();
    // A worker still holds packets 0 to 2 of queue 1: the promise is about the packets after them.
    let mut ask = |bed: &mut Bed, promise| {
        bed.merger.ask(|queue| {
            asked.push(queue);
            promise
        })
    };
    ask(&mut bed, Some(Horizon { number: 3, time_ns: 11 }));
    bed.merge();
    assert_eq!(read(&bed.out), []);
    ask(&mut bed, None);
    bed.merger.accept(block(1, 0, &[7, 8, 9]));
    bed.merge();
    let times: Vec<_> = read(&bed.out).iter().map(|packet| packet.time_ns).collect();
    assert_eq!(times, [7, 8, 9, 10, 11], "12 has to wait for queue 1");
    ask(&mut bed, Some(Horizon { number: 3, time_ns: 12 }));
    assert_eq!(asked, [1, 1], "not asked while its promise is pending");
    bed.merge();
    assert_eq!((read(&bed.out).len(), bed.merger.held_bytes()), (6, 0));
}

#[test]
fn after_the_clock_was_set_back_no_queue_waits_until_it_has_caught_up() {
    const HOUR: u64 = 3_600 * SET_BACK_NS;
    let mut bed = Bed::new(3);
    let at = |bed: &mut Bed, now_ns: u64| {
        bed.merger.follow_clock(now_ns, &mut bed.out, &mut bed.buffers);
        bed.merge();
    };
    // Queue 2 is silent, and has promised for the time before.
    bed.merger.accept(block(0, 0, &[HOUR + 100, HOUR + 101]));
    bed.merger.accept(block(1, 0, &[HOUR + 99]));
    bed.merger.ask(|_| Some(Horizon { number: 0, time_ns: HOUR + 98 }));
    at(&mut bed, HOUR + 102);
    assert_eq!(read(&bed.out), [], "queue 2 may have one of 99");
    // A block with packets from before and after.
    bed.merger.accept(block(0, 2, &[HOUR + 103, 10, 12]));
    bed.merger.accept(block(1, 1, &[9, 11]));
    at(&mut bed, 20);
    let numbers = |bed: &Bed| -> Vec<_> {
        read(&bed.out).into_iter().map(|packet| (packet.queue, packet.time_ns % HOUR)).collect()
    };
    let before = [(0, 100), (0, 101), (0, 103), (1, 99)];
    assert_eq!(numbers(&bed), before, "those from before at once, the others wait for queue 2");
    bed.merger.ask(|_| Some(Horizon { number: 0, time_ns: 15 }));
    at(&mut bed, 21);
    let after = [(1, 9), (0, 10), (1, 11)];
    assert_eq!(numbers(&bed), [&before[..], &after].concat(), "queue 1 may have one of 12");
    bed.merger.accept(block(1, 3, &[13]));
    at(&mut bed, 22);
    assert_eq!(numbers(&bed)[7..], [(0, 12)]);
    // A queue that has ended is not waited for, whatever the clock shows.
    bed.merger.accept(block(0, 5, &[30]));
    bed.merger.accept(block(1, 4, &[31]));
    at(&mut bed, 32);
    bed.merger.ask(|queue| (queue == 2).then_some(Horizon { number: 0, time_ns: u64::MAX }));
    at(&mut bed, 33);
    assert_eq!((numbers(&bed)[8..].to_vec(), bed.merger.held_bytes() > 0), (vec![(1, 13), (0, 30)], true));
}

#[test]
fn a_paused_queue_is_not_waited_for_until_it_resumes() {
    let mut bed = Bed::new(2);
    let pause = |number| Some(Horizon { number, time_ns: 0 });
    let times = |bed: &Bed| read(&bed.out).iter().map(|packet| packet.time_ns).collect::<Vec<_>>();
    bed.merger.accept(block(0, 0, &[10, 11]));
    bed.merger.ask(|_| pause(0));
    bed.merge();
    assert_eq!((times(&bed), bed.merger.held_bytes()), (vec![10, 11], 0));

    // The queue may have resumed before the next round.
    bed.merger.accept(block(0, 2, &[20, 21]));
    bed.merge();
    bed.merger.ask(|_| None);
    bed.merge();
    assert_eq!(times(&bed), [10, 11]);
    bed.merger.accept(block(1, 0, &[15, 16]));
    bed.merge();
    assert_eq!(times(&bed), [10, 11, 15, 16]);

    // A worker still holds packet 2: the pause comes after packet 2, and packet 3 after the pause.
    bed.merger.ask(|_| pause(3));
    bed.merge();
    assert_eq!(times(&bed).len(), 4);
    bed.merger.accept(block(1, 2, &[17, 19]));
    bed.merge();
    assert_eq!(times(&bed), [10, 11, 15, 16, 17, 19]);
    bed.merger.ask(|_| pause(4));
    bed.merge();
    assert_eq!(times(&bed), [10, 11, 15, 16, 17, 19, 20, 21]);
    assert_eq!(bed.late(), 0);
}

#[test]
fn blocks_that_do_not_overlap_are_not_copied() {
    let mut bed = Bed::new(2);
    let mut places = Vec::new();
    for number in 0..10 {
        let times: Vec<_> = (0..200).map(|packet| 1_000 * number + packet).collect();
        let block = block(number as usize % 2, number / 2 * 200, &times);
        places.push(block.records.bytes().as_ptr());
        bed.merger.accept(block);
    }
    bed.force(0);
    assert_eq!(bed.out.iter().map(|records| records.bytes().as_ptr()).collect::<Vec<_>>(), places);
}

#[test]
fn held_bytes_count_capacity_and_not_contents() {
    let mut bed = Bed::new(2);
    let mut capacity = 0;
    for number in 0..10 {
        let mut block = block(0, number, &[1 + number]);
        block.records.reserve(1, 10_000);
        capacity += block.records.memory_bytes();
        bed.merger.accept(block);
    }
    bed.merge();
    assert_eq!(bed.merger.held_bytes(), capacity);
    bed.force(capacity);
    assert_eq!(read(&bed.out), []);
    bed.force(capacity - 1);
    assert_eq!((read(&bed.out).len(), bed.merger.held_bytes()), (10, 0));
}

#[test]
fn runs_are_copied_together_up_to_a_size() {
    let mut bed = Bed::new(2);
    for queue in 0..2 {
        let times: Vec<_> = (0..20_000).map(|packet| 2 * packet + queue).collect();
        bed.merger.accept(block(queue as usize, 0, &times));
    }
    bed.force(0);
    let bytes: Vec<_> = bed.out.iter().map(Records::len).collect();
    assert_eq!(bytes.len(), 2 * 20_000 * 16 / MERGED_BYTES + 1, "{bytes:?}");
    assert!(bytes.iter().all(|&bytes| bytes <= MERGED_BYTES), "{bytes:?}");
}

#[test]
fn a_packet_promises_that_its_queue_continues_later() {
    let mut bed = Bed::new(2);
    for queue in [1, 0] {
        bed.merger.accept(block(queue, 0, &[5]));
    }
    bed.merge();
    // Times of a queue increase, so queue 0 has no second packet at time 5.
    let queues: Vec<_> = read(&bed.out).iter().map(|packet| packet.queue).collect();
    assert_eq!(queues, [0, 1]);
}

#[test]
fn skipped_numbers_are_not_waited_for() {
    let mut bed = Bed::new(2);
    let numbers = |bed: &Bed| read(&bed.out).iter().map(|packet| packet.number).collect::<Vec<_>>();
    bed.merger.accept(block(1, 0, &[100]));
    bed.merger.accept(block(0, 0, &[10, 11]));
    // After a gap: packets 2 to 6 of queue 0 never come, and the message about the gap is late.
    bed.merger.accept(block(0, 7, &[20, 21]));
    bed.merge();
    assert_eq!(numbers(&bed), [0, 1]);
    bed.merger.accept(Block::gap(0, 2..7));
    bed.merge();
    assert_eq!(numbers(&bed), [0, 1, 7, 8]);
    // A gap after the last packet fulfils a promise.
    bed.merger.accept(Block::gap(0, 9..12));
    bed.merger.ask(|queue| (queue == 0).then_some(Horizon { number: 12, time_ns: 200 }));
    bed.merge();
    assert_eq!((numbers(&bed), bed.merger.held_bytes()), (vec![0, 1, 7, 8, 0], 0));
}

#[test]
fn nothing_earlier_can_come_once_each_queue_has_passed_on_or_promised_a_later_packet() {
    let mut bed = Bed::new(2);
    bed.merger.accept(block(0, 0, &[10, 60]));
    let promise = |time_ns| move |_| Some(Horizon { number: 0, time_ns });
    assert!(!bed.merger.is_certain(50, promise(40)), "queue 1 may have a packet of 45");
    bed.merge();
    assert!(!bed.merger.is_certain(50, promise(70)), "the packet of 60 is still held");
    bed.merge();
    assert!(bed.merger.is_certain(50, |_| unreachable!("both have passed 50")));
    assert_eq!(read(&bed.out).len(), 2);
}
