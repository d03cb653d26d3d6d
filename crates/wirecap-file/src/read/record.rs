//! What is read: the section, its interfaces, their packets and statistics.

use std::borrow::Cow;

use super::time::Resolution;
use crate::pcapng::Counters;

/// One record of a capture file. A packet borrows the reader's buffer until the next call; the caller owns
/// all other records.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, Reader, Record, pcap};
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
/// let mut reader = Reader::new(file.as_slice())?;
/// assert!(matches!(reader.next()?, Some(Record::Interface(interface)) if interface.link_type == 1));
/// assert!(reader.next()?.is_none());
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A section starts (pcapng only).
    Section(Section),
    /// An interface is described; a pcap file starts with the one it has.
    Interface(Interface),
    /// A packet.
    Packet(Packet<'a>),
    /// The counters of an interface (pcapng only).
    Statistics(Statistics),
    /// A block of this other type, which is not decoded (pcapng only): name resolution, secrets, custom
    /// blocks.
    Other(u32),
}

/// What wrote a section, and on what. Absent: the file does not say.
///
/// # Example
///
/// ```
/// let section = wirecap_file::Section { os: Some("Linux 6.12".into()), ..Default::default() };
/// assert_eq!(section.application, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// The machine (option `shb_hardware`).
    pub hardware: Option<String>,
    /// The operating system (option `shb_os`).
    pub os: Option<String>,
    /// The application (option `shb_userappl`).
    pub application: Option<String>,
    /// Comments on the section.
    pub comments: Vec<String>,
}

/// An interface packets were captured on, as its block describes it. Absent: the file does not say.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, Reader, Record, pcap};
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 96);
/// let mut reader = Reader::new(file.as_slice())?;
/// let Some(Record::Interface(interface)) = reader.next()? else { unreachable!() };
/// assert_eq!((interface.link_type, interface.snaplen, &interface.name), (1, 96, &None));
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number in the *file*: interfaces are numbered through, though in the file each section starts
    /// over. It is the index into [`Reader::interfaces`](crate::Reader::interfaces).
    pub id: u32,
    /// The system's name of it (option `if_name`).
    pub name: Option<String>,
    /// What it is to people (option `if_description`).
    pub description: Option<String>,
    /// What its packets start with, from the list of link types.
    pub link_type: u16,
    /// Snapshot length in bytes; 0 says that nothing is cut.
    pub snaplen: u32,
    /// The unit of its timestamps in the file. They are delivered in nanoseconds.
    pub resolution: Resolution,
    /// What its timestamps in the file are counted from, in seconds since the Unix epoch (option
    /// `if_tsoffset`).
    pub offset_s: i64,
    /// Speed in bits per second (option `if_speed`).
    pub speed_bps: Option<u64>,
    /// The capture filter as text (option `if_filter`).
    pub filter: Option<String>,
    /// The NIC (option `if_hardware`).
    pub hardware: Option<String>,
    /// The hardware address (option `if_MACaddr`).
    pub mac: Option<[u8; 6]>,
    /// The operating system of the machine it is in (option `if_os`).
    pub os: Option<String>,
    /// Comments on the interface.
    pub comments: Vec<String>,
}

/// A packet, its bytes still in the reader's buffer.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, Reader, Record, pcap};
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
/// pcap::packet(&mut file, &PacketHeader { original_len: 60, ..Default::default() }, 2, [b"abc".as_slice()]);
/// let mut reader = Reader::new(file.as_slice())?;
/// let mut kept = Vec::new();
/// while let Some(record) = reader.next()? {
///     if let Record::Packet(packet) = record {
///         kept.push((packet.data.to_vec(), packet.original_len));
///     }
/// }
/// assert_eq!(kept, [(b"ab".to_vec(), 60)]);
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The number of its interface in the file, see [`Interface::id`].
    pub interface: u32,
    /// What its bytes start with: the link type of its interface.
    pub link_type: u16,
    /// When it was received, in nanoseconds since the Unix epoch. `None` if the file does not say (Simple
    /// Packet Block), or says a time before 1970 or after 2554.
    pub timestamp_ns: Option<u64>,
    /// Length on the wire, in bytes, as the file has it: damaged or fuzzed files have it below `data.len()`.
    pub original_len: u32,
    /// The bytes that were kept.
    pub data: &'a [u8],
    /// The receive queue it came in on (option `epb_queue`).
    pub queue: Option<u32>,
    /// The number that names it (option `epb_packetid`).
    pub packet_id: Option<u64>,
    /// Whether it was sent, not received, if the file says so (option `epb_flags`).
    pub outbound: Option<bool>,
    /// Comments on it.
    pub comments: Vec<Cow<'a, str>>,
}

/// The counters of an interface. Absent: the file does not say.
///
/// # Example
///
/// ```
/// use wirecap_file::{Reader, Record};
/// use wirecap_file::pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo};
///
/// let mut file = Vec::new();
/// pcapng::section_header(&mut file, &SectionInfo::default());
/// pcapng::interface(&mut file, &InterfaceInfo::default());
/// let counters = Counters { received: Some(10), delivered_to_user: Some(9), ..Default::default() };
/// pcapng::interface_statistics(&mut file, &InterfaceStatistics { counters, ..Default::default() });
/// let mut reader = Reader::new(file.as_slice())?;
/// while let Some(record) = reader.next()? {
///     if let Record::Statistics(statistics) = record {
///         assert_eq!(statistics.counters, counters);
///     }
/// }
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of the interface in the file, see [`Interface::id`].
    pub interface: u32,
    /// When the counters were read, in nanoseconds since the Unix epoch; `None` if before 1970 or after 2554.
    pub timestamp_ns: Option<u64>,
    /// When the capture started, in nanoseconds since the Unix epoch.
    pub start_ns: Option<u64>,
    /// When the capture ended, in nanoseconds since the Unix epoch.
    pub end_ns: Option<u64>,
    /// What was counted.
    pub counters: Counters,
    /// Comments on the counters.
    pub comments: Vec<String>,
}
