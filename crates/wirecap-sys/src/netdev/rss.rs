//! How a NIC chooses the receive queue of a packet (receive side scaling), by ETHTOOL_GRSSH and
//! ETHTOOL_SRSSH.
//!
//! ```text
//!  addresses and ports ──► transform ──► hash function with key ──► indirection table ──► receive queue
//!                          (none, or     (Toeplitz, …)              left alone here
//!                           symmetric)
//! ```

use std::fmt;
use std::io;
use std::mem;

use super::error::{Error, Result};
use super::ethtool::{DriverByIndex, Ethtool, Request};

// linux/ethtool.h; not in libc.
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;
const INDIRECTION_NO_CHANGE: u32 = u32::MAX;
const FUNCTION_NO_CHANGE: u8 = 0;
const TRANSFORM_NO_CHANGE: u8 = 0xff;
const RXH_IP_SRC: u64 = 1 << 4;
const RXH_IP_DST: u64 = 1 << 5;
const RXH_L4_SRC: u64 = 1 << 6;
const RXH_L4_DST: u64 = 1 << 7;
/// Kinds of flows whose fields are looked at, by the names of ethtool(8).
const FLOWS: [(&str, u32); 4] = [("tcp4", 0x01), ("udp4", 0x02), ("tcp6", 0x05), ("udp6", 0x06)];

/// Longest key, in bytes: NETDEV_RSS_KEY_LEN of current kernels is 256.
const MAX_KEY_BYTES: usize = 1024;

/// `struct ethtool_rxfh` with room for a key and no indirection table, which is not asked for.
#[repr(C)]
struct FlowHash {
    command: u32,
    context: u32,
    indirection_entries: u32,
    key_bytes: u32,
    function: u8,
    transform: u8,
    reserved: [u8; 2],
    reserved_too: u32,
    key: [u8; MAX_KEY_BYTES],
}
const _: () = assert!(mem::offset_of!(FlowHash, indirection_entries) == 8);
const _: () =
    assert!(mem::offset_of!(FlowHash, key_bytes) == 12 && mem::offset_of!(FlowHash, function) == 16);
const _: () = assert!(mem::offset_of!(FlowHash, transform) == 17 && mem::offset_of!(FlowHash, key) == 24);

/// The part of `struct ethtool_rxnfc` that ETHTOOL_GRXFH uses.
#[repr(C)]
struct FlowFields {
    command: u32,
    flow: u32,
    fields: u64,
}
const _: () = assert!(size_of::<FlowFields>() == 16);

// SAFETY: as the trait demands; the kernel copies 24 bytes, no indirection table since none is asked for, and
// as many bytes of key as are asked for, which is at most `MAX_KEY_BYTES` (see `read` and `write`).
unsafe impl Request for FlowHash {}
// SAFETY: as the trait demands; the kernel copies 16 bytes for ETHTOOL_GRXFH without a context.
unsafe impl Request for FlowFields {}

/// The function that makes a number of a packet's addresses and ports (`ETH_RSS_HASH_…`, a bit each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFunction(pub u8);

impl HashFunction {
    /// Toeplitz, with a key.
    pub const TOEPLITZ: Self = Self(1 << 0);
    /// All bytes, by exclusive or.
    pub const XOR: Self = Self(1 << 1);
}

/// The name of ethtool(8).
impl fmt::Display for HashFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => formatter.write_str("toeplitz"),
            2 => formatter.write_str("xor"),
            4 => formatter.write_str("crc32"),
            other => write!(formatter, "{other:#x}"),
        }
    }
}

/// What is done to addresses and ports before (`RXH_XFRM_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTransform(pub u8);

impl HashTransform {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Source and destination are joined by exclusive or, twice: the same for both directions. Linux 6.8.
    pub const SYMMETRIC_XOR: Self = Self(1 << 0);
    /// By exclusive or, and by or. Linux 6.15.
    pub const SYMMETRIC_OR_XOR: Self = Self(1 << 1);
}

