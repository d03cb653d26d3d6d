//! What is wrong with a line of a table of routes.

use std::net::IpAddr;

use ipnet::IpNet;

/// What is wrong with a line of a table of routes, and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteProblem {
    /// The line does not begin with a prefix: the first word.
    #[error(
        "{0:?} is no prefix: write default, an address, or an address and its bits, as 10.0.0.0/8 or 2001:db8::/32"
    )]
    Prefix(String),
    /// There are bits behind the length of the prefix.
    #[error("{given} has bits set behind its length: write {network}, or one address without a length")]
    HostBits {
        /// The prefix.
        given: IpNet,
        /// The prefix without them.
        network: IpNet,
    },
    /// A route to what is not forwarded.
    #[error(
        "packets to {prefix} are never forwarded, since it is within {never}: take the line out, or write drop"
    )]
    Never {
        /// The prefix.
        prefix: IpNet,
        /// What it is within.
        never: IpNet,
    },
    /// There is nothing but a prefix, or no device, behind this prefix.
    #[error("{0} goes nowhere: write drop, dev NAME, dev NAME via ADDRESS or dev NAME lladdr MAC behind it")]
    Nowhere(IpNet),
    /// A word that means nothing here.
    #[error(
        "{0:?} is not understood: after the prefix, write drop, or dev NAME, with via ADDRESS or lladdr MAC if needed"
    )]
    Word(String),
    /// The line ends after `dev`, `via` or `lladdr`.
    #[error("{word} needs a value: write {word} {value}")]
    NoValue {
        /// The last word.
        word: &'static str,
        /// What has to follow, as `NAME`.
        value: &'static str,
    },
    /// More than one next hop, or one and `drop`: the word that is too much.
    #[error(
        "{0} conflicts with an earlier word: give one of drop, via ADDRESS or lladdr MAC, and dev NAME once"
    )]
    TooMuch(String),
    /// `via` has no address: what was given.
    #[error("{0:?} is no address: write that of a router, as via 192.0.2.1 or via 2001:db8::1")]
    Address(String),
    /// `via` has an address that no router has, or one of the other version of IP.
    #[error(
        "{given} cannot be the next hop to {prefix}: write the address of a router, of the same version of IP \
         (the default route of IPv6 is ::/0)"
    )]
    NextHop {
        /// The address.
        given: IpAddr,
        /// The prefix.
        prefix: IpNet,
    },
    /// `lladdr` has no Ethernet address: what was given.
    #[error("{0:?} is no Ethernet address: write six hexadecimal numbers, as lladdr 02:00:00:00:00:01")]
    MacAddress(String),
    /// The prefix is on an earlier line, too.
    #[error("{prefix} is on line {first} already: take one of them out")]
    Twice {
        /// The prefix.
        prefix: IpNet,
        /// The earlier line, from 1 on.
        first: usize,
    },
}
