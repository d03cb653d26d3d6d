//! Protocol numbers of IP that matter here, from
//! [IANA](https://www.iana.org/assignments/protocol-numbers/protocol-numbers.xhtml).

pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const AUTHENTICATION: u8 = 51;
pub(crate) const ICMP_V6: u8 = 58;
pub(crate) const NOTHING: u8 = 59;
pub(crate) const DESTINATION: u8 = 60;
pub(crate) const MOBILITY: u8 = 135;
pub(crate) const HIP: u8 = 139;
pub(crate) const SHIM6: u8 = 140;
