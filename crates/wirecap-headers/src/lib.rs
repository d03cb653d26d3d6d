//! Headers of packets: found, changed in place, checksums kept right.
//!
//! ```text
//!   data, the first part of a packet
//!   ├ MACs ─┼ VLAN tags ─┼ type ┼ IPv4, or IPv6 and extensions ─┼ TCP, UDP, … ─┤   Layout: where they are
//!      ▲         ▲                 TTL ▲     ▲ addresses             ▲
//!   MacAddress  VlanMap            Ttl ┘     └ IpLayout              └ checksum    what changes or reads them
//!      └─────────┴──── Rewrite ────────┘
//! ```
//!
//! **The rules that hold here.** Packets are hostile: they end anywhere, and their lengths lie. No function
//! panics, whatever the bytes; what is not there whole is not found, and what is not found is not changed.
//! Nothing is allocated for a packet. No I/O. What is changed keeps the checksums that cover it right by the
//! difference alone, so that a packet that came in damaged goes out damaged, and is not made to look whole.
//!
//! # Example
//!
//! ```
//! use wirecap_headers::{Frame, Layout, Rewrite, Side, Ttl, VecFrame};
//!
//! // Ethernet, IPv4 from 192.0.2.1 to 192.0.2.2 with a TTL of 64.
//! let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
//! bytes.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xf6, 0xd5, 192, 0, 2, 1, 192, 0, 2, 2]);
//! let mut frame = VecFrame::new(&bytes, 4);
//!
//! let rewrite = Rewrite { vlans: "none=20".parse()?, ttl: Ttl::Decrement, ..Rewrite::default() };
//! rewrite.apply(Side::B, &mut frame).unwrap();
//!
//! let layout = Layout::of(frame.data()).unwrap();
//! assert_eq!(layout.vlan(frame.data(), 0).unwrap().id(), 20);
//! assert_eq!(layout.ip().unwrap().ttl(frame.data()), Some(63));
//! # Ok::<(), wirecap_headers::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
pub mod checksum;
mod error;
mod frame;
mod layout;
mod mac;
mod rewrite;
mod rewrite_error;
mod ttl;
mod vlan;

pub use error::Error;
pub use frame::{Frame, VecFrame};
pub use layout::{ETHERNET_LEN, IpLayout, IpVersion, Layout, MAX_EXTENSIONS, MAX_VLAN_TAGS, VlanTag};
pub use mac::{MacAddress, SourceMac};
pub use rewrite::Rewrite;
pub use rewrite_error::RewriteError;
pub use ttl::Ttl;
pub use vlan::{Side, VlanMap};
