//! Maps: tables shared by a program in the kernel and by us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::attr::{Command, MapCreate, MapElem};
use super::error::Error;
use super::program::Program;
use super::syscall::{address, address_mut, bpf, bpf_fd, if_there, object_name, with_memlock};
use crate::cpu;

/// What a map is.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// A hash table.
    Hash = 1,
    /// An array; keys are `u32` indices in host byte order, every entry exists and starts as zeros.
    Array = 2,
    /// Programs for [`Helper::TailCall`](super::Helper::TailCall), all of one kind; keys `u32`. A program is
    /// written by its file descriptor and read back as its number. The kernel empties it once no process
    /// holds it any more.
    ProgArray = 3,
    /// An [`Array`](Self::Array) whose memory this process maps.
    MappedArray = BPF_F_MMAPABLE | 2,
    /// An array with one value per possible CPU; a program sees its own CPU's.
    PerCpuArray = 6,
    /// Devices to redirect to; keys and values `u32`, the value is an interface index of the namespace of the
    /// thread that writes it.
    DevMap = 14,
    /// Maps of one kind; keys `u32`. See [`Map::array_of`].
    ArrayOfMaps = 12,
    /// AF_XDP sockets to redirect to; keys `u32`, values socket file descriptors; cannot be read back.
    XskMap = 17,
    /// A ring of events, without keys and values; `max_entries` is its size in bytes: whole pages, a power of
    /// two (Linux 5.8). Its descriptor is readable while events wait.
    RingBuffer = 27,
}

/// The array's memory can be mapped (Linux 5.5).
const BPF_F_MMAPABLE: u32 = 1 << 10;

impl MapKind {
    /// The kernel's type of map.
    fn map_type(self) -> u32 {
        self as u32 & !BPF_F_MMAPABLE
    }

    /// The flags that it is made with.
    fn flags(self) -> u32 {
        self as u32 & BPF_F_MMAPABLE
    }

    /// Whether a value is written as a file descriptor, which the kernel turns into what it refers to.
    fn holds_objects(self) -> bool {
        matches!(self, Self::ProgArray | Self::ArrayOfMaps | Self::XskMap)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Array => "array",
            Self::MappedArray => "mapped array",
            Self::ProgArray => "program array",
            Self::PerCpuArray => "per-CPU array",
            Self::DevMap => "devmap",
            Self::ArrayOfMaps => "array of maps",
            Self::XskMap => "xskmap",
            Self::RingBuffer => "ring buffer",
        }
    }
}

/// The settings of a new map.
#[derive(Debug, Clone, Copy)]
pub struct MapSpec<'a> {
    /// Its kind.
    pub kind: MapKind,
    /// Length of a key in bytes; 4 for all but `Hash` and `RingBuffer`.
    pub key_size: u32,
    /// Length of a value in bytes; 4 for `ProgArray`, `DevMap`, `ArrayOfMaps` and `XskMap`.
    pub value_size: u32,
    /// Number of entries, for a `Hash` the most it may hold.
    pub max_entries: u32,
    /// Name shown by `bpftool map`: 1 to 15 letters, digits, `_`, `.`.
    pub name: &'a str,
}

/// A map of ours. Code that names it and programs loaded with it keep it alive beyond this value.
#[derive(Debug)]
pub struct Map {
    fd: Arc<OwnedFd>,
    kind: MapKind,
    key_size: usize,
    value_size: usize,
    name: String,
    /// Number of values of one entry: possible CPUs of a per-CPU map, otherwise 1.
    copies: usize,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without CAP_BPF (`DevMap` and `XskMap` also want CAP_NET_ADMIN),
    /// [`Error::BadName`], [`Error::Call`] for what the kernel does not take (zero sizes, too much memory).
    pub fn create(spec: &MapSpec<'_>) -> Result<Self, Error> {
        Self::create_with(spec, None)
    }

    /// Makes an `ArrayOfMaps` of this size with these in it, each at its index; all were made with the same
    /// settings.
    ///
    /// # Errors
    /// As [`Self::create`].
    ///
    /// # Panics
    /// Without a map.
    pub fn array_of(max_entries: u32, maps: &[(u32, &Map)], name: &str) -> Result<Self, Error> {
        let spec = MapSpec { kind: MapKind::ArrayOfMaps, key_size: 4, value_size: 4, max_entries, name };
        let array = Self::create_with(&spec, Some(maps[0].1))?;
        for (index, map) in maps {
            array.update_object(*index, map.fd.as_fd())?;
        }
        Ok(array)
    }

