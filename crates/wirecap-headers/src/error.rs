//! Why a value is refused, and what to write instead.

/// Why a value is refused.
///
/// # Example
///
/// ```
/// let error = "10=20,10=30".parse::<wirecap_headers::VlanMap>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "VLAN 10 of side A is in 10=20 and in 10=30: packets would not know which; name it once"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No pair of VLANs: what was given.
    #[error(
        "{0:?} is no pair of VLANs: write A=B, each 1 to 4094 or none for no tag and at most one of them none, \
         as 10=20 or none=20"
    )]
    VlanPair(String),
    /// A VLAN of one side is in two pairs.
    #[error(
        "VLAN {vlan} of side {side} is in {first} and in {given}: packets would not know which; name it once"
    )]
    VlanTwice {
        /// The later pair.
        given: String,
        /// The earlier pair.
        first: String,
        /// Which side, `A` or `B`.
        side: &'static str,
        /// The VLAN, or `none`.
        vlan: String,
    },
    /// No Ethernet address: what was given.
    #[error("{0:?} is no Ethernet address: write six hexadecimal numbers, as 02:00:00:00:00:01")]
    MacAddress(String),
    /// An Ethernet address that no frame may come from.
    #[error("{address} cannot be a source: it is {kind}; give that of an interface, as 02:00:00:00:00:01")]
    NotASource {
        /// The address.
        address: String,
        /// What it is.
        kind: &'static str,
    },
    /// Not a change of the TTL: what was given.
    #[error("invalid TTL {0:?}: write keep, decrement, or a number from 1 to 255")]
    Ttl(String),
}
