//! pcap and pcapng, written and read.
//!
//! ```text
//!   worker ── pcapng::packet(&mut block, …) ──► Vec<u8> ── handed over ──► writer thread ──► file
//!                                                                                             │
//!   Record::{Section, Interface, Packet, Statistics} ◄── Reader::next ◄──── any io::Read ◄────┘
//! ```
//!
//! Writing is *encoding*: every function of [`pcap`] and [`pcapng`] appends to a `Vec<u8>` the caller owns
//! and reuses. Nothing here opens a file, reads a clock, takes a lock, or allocates other than to let that
//! `Vec` grow, so a worker may encode on the packet path and leave the I/O to another thread. Files are
//! written little-endian, with timestamps in nanoseconds since the Unix epoch.
//!
//! Reading is *streaming*: [`Reader::next`] gives one record at a time out of one reused buffer, and takes
//! files of either byte order and any timestamp resolution, also compressed ([`Compression`]). The rule that
//! holds everywhere: all that stands before the damage is delivered, then comes exactly one [`Error`] naming
//! the byte offset of the block or record that is bad. A length field is a claim; memory grows with the bytes
//! that really arrive, never with the claim. It is bounded, however long the file is.
//!
//! The formats: [pcapng](https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html) and
//! [pcap](https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html).
//!
//! # Example
//!
//! ```
//! use wirecap_file::pcapng::{self, InterfaceInfo, SectionInfo};
//! use wirecap_file::{PacketHeader, Reader, Record};
//!
//! let mut file = Vec::new();
//! pcapng::section_header(&mut file, &SectionInfo { application: Some("wirecap"), ..Default::default() });
//! pcapng::interface(&mut file, &InterfaceInfo { name: Some("eth0"), ..Default::default() });
//! let header = PacketHeader { timestamp_ns: 1_700_000_000_123_456_789, original_len: 5, ..Default::default() };
//! pcapng::packet(&mut file, &header, 0, [b"hello".as_slice()]);
//!
//! let mut reader = Reader::new(file.as_slice())?;
//! while let Some(record) = reader.next()? {
//!     if let Record::Packet(packet) = record {
//!         assert_eq!(packet.data, b"hello");
//!         assert_eq!(packet.timestamp_ns, Some(1_700_000_000_123_456_789));
//!     }
//! }
//! # Ok::<(), wirecap_file::Error>(())
//! ```
#![forbid(unsafe_code)]

mod compression;
mod error;
mod extension;
mod format;
mod limits;
mod packet_header;
pub mod pcap;
pub mod pcapng;
mod read;

pub use compression::Compression;
pub use error::{Damage, Error};
pub use format::Format;
pub use limits::{MAX_BLOCK_LEN, MAX_COMMENTS, MAX_INTERFACES};
pub use packet_header::{MAX_CAPTURED_LEN, PacketHeader};
pub use read::{
    Interface, KnownInterface, MAX_NAME_LEN, Packet, Reader, Record, Resolution, Section, Statistics,
};

/// The link type (`LINKTYPE_ETHERNET`) of an Ethernet interface, from the
/// [list of link types](https://www.tcpdump.org/linktypes.html).
pub const LINK_TYPE_ETHERNET: u16 = 1;
