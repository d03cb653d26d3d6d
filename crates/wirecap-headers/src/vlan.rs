//! VLANs of one side made into those of the other.

use std::{fmt, str::FromStr};

use crate::{
    Error, Frame, RewriteError, VlanTag,
    bytes::{array, set_word, word},
    layout::{TAG_LEN, TAG_OFFSET, is_tag},
};

/// The side a packet goes to, of the two that are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// From B to A.
    A,
    /// From A to B.
    B,
}

impl Side {
    /// The other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Which VLAN of side A is which of side B, by the outer tag.
///
/// On the command line: pairs with commas, as `10=20,none=30,40=none`. `10=20` says that packets that have
/// VLAN 10 on A's side have VLAN 20 on B's; `none` is no tag. A VLAN of either side stands in one pair at
/// most. Packets with a VLAN that is in no pair stay as they are, and so may come to be in the same VLAN as
/// others that are; of a packet with several tags, one that is taken away bares the next.
///
/// Priority and drop eligibility are kept where there is a tag before and after, and so is its type; a new
/// tag has type 0x8100 and priority 0. A tag of VLAN 0, which carries a priority only (IEEE 802.1Q, section
/// 6.9), counts as `none`.
///
/// # Example
///
/// ```
/// use wirecap_headers::{Frame, Side, VecFrame, VlanMap};
///
/// let map: VlanMap = "10=20,none=30".parse()?;
/// let untagged = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 7];
/// let mut frame = VecFrame::new(&untagged, 4);
/// map.apply(Side::B, &mut frame).unwrap();
/// assert_eq!(frame.data()[12..], [0x81, 0x00, 0, 30, 0x88, 0xb5, 7]);
/// map.apply(Side::A, &mut frame).unwrap();
/// assert_eq!(frame.data(), untagged);
/// # Ok::<(), wirecap_headers::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanMap {
    pairs: Vec<Pair>,
    /// What a VLAN of the other side becomes on this one; empty without pairs.
    to_a: Vec<Option<Vlan>>,
    to_b: Vec<Option<Vlan>>,
}

/// The VLAN of a packet; 0 means untagged.
type Vlan = u16;

const NONE: Vlan = 0;
const VLANS: usize = 4096;
/// 4095 is reserved (IEEE 802.1Q, table 9-2).
const MAX_VLAN: Vlan = 4094;

/// One VLAN on its two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    a: Vlan,
    b: Vlan,
}

impl VlanMap {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Makes the VLAN of a frame that of the side it goes to. At most the outer tag is changed, written or
    /// taken away. A frame that ends before its EtherType stays as it is.
    ///
    /// # Errors
    ///
    /// [`RewriteError::NoRoom`], and the frame as it was, if it needs a tag and there is no room for one at
    /// its front.
    pub fn apply(&self, toward: Side, frame: &mut impl Frame) -> Result<(), RewriteError> {
        if self.is_empty() {
            return Ok(());
        }
        let tag = VlanTag::at(frame.data(), TAG_OFFSET);
        let ether_type = word(frame.data(), TAG_OFFSET);
        if tag.is_none() && ether_type.is_none_or(is_tag) {
            // Cut in its tag or right behind it. Without that tag it would be no Ethernet frame.
            return Ok(());
        }
        let from = tag.map_or(NONE, VlanTag::id);
        let becomes = match toward {
            Side::A => &self.to_a,
            Side::B => &self.to_b,
        };
        match (tag, becomes.get(usize::from(from)).copied().flatten()) {
            (_, None) | (None, Some(NONE)) => Ok(()),
            (None, Some(to)) => push(frame, to),
            (Some(_), Some(NONE)) => {
                pop(frame);
                Ok(())
            }
            (Some(tag), Some(to)) => {
                let _ = set_word(frame.data_mut(), TAG_OFFSET + 2, tag.tci_with_id(to));
                Ok(())
            }
        }
    }

    /// Adds a pair, unless one of its VLANs is in another.
    fn add(&mut self, pair: Pair) -> Result<(), Error> {
        for (side, first) in [
            ("A", self.pairs.iter().find(|other| other.a == pair.a)),
            ("B", self.pairs.iter().find(|other| other.b == pair.b)),
        ] {
            if let Some(first) = first {
                let vlan = if side == "A" { pair.a } else { pair.b };
                let vlan = Name(vlan).to_string();
                return Err(Error::VlanTwice {
                    given: pair.to_string(),
                    first: first.to_string(),
                    side,
                    vlan,
                });
            }
        }
        self.to_a.resize(VLANS, None);
        self.to_b.resize(VLANS, None);
        self.to_a[usize::from(pair.b)] = Some(pair.a);
        self.to_b[usize::from(pair.a)] = Some(pair.b);
        self.pairs.push(pair);
        Ok(())
    }
}

/// A tag of VLAN `id` between the addresses and what followed them.
fn push(frame: &mut impl Frame, id: Vlan) -> Result<(), RewriteError> {
    let Some(addresses) = array::<TAG_OFFSET>(frame.data(), 0) else { return Ok(()) };
    if !frame.prepend(TAG_LEN) {
        return Err(RewriteError::NoRoom);
    }
    let [high, low] = id.to_be_bytes();
    if let Some((front, rest)) = frame.data_mut().split_first_chunk_mut() {
        *front = addresses;
        if let Some(tag) = rest.first_chunk_mut() {
            *tag = [0x81, 0x00, high, low];
        }
    }
    Ok(())
}

/// The addresses in the place of the tag that followed them.
fn pop(frame: &mut impl Frame) {
    let Some(addresses) = array::<TAG_OFFSET>(frame.data(), 0) else { return };
    if frame.trim_front(TAG_LEN) {
        if let Some(front) = frame.data_mut().first_chunk_mut() {
            *front = addresses;
        }
    }
}

impl FromStr for VlanMap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut map = Self::default();
        text.split(',').try_for_each(|pair| map.add(pair.trim().parse()?))?;
        Ok(map)
    }
}

impl FromStr for Pair {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::VlanPair(text.to_owned());
        let (a, b) = text.split_once('=').ok_or_else(wrong)?;
        let pair = Self { a: vlan(a).ok_or_else(wrong)?, b: vlan(b).ok_or_else(wrong)? };
        if pair.a == NONE && pair.b == NONE { Err(wrong()) } else { Ok(pair) }
    }
}

fn vlan(text: &str) -> Option<Vlan> {
    if text == "none" {
        return Some(NONE);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.filter(|number| (1..=MAX_VLAN).contains(number))
}

impl fmt::Display for VlanMap {
    /// As it was given; nothing for a map that is empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pair) in self.pairs.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{pair}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", Name(self.a), Name(self.b))
    }
}

/// A VLAN as the user writes it.
struct Name(Vlan);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == NONE { f.write_str("none") } else { self.0.fmt(f) }
    }
}

#[cfg(test)]
mod tests;
