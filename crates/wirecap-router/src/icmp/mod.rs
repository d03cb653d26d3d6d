//! ICMP errors: how a router answers the sender of a packet that goes no further.
//!
//! ```text
//!   frame ── Offender::of ──► may its sender get an error?                                          offender.rs
//!               │ answer
//!   ├ MACs, back ─┼ its VLAN tags ─┼ IP, to its sender ─┼ ICMP: type, code, MTU ─┼ the packet, as much as fits ─┤
//! ```
//!
//! Rule: no error is made about an error, nor about what went to many or came from no single host. Otherwise
//! errors would breed errors, and a packet would be answered by many (RFC 1812, section 4.3.2.7; RFC 4443,
//! section 2.4).

mod offender;

use std::net::IpAddr;

use wirecap_headers::{
    IpVersion, SourceMac,
    checksum::{self, FilledChecksums},
};

pub use self::offender::Offender;

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpProblem {
    /// Its TTL or hop limit was at its end.
    Expired,
    /// There is no route to where it goes.
    NoRoute,
    /// It comes from an address that means something on its link only. Of IPv6 alone.
    BeyondScope,
    /// Its next hop does not answer.
    HostUnreachable,
    /// It has a strict source route that does not name the router. IPv4 only.
    StrictSourceRoute,
    /// It is longer than the next link takes. Of IPv4 an error only if it may not be fragmented.
    TooLong {
        /// Longest packet that the next link takes, in bytes from the IP header on.
        mtu: u32,
    },
}

/// Whose addresses an ICMP error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpSource {
    /// The Ethernet address of the port that it is sent by.
    pub mac: SourceMac,
    /// An IP address of the router.
    pub address: IpAddr,
}

/// Longest IP packet that an ICMP error is: all of IPv6 takes it (RFC 4443, section 2.4). One of IPv4 has 576
/// bytes at most (RFC 1812, section 4.3.2.3).
pub const MAX_ICMP_ERROR_LEN: usize = MAX_V6_LEN;

/// Protocol numbers (IANA).
const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
const MAX_V4_LEN: usize = 576;
const MAX_V6_LEN: usize = 1280;
const V4_HEADER_LEN: usize = 20;
const V6_HEADER_LEN: usize = 40;
/// Offset of the destination address.
const V4_DESTINATION: u32 = 16;
const ICMP_HEADER_LEN: usize = 8;
/// What every link of IPv6 takes (RFC 8200, section 5): no sender goes below it, so none is given less.
const V6_MIN_MTU: u32 = 1280;
/// Internetwork control (RFC 1812, section 4.3.2.5).
const V4_PRECEDENCE: u8 = 0xc0;
/// The recommended default (RFC 1700).
const TTL: u8 = 64;

/// The header of an ICMP error, except its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IcmpHeader {
    kind: u8,
    code: u8,
    /// The second word of the header: the MTU, a pointer into the packet in its first byte, or nothing.
    mtu: u32,
}

impl IcmpHeader {
    fn about(problem: IcmpProblem, offender: &Offender<'_>) -> Option<Self> {
        match offender.version() {
            IpVersion::V4 => Self::in_v4(problem, offender),
            IpVersion::V6 => Self::in_v6(problem, offender),
        }
    }

    /// RFC 792; RFC 1812, section 5.2.7.1; RFC 1191, section 4. `None` if IPv4 has no such error about this
    /// packet.
    fn in_v4(problem: IcmpProblem, offender: &Offender<'_>) -> Option<Self> {
        let (kind, code, mtu) = match problem {
            IcmpProblem::Expired => (11, 0, 0),
            IcmpProblem::NoRoute => (3, 0, 0),
            IcmpProblem::HostUnreachable => (3, 1, 0),
            // At the destination address (RFC 1812, section 5.2.2).
            IcmpProblem::StrictSourceRoute => (12, 0, V4_DESTINATION << 24),
            IcmpProblem::TooLong { mtu } if offender.is_longer_than(mtu) && !offender.may_be_fragmented() => {
                (3, 4, mtu)
            }
            IcmpProblem::TooLong { .. } | IcmpProblem::BeyondScope => return None,
        };
        Some(Self { kind, code, mtu })
    }

