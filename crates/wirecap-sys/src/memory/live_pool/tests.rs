//! Perverse callers that try to get a cell twice. Each test names the way that once succeeded. The tests run
//! under miri, too.

use std::os::fd::OwnedFd;

use wirecap_core::{Descriptor, Geometry, PoolId, RecycleQueue};

use super::*;
use crate::memory::{CellWriter, Note, PacketMemory, QueueName};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };
const NOTE: Note = Note { original_len: 0, direction: None };

fn geometry() -> Geometry {
    Geometry::new(4, 2, 2048).unwrap()
}

fn memory() -> Arc<PacketMemory> {
    Arc::new(PacketMemory::allocate(geometry().pool_bytes(), 2048).unwrap())
}

/// A pool in its own memory, all of which is attached to its writer.
fn live() -> (LivePool, CellWriter) {
    let mut pool = memory().carve(ID, geometry()).unwrap();
    let mut writer = CellWriter::new(&pool).unwrap();
    writer.attach(&mut pool);
    (pool, writer)
}

fn fill(pool: &mut LivePool, cells: impl IntoIterator<Item = FilledCell>) {
    let mut filler = pool.filler().unwrap();
    filler.fill(cells.into_iter().map(|cell| (cell, 1)));
    filler.finish();
}

/// Writes a packet and captures it.
fn capture(pool: &mut LivePool, writer: &mut CellWriter, bytes: &[u8]) -> ChunkRange {
    let cell = writer.write(NOTE, bytes).expect("an attached cell");
    fill(pool, [cell]);
    pool.hand_over().expect("a packet").range
}

fn read<'a>(reader: &'a CellReader, range: &'a ChunkRange) -> Vec<&'a [u8]> {
    reader.cells(range).map(|(_, bytes)| bytes).collect()
}

#[test]
fn a_range_lends_only_its_own_cells() {
    let (mut pool, mut writer) = live();
    let reader = pool.reader();
    let mut first = capture(&mut pool, &mut writer, b"first");
    let second = capture(&mut pool, &mut writer, b"second");
    let changed = reader.bytes_mut(&mut first, 0);
    let unchanged = read(&reader, &second);
    changed[0] = b'F';
    assert_eq!(unchanged, [b"second"]);
    assert_eq!(read(&reader, &first), [b"First"]);
    assert!(reader.move_bytes(&mut first, 0, 256 + 1, 3));
    assert_eq!(read(&reader, &first), [b"irs"]);
    [first, second].into_iter().for_each(|range| pool.recycle(range).unwrap());
    assert_eq!(pool.levels().outstanding_cells, 0);
}

/// Once: two pools of one name made equal ranges, and `Pool::new` takes any name. The reader lent the same
/// bytes twice, mutably.
#[test]
fn ranges_of_a_pool_of_the_same_name_are_refused() {
    let (mut pool, mut writer) = live();
    let (reader, home) = (pool.reader(), RecycleQueue::new(&pool));
    let mut genuine = capture(&mut pool, &mut writer, b"genuine");
    let mut forgery = Pool::new(ID, geometry(), pool.base());
    forgery.attach(8, |_| ());
    let mut filler = forgery.filler().unwrap();
    let cell = Descriptor { address: 256, len: 7, more: false, timestamp_ns: 0 };
    filler.fill_all([cell, cell].into_iter());
    filler.finish();
    let mut forged = forgery.hand_over().unwrap().range;
    assert_eq!((forged.first(), genuine.first()), (0, 0), "the ranges differ only in their pool's number");
    let bytes = reader.bytes_mut(&mut genuine, 0);
    let aliased = reader.bytes_mut(&mut forged, 0);
    assert!(aliased.is_empty());
    bytes[0] = b'G';
    assert!(read(&reader, &forged).is_empty() && reader.first(&forged).is_none());
    assert!(!reader.move_bytes(&mut forged, 0, 300, 1));
    let (forged, rest) = forged.split_at(1);
    // The cell would go to the kernel while a reader reads it.
    assert!(pool.recycle(forged).is_err() && home.push(rest.unwrap()).is_err());
    assert_eq!((pool.levels().outstanding_cells, pool.refused()), (1, 1));
    assert_eq!(read(&reader, &genuine), [b"Genuine"]);
}

/// Once: names were unique within a memory only. The reader of a second memory accepted a range of the first,
/// and read where the kernel may write.
#[test]
fn a_range_is_read_with_the_reader_of_its_own_memory_only() {
    let ((mut pool, mut writer), (other, _other_writer)) = (live(), live());
    let mut range = capture(&mut pool, &mut writer, b"mine");
    let stranger = other.reader();
    assert!(read(&stranger, &range).is_empty() && stranger.bytes_mut(&mut range, 0).is_empty());
    assert_eq!(read(&pool.reader(), &range), [b"mine"]);
}

