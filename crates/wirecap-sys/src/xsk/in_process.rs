//! What the kernel reports about the AF_XDP sockets of this process, independent of the code that opened
//! them.

use std::{
    fs,
    io::{self, Read as _},
    ops::Range,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    ptr,
};

use super::{
    BindMode,
    abi::{self, RingDescriptor},
    cursor::RingSize,
};
use crate::{mmap::page_bytes, socket_option};

/// The mode of each AF_XDP socket that this process has open, as the kernel reports it (`XDP_OPTIONS`): to
/// check what a capture reports of itself. In the order of their lowest descriptors, which is the order in
/// which they were opened unless one was closed. A socket that is not bound counts as one that copies.
///
/// # Errors
/// If the descriptors of the process cannot be listed: `/proc` is not mounted, for instance.
pub fn modes_of_process() -> io::Result<Vec<BindMode>> {
    Ok(sockets_of_process()?.into_iter().map(|(_, options)| BindMode::of_options(options)).collect())
}

/// The lowest descriptor of each AF_XDP socket, in ascending order, and the socket's `XDP_OPTIONS`. A
/// descriptor that is closed during the search is left out.
fn sockets_of_process() -> io::Result<Vec<(libc::c_int, u32)>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let mut numbers: Vec<libc::c_int> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    // A socket may have several descriptors, but has one cookie. Cookies show no order: each CPU takes a
    // batch of them.
    let mut seen: Vec<u64> = Vec::new();
    let socket = |number: libc::c_int| {
        let options: u32 = socket_option::of_number(number, abi::SOL_XDP, abi::XDP_OPTIONS).ok()?;
        let cookie: u64 = socket_option::of_number(number, libc::SOL_SOCKET, libc::SO_COOKIE).ok()?;
        let new = !seen.contains(&cookie);
        seen.push(cookie);
        new.then_some((number, options))
    };
    Ok(numbers.into_iter().filter_map(socket).collect())
}

/// The transmit rings of the AF_XDP sockets of this process, as they lie in the memory that the kernel reads
/// them from: to check which cells a sender has really lent to the kernel, whatever it says itself. A ring
/// keeps its entries after the kernel has taken them, until others are written over them.
///
/// The kernel shows which sockets there are (`/proc/self/fd`), where their rings are mapped
/// (`/proc/self/maps`: kernels before 6.4 do not map a ring once more when its socket is bound) and how these
/// are laid out (`XDP_MMAP_OFFSETS`). The number of entries of a ring follows from the size of its mapping.
/// Nothing is written into a ring, and it is read through the kernel, so that a ring which is gone is an
/// error.
///
/// Source: `Documentation/networking/af_xdp.rst`, "Rings" and "XDP_MMAP_OFFSETS"; `xsk_mmap` in
/// `net/xdp/xsk.c`.
#[derive(Debug)]
pub struct TransmitRings {
    rings: Vec<TransmitRing>,
    reader: FaultSafeReader,
}

impl TransmitRings {
    /// All transmit rings of this number of entries. What they hold already is not reported.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] unless `entries` is a power of two, and fills a page at least:
    /// mappings are counted in pages, so that smaller rings look alike. The kernel's error when `/proc` is
    /// not mounted, or a socket is closed during the search.
    pub fn of_process(entries: u32) -> io::Result<Self> {
        let page = page_bytes();
        let size = RingSize::new(entries).filter(|_| bytes_of(entries) >= page).ok_or_else(|| {
            let wanted = format!("{entries} entries: a power of two that fills a page ({page} bytes)");
            io::Error::new(io::ErrorKind::InvalidInput, wanted)
        })?;
        let (mappings, mut reader) = (mappings()?, FaultSafeReader::new()?);
        let mut rings = Vec::new();
        for (number, _) in sockets_of_process()? {
            let Ok(file) = fs::read_link(format!("/proc/self/fd/{number}")) else { continue };
            let offsets: io::Result<libc::xdp_mmap_offsets> =
                socket_option::of_number(number, abi::SOL_XDP, abi::XDP_MMAP_OFFSETS);
            let Ok(libc::xdp_mmap_offsets { tx: offsets, .. }) = offsets else { continue };
            let len = (offsets.desc as usize + bytes_of(entries)).next_multiple_of(page);
            let is_its =
                |mapping: &&Mapping| file.to_str() == Some(&mapping.file) && mapping.range.len() == len;
            let Some(mapping) = mappings.iter().find(is_its).cloned() else { continue };
            let mut ring = TransmitRing { mapping, offsets, size, seen: 0 };
            ring.seen = ring.producer(&mut reader)?;
            rings.push(ring);
        }
        Ok(Self { rings, reader })
    }

