//! Tests of the packet memory: who gets which part of it, and what is told.

use wirecap_core::Descriptor;

use super::{mapping::too_few_reserved, *};

#[test]
fn pools_do_not_overlap_and_what_is_captured_can_be_read() {
    let geometry = Geometry::new(4, 2, 2048).unwrap();
    let memory = Arc::new(PacketMemory::allocate(2 * geometry.pool_bytes()).unwrap());
    memory.populate(0..u64::MAX, &|| true).unwrap();
    let ids = [PoolId { nic_id: 0, ring_id: 0 }, PoolId { nic_id: 0, ring_id: 1 }];
    let (mut pool, reader) = memory.carve(ids[0], geometry).unwrap();
    let (mut other, other_reader) = memory.carve(ids[1], geometry).unwrap();
    let mut cells = Vec::new();
    pool.attach(8, |address| cells.push(address));
    let mut other_cells = Vec::new();
    other.attach(8, |address| other_cells.push(address));
    assert!(cells.iter().all(|cell| !other_cells.contains(cell)));

    assert!(memory.write(cells[0] + 256, b"hello"));
    let mut filler = pool.filler().unwrap();
    assert!(filler.fill(Descriptor { address: cells[0] + 256, len: 5, more: false, timestamp_ns: 1 }));
    filler.finish();
    let handover = pool.hand_over().unwrap();
    let read: Vec<_> = reader.cells(&handover.range).map(|(_, bytes)| bytes).collect();
    assert_eq!(read, [b"hello"]);
    assert_eq!(other_reader.cells(&handover.range).count(), 0);
    pool.recycle(handover.range).unwrap();
}

#[test]
fn the_memory_cannot_be_carved_twice_or_written_past_its_end() {
    let geometry = Geometry::new(4, 1, 4096).unwrap();
    let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes()).unwrap());
    let carved = (0..1000)
        .take_while(|&ring_id| memory.carve(PoolId { nic_id: 0, ring_id }, geometry).is_ok())
        .count() as u64;
    assert_eq!(carved, memory.len() / geometry.pool_bytes());
    assert!(!memory.write(memory.len() - 1, b"ab"));
    assert!(!memory.write(u64::MAX, b"ab"));
}

#[test]
fn a_pool_is_carved_once_and_its_cells_are_aligned() {
    let (small, large) = (Geometry::new(1, 1, 2048).unwrap(), Geometry::new(4, 2, 4096).unwrap());
    let memory = Arc::new(PacketMemory::allocate(16 * 4096).unwrap());
    let id = |ring_id| PoolId { nic_id: 0, ring_id };
    let (first, _) = memory.carve(id(0), small).unwrap();
    for geometry in [small, large] {
        let twice = memory.carve(id(0), geometry).map(|_| ());
        assert!(matches!(twice, Err(MemoryError::PoolTwice(pool)) if pool == id(0)));
    }
    let (second, _) = memory.carve(id(1), large).unwrap();
    assert_eq!((first.base(), second.base()), (0, 4096));
    let (third, _) = memory.carve(id(2), small).unwrap();
    assert_eq!(third.base(), 4096 + large.pool_bytes(), "a refusal takes no room");
}

#[test]
fn a_pool_is_given_to_one_socket_at_a_time() {
    let geometry = Geometry::new(1, 2, 2048).unwrap();
    let [memory, other] = [(); 2].map(|()| Arc::new(PacketMemory::allocate(8192).unwrap()));
    let id = PoolId { nic_id: 0, ring_id: 0 };
    let (pool, _) = memory.carve(id, geometry).unwrap();
    let (same_name, _) = other.carve(id, geometry).unwrap();
    assert!(memory.claim(&same_name).is_none(), "a pool of another memory");
    assert!(memory.claim(&Pool::new(id, geometry, 0)).is_none(), "a pool of no memory");
    let claim = memory.claim(&pool).unwrap();
    assert!(claim.is_of(&pool) && !claim.is_of(&same_name));
    assert!(memory.claim(&pool).is_none(), "another socket has it");
    drop(claim);
    assert!(memory.claim(&pool).is_some());
}

