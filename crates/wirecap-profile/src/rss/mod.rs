//! Receive-side scaling: the queue that a NIC chooses for a packet.
//!
//! ```text
//!   packet ─► fields: addresses, perhaps ports ─► Toeplitz by the key ─► low bits ─► indirection table ─► queue
//!         └── not IP: no hash, queue 0
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | which bytes are hashed | [`HashFields`] |
//! | the hash | [`Toeplitz`] |
//! | the key | [`RssKey`] |
//! | the table | [`IndirectionTable`] |
//!
//! Not here: flow directors, RSS contexts, and tunnels, whose outer headers are hashed.

mod fields;
mod key;
mod table;
mod toeplitz;

use wirecap_headers::{IpLayout, Layout};

use self::fields::HashInput;
pub use self::{
    fields::HashFields,
    key::{KeyError, RssKey},
    table::{IndirectionTable, TableError},
    toeplitz::Toeplitz,
};

/// What packets begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstHeader {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
}

impl FirstHeader {
    /// Of packets with this link type of pcap; `None` for those that no NIC with RSS receives.
    pub fn of_link_type(link_type: u16) -> Option<Self> {
        match link_type {
            1 => Some(Self::Ethernet),
            // LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6, and DLT_RAW of two systems.
            101 | 228 | 229 | 12 | 14 => Some(Self::Ip),
            _ => None,
        }
    }
}

/// The queue of packets without a hash: NICs do not look them up in the table.
pub const QUEUE_WITHOUT_HASH: usize = 0;

/// The settings of a NIC that choose the queue of a packet.
///
/// ```
/// use wirecap_profile::rss::{FirstHeader, HashFields, IndirectionTable, Rss, RssKey};
///
/// let table = IndirectionTable::equal(4).unwrap();
/// let rss = Rss::new(&RssKey::default(), table, HashFields::Ports);
/// let packet = [
///     0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6,
/// ];
/// assert_eq!(rss.hash(&packet, FirstHeader::Ip), Some(0x51cc_c178));
/// assert_eq!(rss.queue(&packet, FirstHeader::Ip), 0);
/// ```
#[derive(Debug, Clone)]
pub struct Rss {
    hash: Toeplitz,
    table: IndirectionTable,
    fields: HashFields,
}

impl Rss {
    /// With this key, this table, and these fields.
    pub fn new(key: &RssKey, table: IndirectionTable, fields: HashFields) -> Self {
        Self { hash: Toeplitz::new(key), table, fields }
    }

    /// The number of queues: those of the table, and all before the last of them.
    pub fn queues(&self) -> usize {
        self.table.queues()
    }

    /// The hash of a packet; `None` if it is not IP, or its IP header is incomplete.
    pub fn hash(&self, packet: &[u8], first: FirstHeader) -> Option<u32> {
        let ip = match first {
            FirstHeader::Ethernet => *Layout::of(packet)?.ip()?,
            FirstHeader::Ip => IpLayout::of(packet)?,
        };
        Some(self.hash.of(HashInput::of(packet, &ip, self.fields)?.bytes()))
    }

    /// The queue that the hash of a packet chooses; `None` without a hash.
    pub fn hashed_queue(&self, packet: &[u8], first: FirstHeader) -> Option<usize> {
        self.hash(packet, first).map(|hash| self.table.queue(hash))
    }

    /// The queue of a packet: [`QUEUE_WITHOUT_HASH`] without a hash.
    pub fn queue(&self, packet: &[u8], first: FirstHeader) -> usize {
        self.hashed_queue(packet, first).unwrap_or(QUEUE_WITHOUT_HASH)
    }
}

#[cfg(test)]
mod tests;