    /// Takes what was put into the rings since the last time, oldest first: one list for each ring, in the
    /// order of the lowest descriptors of their sockets.
    ///
    /// What is staged but not published yet is not reported, but is written over what was there. So this
    /// reports everything if it is called when nothing is staged, after each flush for instance.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when more was put into a ring than it has entries, so that some are
    /// lost: look more often. [`io::ErrorKind::NotFound`] when a ring is gone, since its socket was closed.
    pub fn take(&mut self) -> io::Result<Vec<Vec<RingDescriptor>>> {
        let Self { rings, reader } = self;
        let mappings = mappings()?;
        let take = |ring: &mut TransmitRing| {
            if !mappings.contains(&ring.mapping) {
                let gone = format!("the transmit ring of {} is not mapped any more", ring.mapping.file);
                return Err(io::Error::new(io::ErrorKind::NotFound, gone));
            }
            ring.take(reader)
        };
        rings.iter_mut().map(take).collect()
    }
}

/// The transmit ring of one socket.
#[derive(Debug)]
struct TransmitRing {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    size: RingSize,
    /// The producer's index when it was looked at last.
    seen: u32,
}

impl TransmitRing {
    fn take(&mut self, reader: &mut FaultSafeReader) -> io::Result<Vec<RingDescriptor>> {
        let before = self.producer(reader)?;
        let entries = reader.fetch(self.at(self.offsets.desc), bytes_of(self.size.entries()))?;
        // Once more: some may have been written over while they were read.
        let put = self.producer(reader)?.wrapping_sub(self.seen);
        if put > self.size.entries() {
            let lost = format!("{put} entries since the last look at a ring of {}", self.size.entries());
            return Err(io::Error::new(io::ErrorKind::InvalidData, lost));
        }
        let fresh = before.wrapping_sub(self.seen);
        let indexes = (0..fresh).map(|past| self.seen.wrapping_add(past));
        let entry = |index| descriptor(&entries[self.size.entry(index) * size_of::<RingDescriptor>()..]);
        let descriptors = indexes.map(entry).collect();
        self.seen = before;
        Ok(descriptors)
    }

    fn producer(&self, reader: &mut FaultSafeReader) -> io::Result<u32> {
        let bytes = reader.fetch(self.at(self.offsets.producer), size_of::<u32>())?;
        Ok(u32::from_ne_bytes(first(&bytes)))
    }

    fn at(&self, offset: u64) -> usize {
        self.mapping.range.start + offset as usize
    }
}

/// `struct xdp_desc` at the beginning of these bytes.
fn descriptor(bytes: &[u8]) -> RingDescriptor {
    RingDescriptor {
        address: u64::from_ne_bytes(first(bytes)),
        len: u32::from_ne_bytes(first(&bytes[8..])),
        options: u32::from_ne_bytes(first(&bytes[12..])),
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("an entry is complete")
}

fn bytes_of(entries: u32) -> usize {
    entries as usize * size_of::<RingDescriptor>()
}

/// Where a transmit ring is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    /// The socket, as `/proc` calls it: `socket:[4711]`.
    file: String,
}

/// The mappings of sockets at the offset of transmit rings.
fn mappings() -> io::Result<Vec<Mapping>> {
    Ok(fs::read_to_string("/proc/self/maps")?.lines().filter_map(mapping).collect())
}

/// A line of `/proc/self/maps` (proc_pid_maps(5)):
/// `7f30497000-7f30499000 rw-s 80000000 00:09 4711   socket:[4711]`.
fn mapping(line: &str) -> Option<Mapping> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[range, _, offset, _, _, file] = &fields[..] else { return None };
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    let (start, end) = range.split_once('-')?;
    let is_transmit_ring =
        file.starts_with("socket:[") && number(offset)? as libc::off_t == abi::XDP_PGOFF_TX_RING;
    is_transmit_ring.then_some(Mapping { range: number(start)?..number(end)?, file: file.to_owned() })
}

/// Reads bytes that others write and may unmap at any time: the kernel copies them.
#[derive(Debug)]
struct FaultSafeReader {
    from: UnixStream,
    to: UnixStream,
}

impl FaultSafeReader {
    /// Bytes at once: fewer than any socket buffer has.
    const LOAD: usize = 1024;

    fn new() -> io::Result<Self> {
        let (from, to) = UnixStream::pair()?;
        Ok(Self { from, to })
    }

    fn fetch(&mut self, start: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        for (index, load) in bytes.chunks_mut(Self::LOAD).enumerate() {
            let at = ptr::with_exposed_provenance::<libc::c_void>(start + index * Self::LOAD);
            // SAFETY: nothing is read through the pointer here. The kernel copies from there, bytes that
            // others write at the same time as they happen to be, and answers EFAULT where nothing is mapped;
            // memory of ours is not written.
            let written = unsafe { libc::write(self.from.as_raw_fd(), at, load.len()) };
            match usize::try_from(written) {
                Ok(written) if written == load.len() => self.to.read_exact(load)?,
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(bytes)
    }
}