    /// Makes a map, one of maps like `inner` if there is one.
    fn create_with(spec: &MapSpec<'_>, inner: Option<&Map>) -> Result<Self, Error> {
        let action = || {
            format!("create the BPF map {} ({}, {} entries)", spec.name, spec.kind.name(), spec.max_entries)
        };
        let map_name = object_name(spec.name)?;
        let copies = match spec.kind {
            MapKind::PerCpuArray => cpu::possible().map_err(|cause| Error::call(action(), cause))?,
            _ => 1,
        };
        let fd = with_memlock(|| {
            let mut attr = MapCreate {
                map_type: spec.kind.map_type(),
                map_flags: spec.kind.flags(),
                key_size: spec.key_size,
                value_size: spec.value_size,
                max_entries: spec.max_entries,
                inner_map_fd: inner.map_or(0, |map| map.raw_fd() as u32),
                map_name,
                ..MapCreate::default()
            };
            // SAFETY: MAP_CREATE has no addresses in it, and returns a new file descriptor.
            unsafe { bpf_fd(Command::MapCreate, &mut attr) }
        })
        .map_err(|cause| Error::call(action(), cause))?;
        Ok(Self {
            fd: Arc::new(fd),
            kind: spec.kind,
            key_size: spec.key_size as usize,
            value_size: spec.value_size as usize,
            name: spec.name.to_owned(),
            copies,
        })
    }