/// The name of ethtool(8).
impl fmt::Display for HashTransform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => formatter.write_str("none"),
            Self::SYMMETRIC_XOR => formatter.write_str("symmetric-xor"),
            Self::SYMMETRIC_OR_XOR => formatter.write_str("symmetric-or-xor"),
            Self(other) => write!(formatter, "{other:#x}"),
        }
    }
}

/// How a NIC hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssHash {
    /// The function.
    pub function: HashFunction,
    /// What comes before it; always [`HashTransform::NONE`] before Linux 6.8.
    pub transform: HashTransform,
    /// The key; empty if the driver has none.
    pub key: Vec<u8>,
}

/// Reads and sets how an interface of the network namespace it was opened in hashes, whichever thread does so
/// later.
#[derive(Debug)]
pub struct RssReader(DriverByIndex);

impl RssReader {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::System`] if they cannot be opened.
    pub fn open(ifindex: u32) -> Result<Self> {
        DriverByIndex::open(ifindex).map(Self)
    }

    /// How it hashes now.
    ///
    /// # Errors
    /// [`Error::System`] with `EOPNOTSUPP` if the driver has no RSS or does not report it,
    /// [`Error::NoSuchIndex`].
    pub fn get(&mut self) -> Result<RssHash> {
        let name = self.0.name()?;
        read(&self.0.ethtool, &name)
            .map_err(|source| Error::system(format!("asking {name} how it chooses receive queues"), source))
    }

    /// Makes it hash as `wanted`; `before` is how it hashes now. Sets only what differs.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without CAP_NET_ADMIN, [`Error::System`] if the driver refuses,
    /// [`Error::NoSuchIndex`].
    pub fn set(&mut self, before: &RssHash, wanted: &RssHash) -> Result<()> {
        let name = self.0.name()?;
        let action = || format!("changing how {name} chooses receive queues");
        write(&self.0.ethtool, &name, before, wanted)
            .map_err(|source| Error::refused(action(), "CAP_NET_ADMIN", source))
    }

    /// The kinds of flows, by the names of ethtool(8), whose directions are hashed by different fields: by
    /// the source and not the destination, for instance. Leaves out kinds that the driver does not report.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`].
    pub fn lopsided_flows(&mut self) -> Result<Vec<&'static str>> {
        self.flows_where(is_lopsided)
    }

    /// The kinds of flows, by the names of ethtool(8), that are hashed by their addresses and not by their
    /// ports. Leaves out kinds that the driver does not report.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`].
    pub fn flows_without_ports(&mut self) -> Result<Vec<&'static str>> {
        self.flows_where(|fields| fields & (RXH_L4_SRC | RXH_L4_DST) == 0)
    }

    fn flows_where(&mut self, holds: impl Fn(u64) -> bool) -> Result<Vec<&'static str>> {
        let name = self.0.name()?;
        let chosen = |&(_, flow): &(&str, u32)| {
            let mut request = FlowFields::new(ETHTOOL_GRXFH);
            request.flow = flow;
            self.0.ethtool.request(&name, &mut request).is_ok_and(|()| holds(request.fields))
        };
        Ok(FLOWS.iter().filter(|flow| chosen(flow)).map(|(name, _)| *name).collect())
    }
}

fn is_lopsided(fields: u64) -> bool {
    let one_of = |a, b| (fields & a != 0) != (fields & b != 0);
    one_of(RXH_IP_SRC, RXH_IP_DST) || one_of(RXH_L4_SRC, RXH_L4_DST)
}

fn read(ethtool: &Ethtool, interface: &str) -> io::Result<RssHash> {
    // The first answer has the length of the key, which the second question has to repeat.
    let mut lengths = FlowHash::new(ETHTOOL_GRSSH);
    ethtool.request(interface, &mut lengths)?;
    let key_bytes = lengths.key_bytes as usize;
    if key_bytes > MAX_KEY_BYTES {
        return Err(io::Error::other(format!("its key of {key_bytes} bytes is longer than any known")));
    }
    let mut answer = FlowHash::new(ETHTOOL_GRSSH);
    answer.key_bytes = lengths.key_bytes;
    if key_bytes > 0 {
        ethtool.request(interface, &mut answer)?;
    } else {
        answer = lengths;
    }
    Ok(RssHash {
        function: HashFunction(answer.function),
        transform: HashTransform(answer.transform),
        key: answer.key[..key_bytes].to_vec(),
    })
}