/// Once: a pool took any descriptor within its bounds. A cell that another socket received, in another
/// memory, became a range of a cell that the kernel still had.
#[test]
fn a_cell_filled_by_another_pool_is_foreign() {
    let ((mut pool, mut writer), (mut other, mut other_writer)) = (live(), live());
    let strange = other_writer.write(NOTE, b"strange").unwrap();
    assert_eq!(strange.address(), 256, "the first cell of this pool has the same address");
    fill(&mut pool, [strange]);
    assert_eq!((pool.foreign(), pool.filled_cells()), (1, 0));
    assert!(pool.hand_over().is_none());
    assert_eq!(read(&pool.reader(), &capture(&mut pool, &mut writer, b"own")), [b"own"]);
    // A block of another ring is foreign, too.
    let block = FilledBlock::new(other.number(), 1, 60);
    assert!(!pool.filler().unwrap().fill_block(block));
    assert!(!other.filler().unwrap().fill_block(FilledBlock::new(pool.number(), 1, 60)));
}

/// Once: any caller could attach chunks, so that the kernel and a writer had the same cells. Pools exchanged
/// by `std::mem::swap` are refused.
#[test]
fn swapped_pools_attach_and_take_nothing() {
    let ((mut pool, mut writer), (mut other, _other_writer)) = (live(), live());
    std::mem::swap(&mut pool, &mut other);
    let attached = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.attach(&mut pool)));
    assert!(attached.is_err());
    fill(&mut pool, [writer.write(NOTE, b"of the other").unwrap()]);
    assert_eq!((pool.foreign(), pool.filled_cells()), (1, 0));
}

#[test]
fn a_pool_has_one_tenant_at_a_time() {
    let [memory, other] = [(); 2].map(|()| memory());
    let pool = memory.carve(ID, geometry()).unwrap();
    assert!(pool.lease(&other, Tenant::Writer).is_none(), "a pool of another memory");
    assert!(LivePool::of_blocks(Pool::new(ID, geometry(), 0)).lease(&memory, Tenant::Writer).is_none());
    let lease = pool.lease(&memory, Tenant::Writer).unwrap();
    assert!(pool.lease(&memory, Tenant::Writer).is_none(), "another tenant has the pool");
    drop(lease);
    assert!(pool.lease(&memory, Tenant::Writer).is_none(), "the pool counts cells as attached");
}

/// Once: `Pool::detach_unfilled` took cells back while the kernel had them. A cell received out of order, or
/// later, was then both with the kernel and in a range.
#[test]
fn cells_are_taken_back_only_when_all_are_idle() {
    let (mut pool, mut writer) = live();
    assert!(!pool.renew(), "the writer has the cells");
    let late = writer.write(NOTE, b"late").unwrap();
    let range = capture(&mut pool, &mut writer, b"captured");
    drop(writer);
    assert!(!pool.renew(), "a range is outstanding");
    let old_reader = pool.reader();
    pool.recycle(range).unwrap();
    assert!(pool.renew());
    assert_eq!((pool.levels().free_chunks, pool.base()), (2, 0));
    let mut next = CellWriter::new(&pool).expect("the pool is idle");
    next.attach(&mut pool);
    assert_eq!(next.attached(), 8, "all cells are back");
    fill(&mut pool, [late]);
    assert_eq!((pool.foreign(), pool.filled_cells()), (1, 0), "the new writer still has its cell");
    let range = capture(&mut pool, &mut next, b"new");
    assert!(read(&old_reader, &range).is_empty());
    assert_eq!(read(&pool.reader(), &range), [b"new"]);
}

fn fd() -> Arc<OwnedFd> {
    Arc::new(std::fs::File::open("/dev/null").unwrap().into())
}

/// Once: the lease of a socket ended with the `Socket`, although a waker or a copy kept its descriptor open,
/// and the kernel went on filling.
#[test]
fn a_socket_that_is_still_open_keeps_its_cells() {
    let memory = memory();
    let queue = |queue_id| Some(QueueName { namespace: 1, ifindex: 7, queue_id });
    let mut pool = memory.carve(ID, geometry()).unwrap();
    drop(pool.lease(&memory, Tenant::Socket(fd(), queue(3))).unwrap());
    assert!(pool.renew(), "the socket is closed");
    assert!(
        pool.lease(&memory, Tenant::Socket(fd(), queue(4))).is_none(),
        "the driver may not have let go of queue 3"
    );
    assert!(pool.lease(&memory, Tenant::Socket(fd(), None)).is_none() && CellWriter::new(&pool).is_none());
    let socket = fd();
    let waker = Arc::clone(&socket);
    drop(pool.lease(&memory, Tenant::Socket(socket, queue(3))).expect("the same queue"));
    drop(waker);
    assert!(!pool.renew(), "the socket may have been open when its lease ended");
    let mut unnamed = self::memory().carve(ID, geometry()).unwrap();
    let home = Arc::clone(unnamed.memory().unwrap());
    drop(unnamed.lease(&home, Tenant::Socket(fd(), None)).unwrap());
    assert!(!unnamed.renew(), "no other socket is known to have the same queue");
}

#[test]
fn a_cell_without_an_address_is_foreign() {
    let (mut pool, _writer) = live();
    let mut filler = pool.filler().unwrap();
    filler.fill_nowhere();
    filler.finish();
    assert_eq!((pool.foreign(), pool.filled_cells()), (1, 0));
}