    /// Writes the entry of `key`, making it if need be. A per-CPU map gets `value` on every CPU.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for maps whose values are programs, maps or sockets: the kernel takes these by
    /// the number of a descriptor, which may be anybody's. [`Error::WrongSize`] if key or value have another
    /// length than the map's, [`Error::Call`] e.g. with `E2BIG` for an index out of range or a full hash.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.kind.holds_objects() {
            return Err(self.wrong_kind("update"));
        }
        self.write(key, value)
    }

    /// Writes an entry of a map whose values are objects of the kernel.
    fn update_object(&self, index: u32, object: BorrowedFd<'_>) -> Result<(), Error> {
        self.write(&index.to_ne_bytes(), &object.as_raw_fd().to_ne_bytes())
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check("key", key.len(), self.key_size)?;
        self.check("value", value.len(), self.value_size)?;
        let mut copies = Vec::new();
        let value = if self.is_per_cpu() {
            for _ in 0..self.copies {
                copies.extend_from_slice(value);
                copies.resize(copies.len().next_multiple_of(8), 0);
            }
            &copies
        } else {
            value
        };
        // The kernel only reads `value`, which has the length of this map's entries over all CPUs.
        self.element(Command::MapUpdateElem, key, address(value))
            .map_err(|cause| self.failed("write to", cause))
    }

    /// Reads the entry of `key`; `None` if a hash has none.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for per-CPU maps (see [`Self::lookup_per_cpu`]) and `XskMap`,
    /// [`Error::WrongSize`], [`Error::Call`].
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.is_per_cpu() || matches!(self.kind, MapKind::XskMap | MapKind::ArrayOfMaps) {
            return Err(self.wrong_kind("lookup"));
        }
        self.read(key, self.value_size)
    }

    /// Reads the values of all possible CPUs for `key`.
    ///
    /// Costs one allocation and one system call. The values of different CPUs are not read at the same
    /// instant.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for maps that are not per CPU, [`Error::WrongSize`], [`Error::Call`] with
    /// `ENOENT` for an index out of range.
    pub fn lookup_per_cpu(&self, key: &[u8]) -> Result<PerCpuValues, Error> {
        let mut values = PerCpuValues::default();
        self.lookup_per_cpu_into(key, &mut values)?;
        Ok(values)
    }

    /// As [`Self::lookup_per_cpu`], without an allocation if `values` are of a map of this size already.
    ///
    /// # Errors
    /// As [`Self::lookup_per_cpu`].
    pub fn lookup_per_cpu_into(&self, key: &[u8], values: &mut PerCpuValues) -> Result<(), Error> {
        self.must_be(MapKind::PerCpuArray, "lookup_per_cpu")?;
        values.value_size = self.value_size;
        values.stride = self.value_size.next_multiple_of(8);
        values.bytes.resize(values.stride * self.copies, 0);
        if self.read_into(key, &mut values.bytes)? {
            Ok(())
        } else {
            Err(self.failed("read from", io::Error::from_raw_os_error(libc::ENOENT)))
        }
    }

    /// Removes the entry of `key`; `false` if there was none.
    ///
    /// # Errors
    /// [`Error::WrongSize`]; [`Error::Call`] with `EINVAL` for arrays, whose entries cannot be removed.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.check("key", key.len(), self.key_size)?;
        let found = if_there(self.element(Command::MapDeleteElem, key, 0));
        found.map(|found| found.is_some()).map_err(|cause| self.failed("delete from", cause))
    }

    /// Puts a bound AF_XDP socket at `index` (usually its queue). It leaves by itself when it is closed.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for maps other than `XskMap`; [`Error::Call`], e.g. `EOPNOTSUPP` if `socket` is
    /// not of AF_XDP, `E2BIG` if `index` is out of range.
    pub fn set_socket(&self, index: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.must_be(MapKind::XskMap, "set_socket")?;
        self.update_object(index, socket)
    }

    /// Puts a program at `index`, in place of the one that is there.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for maps other than `ProgArray`; [`Error::Call`] with `EINVAL` for a program that
    /// differs from the others in kind or in [`frags`](super::ProgramSpec::frags), `E2BIG` if `index` is out
    /// of range.
    pub fn set_program(&self, index: u32, program: &Program) -> Result<(), Error> {
        self.must_be(MapKind::ProgArray, "set_program")?;
        self.update_object(index, program.as_fd())
    }

    /// Whether the map takes a program of this kind. It is tried at `index`, whose entry is gone afterwards.
    ///
    /// # Errors
    /// As [`Self::set_program`], except `EINVAL`.
    pub fn accepts(&self, program: &Program, index: u32) -> Result<bool, Error> {
        match self.set_program(index, program) {
            Ok(()) => self.delete(&index.to_ne_bytes()).map(|_| true),
            Err(refused) if refused.errno() == Some(libc::EINVAL) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The number of the program at `index`, if there is one.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for maps other than `ProgArray`; [`Error::Call`].
    pub fn program_id(&self, index: u32) -> Result<Option<u32>, Error> {
        self.must_be(MapKind::ProgArray, "program_id")?;
        let id = self.lookup(&index.to_ne_bytes())?;
        Ok(id.map(|id| u32::from_ne_bytes(id.try_into().expect("a value of this map has four bytes"))))
    }

    /// The kind of the map.
    pub fn kind(&self) -> MapKind {
        self.kind
    }

    /// A `ProgArray` that another process has made.
    pub(super) fn from_program_array(fd: OwnedFd, name: String) -> Self {
        Self { fd: Arc::new(fd), kind: MapKind::ProgArray, key_size: 4, value_size: 4, name, copies: 1 }
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The descriptor, which stays open with what this returns.
    pub(crate) fn keep_open(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn is_per_cpu(&self) -> bool {
        self.kind == MapKind::PerCpuArray
    }

    fn read(&self, key: &[u8], length: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut value = vec![0; length];
        Ok(self.read_into(key, &mut value)?.then_some(value))
    }

    /// Reads the entry of `key`, if there is one. INVARIANT: `value` has as many bytes as an entry of this
    /// map over all CPUs.
    fn read_into(&self, key: &[u8], value: &mut [u8]) -> Result<bool, Error> {
        self.check("key", key.len(), self.key_size)?;
        let found = if_there(self.element(Command::MapLookupElem, key, address_mut(value)));
        found.map(|found| found.is_some()).map_err(|cause| self.failed("read from", cause))
    }

    /// One call on one entry. INVARIANT: `key` has `key_size` bytes and at `value` there are as many as an
    /// entry of this map has over all CPUs, writable for a lookup; the callers above check and size both.
    fn element(&self, command: Command, key: &[u8], value: u64) -> io::Result<()> {
        debug_assert_eq!(key.len(), self.key_size);
        let mut attr =
            MapElem { map_fd: self.raw_fd() as u32, key: address(key), value, ..MapElem::default() };
        // SAFETY: the invariant above; both buffers are borrowed by the caller for longer than the call.
        unsafe { bpf(command, &mut attr) }.map(drop)
    }

    fn check(&self, part: &'static str, got: usize, expected: usize) -> Result<(), Error> {
        if got == expected {
            return Ok(());
        }
        Err(Error::WrongSize { map: self.name.clone(), part, expected, got })
    }

    fn must_be(&self, kind: MapKind, call: &'static str) -> Result<(), Error> {
        if self.kind == kind { Ok(()) } else { Err(self.wrong_kind(call)) }
    }

    fn wrong_kind(&self, call: &'static str) -> Error {
        Error::WrongKind { map: self.name.clone(), kind: self.kind.name(), call }
    }

    fn failed(&self, verb: &str, cause: io::Error) -> Error {
        Error::call(format!("{verb} the BPF map {} ({})", self.name, self.kind.name()), cause)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The values one entry has on all possible CPUs.
#[derive(Debug, Clone, Default)]
pub struct PerCpuValues {
    bytes: Vec<u8>,
    /// Distance of two CPUs' values in bytes: the kernel rounds values up to 8.
    stride: usize,
    value_size: usize,
}

impl PerCpuValues {
    /// Each CPU's value, in the order of CPU numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.stride).map(|value| &value[..self.value_size])
    }

    /// Sum over all CPUs of the `u64` (host byte order) at `offset` bytes of the value, wrapping.
    ///
    /// # Panics
    /// If the value has no eight bytes at `offset`.
    pub fn sum_u64(&self, offset: usize) -> u64 {
        self.iter().fold(0, |sum, value| {
            let bytes = value[offset..offset + 8].try_into().expect("a slice of eight bytes");
            sum.wrapping_add(u64::from_ne_bytes(bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_values_are_padded() {
        let values = PerCpuValues { bytes: (0..32).collect(), stride: 16, value_size: 12 };
        assert_eq!(values.iter().map(<[u8]>::len).collect::<Vec<_>>(), [12, 12]);
        assert_eq!(values.iter().nth(1).unwrap()[0], 16);
        let mut bytes = vec![0; 16];
        bytes[..8].copy_from_slice(&5u64.to_ne_bytes());
        bytes[8..].copy_from_slice(&7u64.to_ne_bytes());
        assert_eq!(PerCpuValues { bytes, stride: 8, value_size: 8 }.sum_u64(0), 12);
    }
}