#[test]
fn a_lack_of_reserved_pages_is_reported() {
    assert_eq!(too_few_reserved(2, 0, 0), None, "none are reserved");
    let short = MemoryFallback::HugePagesShort { needed: 128, reserved: 64, free: 3 };
    assert_eq!(too_few_reserved(128, 64, 3), Some(short));
    let memory = PacketMemory::allocate(3 << 20).unwrap();
    // No machine these tests run on has 64 nodes, and a kernel without NUMA refuses any.
    assert!(memory.prefer_node(0, 4096, 63).is_err());
    assert!(memory.prefer_node(0, memory.len() + 1, 0).is_err(), "beyond the mapping");
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_hurts() {
    assert!(matches!(PacketMemory::allocate(1 << 46), Err(MemoryError::TooLarge { .. })));
}

#[test]
fn all_pages_are_brought_in_up_to_the_last() {
    let memory = PacketMemory::allocate(2 * HUGE_PAGE_BYTES as u64 + 4096).unwrap();
    let resident = || {
        let mut pages = vec![0_u8; memory.len.div_ceil(4096)];
        // SAFETY: the range is the whole mapping, and there is a byte for each page of it.
        let result = unsafe { libc::mincore(memory.start.as_ptr().cast(), memory.len, pages.as_mut_ptr()) };
        assert_eq!(result, 0);
        pages.iter().filter(|&&page| page & 1 == 1).count() * 4096
    };
    assert_eq!(resident(), 0);
    memory.populate(0..u64::MAX, &|| true).unwrap();
    assert_eq!(resident(), memory.len.next_multiple_of(4096));
}

/// The flags of the mapping that an address of this process lies in, as the kernel has them.
fn flags_at(address: u64) -> String {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = text.lines();
    let holds = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let of = |text| u64::from_str_radix(text, 16).ok();
        Some((of(start)?..of(end)?).contains(&address))
    };
    lines.find(|line| holds(line) == Some(true)).expect("it is mapped");
    lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap().to_owned()
}

#[test]
fn packets_are_neither_in_core_dumps_nor_in_children() {
    let memories = PacketMemory::allocate_parts(&[2048, 5 << 20], Need::default()).unwrap();
    for memory in memories {
        let flags = flags_at(memory.start_address() + memory.len() - 1);
        let has = |flag| flags.split_whitespace().any(|one| one == flag);
        assert!(has("dd") && has("dc"), "{flags}");
    }
}

#[test]
fn parts_lie_apart_each_from_a_page_on_and_keep_the_mapping() {
    let mut memories = PacketMemory::allocate_parts(&[1, 6000, 0], Need::default()).unwrap();
    assert_eq!(memories.iter().map(PacketMemory::len).collect::<Vec<_>>(), [4096, 8192, 4096]);
    let starts: Vec<_> = memories.iter().map(PacketMemory::start_address).collect();
    assert_eq!((starts[0] % 4096, starts[1] - starts[0], starts[2] - starts[1]), (0, 4096, 8192));
    assert!(memories[0].write(0, b"first") && memories[1].write(0, b"second"));
    assert!(!memories[0].write(4092, b"beyond it"), "what follows is another's");
    let last = memories.remove(1);
    drop(memories);
    // SAFETY: this test alone has the memory.
    assert_eq!(unsafe { last.bytes(0, 6) }, b"second");
}

#[test]
fn bringing_pages_in_ends_when_asked() {
    let memory = PacketMemory::allocate(64 << 20).unwrap();
    let asked = std::cell::Cell::new(0);
    let ended = memory.populate(0..u64::MAX, &|| asked.replace(asked.get() + 1) < 3);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert_eq!(asked.get(), 4, "every 2 MiB");
}