    /// RFC 4443, section 3. `None` if IPv6 has no such error about this packet.
    fn in_v6(problem: IcmpProblem, offender: &Offender<'_>) -> Option<Self> {
        let (kind, code, mtu) = match problem {
            IcmpProblem::Expired => (3, 0, 0),
            IcmpProblem::NoRoute => (1, 0, 0),
            IcmpProblem::BeyondScope => (1, 2, 0),
            IcmpProblem::HostUnreachable => (1, 3, 0),
            IcmpProblem::StrictSourceRoute => return None,
            IcmpProblem::TooLong { mtu } => (2, 0, mtu.max(V6_MIN_MTU)),
        };
        (mtu == 0 || offender.is_longer_than(mtu)).then_some(Self { kind, code, mtu })
    }

    fn bytes(self) -> [u8; ICMP_HEADER_LEN] {
        let [a, b, c, d] = self.mtu.to_be_bytes();
        // The checksum is filled in when all it covers is there.
        [self.kind, self.code, 0, 0, a, b, c, d]
    }
}

impl Offender<'_> {
    /// Whether there is such an error about this packet. No error is sent about a packet that is not too
    /// long, or of IPv4 and could be cut into fragments.
    pub fn has_error(&self, problem: IcmpProblem) -> bool {
        IcmpHeader::about(problem, self).is_some()
    }

    /// Writes the frame that answers the sender, in place of what `into` holds: to the Ethernet and IP
    /// address that the packet came from, with its VLAN tags, from the given addresses. Of the packet, as
    /// much is in it as fits. Nothing is allocated if there is room for [`MAX_ICMP_ERROR_LEN`] bytes behind
    /// an Ethernet header and tags.
    ///
    /// `false`, and nothing useful in `into`, if there is no such error about this packet, or `from` is of
    /// the other version of IP.
    ///
    /// # Example
    ///
    /// ```
    /// use wirecap_headers::checksum::{self, Verdict};
    /// use wirecap_router::{IcmpProblem, IcmpSource, Offender};
    ///
    /// // From 192.0.2.1 to 192.0.2.2, with a TTL of 1.
    /// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    /// frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 1, 17, 0x35, 0xd6, 192, 0, 2, 1, 192, 0, 2, 2]);
    ///
    /// let router = IcmpSource { mac: "02:00:00:00:00:02".parse()?, address: [192, 0, 2, 254].into() };
    /// let mut error = Vec::new();
    /// let offender = Offender::of(&frame, frame.len()).unwrap();
    /// assert!(offender.answer(IcmpProblem::Expired, router, &mut error));
    ///
    /// assert_eq!(error[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    /// assert_eq!(error[34..36], [11, 0]); // time exceeded, in transit
    /// assert_eq!(error[42..], frame[14..]);
    /// assert_eq!(checksum::verify(&error[14..]), Verdict::Right);
    /// // It is not answered itself.
    /// assert!(Offender::of(&error, error.len()).is_none());
    /// # Ok::<(), wirecap_headers::Error>(())
    /// ```
    #[must_use]
    pub fn answer(&self, problem: IcmpProblem, from: IcmpSource, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some(header) = IcmpHeader::about(problem, self) else { return false };
        into.extend(self.sender_mac().0);
        into.extend(from.mac.address().0);
        into.extend(self.tags_and_type());
        let start = into.len();
        let quoted = match (from.address, self.sender()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let quoted = self.quoted(MAX_V4_LEN - V4_HEADER_LEN - ICMP_HEADER_LEN);
                let [high, low] = length(V4_HEADER_LEN + ICMP_HEADER_LEN + quoted.len());
                // Not to be fragmented, so that its identification means nothing (RFC 6864, section 4).
                into.extend([0x45, V4_PRECEDENCE, high, low, 0, 0, 0x40, 0, TTL, ICMP_V4, 0, 0]);
                into.extend([from, to].map(|address| address.octets()).as_flattened());
                quoted
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let quoted = self.quoted(MAX_V6_LEN - V6_HEADER_LEN - ICMP_HEADER_LEN);
                let [high, low] = length(ICMP_HEADER_LEN + quoted.len());
                into.extend([0x60, 0, 0, 0, high, low, ICMP_V6, TTL]);
                into.extend([from, to].map(|address| address.octets()).as_flattened());
                quoted
            }
            _ => return false,
        };
        into.extend(header.bytes());
        into.extend(quoted);
        checksum::fill(&mut into[start..]) == FilledChecksums::All
    }
}

/// A length as it stands in a header; an error has [`MAX_ICMP_ERROR_LEN`] bytes at most.
fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

#[cfg(test)]
mod tests;