fn write(ethtool: &Ethtool, interface: &str, before: &RssHash, wanted: &RssHash) -> io::Result<()> {
    match change(before, wanted)? {
        Some(mut request) => ethtool.request(interface, &mut request),
        None => Ok(()),
    }
}

/// The request for what differs; `None` if nothing does.
fn change(before: &RssHash, wanted: &RssHash) -> io::Result<Option<FlowHash>> {
    if before == wanted {
        return Ok(None);
    }
    let mut request = FlowHash::new(ETHTOOL_SRSSH);
    request.indirection_entries = INDIRECTION_NO_CHANGE;
    request.function =
        if wanted.function == before.function { FUNCTION_NO_CHANGE } else { wanted.function.0 };
    // Kernels without transforms require a zero here; to others it means that there is none, as now.
    let keeps_one = wanted.transform == before.transform && wanted.transform != HashTransform::NONE;
    request.transform = if keeps_one { TRANSFORM_NO_CHANGE } else { wanted.transform.0 };
    if wanted.key != before.key {
        let room = request.key.get_mut(..wanted.key.len());
        let room = room.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        room.copy_from_slice(&wanted.key);
        request.key_bytes = wanted.key.len() as u32;
    }
    Ok(Some(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(function: HashFunction, transform: HashTransform, key: &[u8]) -> RssHash {
        RssHash { function, transform, key: key.to_vec() }
    }

    #[test]
    fn only_differences_are_set() {
        let before = hash(HashFunction::TOEPLITZ, HashTransform::NONE, &[1, 2, 3]);
        assert!(change(&before, &before).unwrap().is_none());

        let key = RssHash { key: vec![7; 3], ..before.clone() };
        let request = change(&before, &key).unwrap().unwrap();
        assert_eq!((request.command, request.context), (0x47, 0));
        assert_eq!((request.indirection_entries, request.key_bytes), (u32::MAX, 3));
        assert_eq!((request.function, request.transform, &request.key[..4]), (0, 0, &[7, 7, 7, 0][..]));

        let transform = RssHash { transform: HashTransform::SYMMETRIC_XOR, ..before.clone() };
        let request = change(&before, &transform).unwrap().unwrap();
        assert_eq!((request.function, request.transform, request.key_bytes), (0, 1, 0));
        let request = change(&transform, &before).unwrap().unwrap();
        assert_eq!((request.function, request.transform, request.key_bytes), (0, 0, 0));

        let function = RssHash { function: HashFunction::XOR, ..transform.clone() };
        let request = change(&transform, &function).unwrap().unwrap();
        assert_eq!((request.function, request.transform, request.key_bytes), (2, 0xff, 0));
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        let before = hash(HashFunction::TOEPLITZ, HashTransform::NONE, &[1]);
        assert!(change(&before, &RssHash { key: vec![1; 2000], ..before.clone() }).is_err());
    }

    #[test]
    fn fields_of_one_end_only_are_lopsided() {
        for (fields, lopsided) in
            [(0x00, false), (0x30, false), (0xf0, false), (0x10, true), (0xb0, true), (0x70, true)]
        {
            assert_eq!(is_lopsided(fields), lopsided, "{fields:#x}");
        }
    }

    #[test]
    fn the_loopback_interface_has_no_rss() {
        let mut reader = RssReader::open(1).unwrap();
        let error = reader.get().unwrap_err();
        assert!(
            matches!(&error, Error::System { source, .. } if source.raw_os_error() == Some(libc::EOPNOTSUPP)),
            "{error}"
        );
        assert_eq!(reader.lopsided_flows().unwrap(), Vec::<&str>::new());
        assert!(matches!(RssReader::open(999_999).unwrap().get(), Err(Error::NoSuchIndex(_))));
    }
}
