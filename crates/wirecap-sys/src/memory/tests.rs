//! Tests of the packet memory: its division into pools, and what is reported.

use super::{mapping::too_few_reserved, *};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

#[test]
fn pools_do_not_overlap_and_the_memory_cannot_be_carved_twice() {
    let geometry = Geometry::new(4, 2, 4096).unwrap();
    let memory = Arc::new(PacketMemory::allocate(3 * geometry.pool_bytes(), 4096).unwrap());
    let bases: Vec<_> =
        (0..1000).map_while(|_| memory.carve(ID, geometry).ok()).map(|pool| pool.base()).collect();
    assert_eq!(bases, [0, 1, 2].map(|pool| pool * geometry.pool_bytes()));
    assert!(matches!(memory.carve(ID, geometry), Err(MemoryError::Exhausted(_))));
    // SAFETY: only this test has the memory.
    let write = |address| unsafe { memory.write(address, b"ab") };
    assert!(write(memory.len() - 2) && !write(memory.len() - 1) && !write(u64::MAX));
}

/// The kernel divides a registration into cells of one size: from a pool of smaller ones it would get two
/// cells at a time.
#[test]
fn all_cells_of_a_memory_are_of_one_size() {
    let memory = Arc::new(PacketMemory::allocate(16 * 4096, 4096).unwrap());
    for chunks in [1, 2] {
        let refused = memory.carve(ID, Geometry::new(1, chunks, 2048).unwrap());
        assert!(matches!(refused, Err(MemoryError::CellBytes { given: 2048, memory: 4096 })));
    }
    let pools = [(); 2].map(|()| memory.carve(ID, Geometry::new(1, 1, 4096).unwrap()).unwrap());
    assert_eq!(pools.map(|pool| pool.base()), [0, 4096], "a refusal takes no memory");
}

#[test]
fn a_lack_of_reserved_pages_is_reported() {
    assert_eq!(too_few_reserved(2, 0, 0), None, "none are reserved");
    let short = MemoryFallback::HugePagesShort { needed: 128, reserved: 64, free: 3 };
    assert_eq!(too_few_reserved(128, 64, 3), Some(short));
    let memory = PacketMemory::allocate(3 << 20, 2048).unwrap();
    // No machine these tests run on has 64 nodes, and a kernel without NUMA refuses any.
    assert!(memory.prefer_node(0, 4096, 63).is_err());
    assert!(memory.prefer_node(0, memory.len() + 1, 0).is_err(), "beyond the mapping");
}

#[test]
fn more_memory_than_available_is_refused_early() {
    assert!(matches!(PacketMemory::allocate(1 << 46, 2048), Err(MemoryError::TooLarge { .. })));
}

#[test]
fn populating_brings_in_every_page() {
    let memory = PacketMemory::allocate(2 * mapping::HUGE_PAGE_BYTES as u64 + 4096, 2048).unwrap();
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

/// The flags of the mapping that holds an address of this process, as the kernel reports them.
fn flags_at(address: u64) -> String {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = text.lines();
    let holds = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let of = |text| u64::from_str_radix(text, 16).ok();
        Some((of(start)?..of(end)?).contains(&address))
    };
    lines.find(|line| holds(line) == Some(true)).expect("the address is mapped");
    lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap().to_owned()
}

#[test]
fn packets_are_not_in_core_dumps_and_in_children_only_if_that_is_wanted() {
    for (children, are_shared) in [(Children::Without, false), (Children::With, true)] {
        let parts = [2048, 5 << 20];
        for memory in PacketMemory::allocate_parts(&parts, 2048, children, Need::default()).unwrap() {
            let flags = flags_at(memory.start_address() + memory.len() - 1);
            let has = |flag| flags.split_whitespace().any(|one| one == flag);
            assert!(has("dd"), "{flags}");
            assert_eq!((has("dc"), has("sh")), (!are_shared, are_shared), "{children:?}: {flags}");
        }
    }
}

#[test]
fn parts_begin_on_separate_pages_and_keep_the_mapping() {
    let mut memories =
        PacketMemory::allocate_parts(&[1, 6000, 0], 2048, Children::Without, Need::default()).unwrap();
    assert_eq!(memories.iter().map(PacketMemory::len).collect::<Vec<_>>(), [4096, 8192, 4096]);
    let starts: Vec<_> = memories.iter().map(PacketMemory::start_address).collect();
    assert_eq!((starts[0] % 4096, starts[1] - starts[0], starts[2] - starts[1]), (0, 4096, 8192));
    // SAFETY: only this test has the memories.
    let write = |memory: &PacketMemory, address, bytes| unsafe { memory.write(address, bytes) };
    assert!(write(&memories[0], 0, b"first") && write(&memories[1], 0, b"second"));
    assert!(!write(&memories[0], 4092, b"beyond it"), "the next part is another memory");
    let last = memories.remove(1);
    drop(memories);
    // SAFETY: only this test has the memory.
    assert_eq!(unsafe { last.bytes(0, 6) }, b"second");
}

#[test]
fn populating_stops_on_request() {
    let memory = PacketMemory::allocate(64 << 20, 2048).unwrap();
    let asked = std::cell::Cell::new(0);
    let ended = memory.populate(0..u64::MAX, &|| asked.replace(asked.get() + 1) < 3);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert_eq!(asked.get(), 4, "every 2 MiB");
}
