//! Where the headers of a frame are.
//!
//! ```text
//!   0            12                                14 + 4·tags
//!   ├ MAC, MAC ──┼ type, TCI ┼ type, TCI ┼ … type ──┼ IP header …
//!                └ tag 0, the outer one ┘             └ IpLayout, layout/ip.rs
//! ```

mod ip;
pub(crate) mod protocol;

pub use ip::{IpLayout, IpVersion, MAX_EXTENSIONS};

use crate::bytes::word;

/// Bytes of an Ethernet header without VLAN tags.
pub const ETHERNET_LEN: usize = 14;

/// Most VLAN tags that are looked behind. What is behind more is not found.
pub const MAX_VLAN_TAGS: usize = 4;

/// Offset of the outer tag, or of the EtherType.
pub(crate) const TAG_OFFSET: usize = 12;
pub(crate) const TAG_LEN: usize = 4;

/// Where the headers of an Ethernet frame are.
///
/// It is of the bytes it was made from; with others, what is read is theirs at the same place, or nothing.
///
/// # Example
///
/// ```
/// use wirecap_headers::{IpVersion, Layout};
///
/// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
/// frame.extend([0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x60, 0x0a]); // VLAN 100, in it VLAN 10
/// frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64]); // IPv6 with nothing in it
/// frame.extend([[0; 16], [1; 16]].concat());
///
/// let layout = Layout::of(&frame).unwrap();
/// assert_eq!((layout.vlan_tags(), layout.ether_type(), layout.network()), (2, 0x86dd, 22));
/// assert_eq!(layout.vlan(&frame, 1).unwrap().id(), 10);
/// let ip = layout.ip().unwrap();
/// assert_eq!((ip.version(), ip.ttl(&frame), ip.transport()), (IpVersion::V6, Some(64), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    vlan_tags: u8,
    ether_type: u16,
    ip: Option<IpLayout>,
}

impl Layout {
    /// Looks for the headers of a frame that begins with its Ethernet header. `None` if that is not there
    /// whole, 14 bytes.
    ///
    /// Behind the VLAN tags (types 0x8100, 0x88a8 and 0x9100, [`MAX_VLAN_TAGS`] at most) only IPv4 and IPv6
    /// are looked into; not MPLS, PPPoE and what IP may carry IP in.
    pub fn of(data: &[u8]) -> Option<Self> {
        let mut ether_type = word(data, TAG_OFFSET)?;
        let mut vlan_tags = 0;
        while vlan_tags < MAX_VLAN_TAGS && is_tag(ether_type) {
            // A tag that is cut does not count.
            let Some(behind) = word(data, TAG_OFFSET + (vlan_tags + 1) * TAG_LEN) else { break };
            ether_type = behind;
            vlan_tags += 1;
        }
        let ip = IpVersion::of_ether_type(ether_type)
            .and_then(|version| IpLayout::at(data, ETHERNET_LEN + vlan_tags * TAG_LEN, version));
        Some(Self { vlan_tags: vlan_tags as u8, ether_type, ip })
    }

    /// Number of VLAN tags.
    pub fn vlan_tags(&self) -> usize {
        usize::from(self.vlan_tags)
    }

    /// The VLAN tag at `depth`, 0 being the outer one. `None` if there are fewer tags.
    pub fn vlan(&self, data: &[u8], depth: usize) -> Option<VlanTag> {
        let there = depth < self.vlan_tags();
        there.then(|| VlanTag::at(data, TAG_OFFSET + depth * TAG_LEN)).flatten()
    }

    /// The EtherType behind the VLAN tags. A value below 0x600 is the length of an 802.3 frame; that of a
    /// VLAN tag says that there is one more, cut short or too deep.
    pub fn ether_type(&self) -> u16 {
        self.ether_type
    }

    /// Offset of the network header: what follows the EtherType. It may be the end of the data.
    pub fn network(&self) -> usize {
        ETHERNET_LEN + self.vlan_tags() * TAG_LEN
    }

    /// The IP header; `None` if the frame has none, or not all of it is there.
    pub fn ip(&self) -> Option<&IpLayout> {
        self.ip.as_ref()
    }
}

/// A VLAN tag (IEEE 802.1Q, section 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    tpid: u16,
    tci: u16,
}

impl VlanTag {
    /// The tag at `offset`. `None` if none begins there, or if the data ends before the EtherType behind it.
    pub(crate) fn at(data: &[u8], offset: usize) -> Option<Self> {
        let (tpid, tci) = (word(data, offset)?, word(data, offset + 2)?);
        let whole = word(data, offset + TAG_LEN).is_some();
        (is_tag(tpid) && whole).then_some(Self { tpid, tci })
    }

    /// Its type: 0x8100, 0x88a8 (802.1ad) or 0x9100 (before 802.1ad).
    pub fn tpid(self) -> u16 {
        self.tpid
    }

    /// The VLAN, 0 to 4095; 0 says that the frame belongs to none, and that only the priority counts.
    pub fn id(self) -> u16 {
        self.tci & VLAN_ID_BITS
    }

    /// The priority, 0 to 7 (PCP).
    pub fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Whether the frame may be dropped first (DEI).
    pub fn drop_eligible(self) -> bool {
        self.tci & 0x1000 != 0
    }

    /// What stands behind the type, with another VLAN.
    pub(crate) fn tci_with_id(self, id: u16) -> u16 {
        (self.tci & !VLAN_ID_BITS) | (id & VLAN_ID_BITS)
    }
}

/// The VLAN in the TCI.
const VLAN_ID_BITS: u16 = 0x0fff;

/// Whether this EtherType is that of a VLAN tag.
pub(crate) fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8 | 0x9100)
}

#[cfg(test)]
mod tests;
