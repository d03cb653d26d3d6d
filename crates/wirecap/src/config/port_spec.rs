//! Ports to capture, and their names: `eth1`, `xdp:eth1@0-3`, `packet:eth1`, `trace:old.pcapng`.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use thiserror::Error;
use wirecap_core::choice;

use super::{
    QueueSet,
    prefix::{self, FAULT, PACKET, TAP, TRACE, XDP},
};
#[cfg(doc)]
use crate::HostUse;

/// How to get at the packets of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// AF_XDP, which takes the packets from the host. Where the host uses the interface or one on top of it,
    /// where another program listens on it ([`HostUse`]), and where it is no Ethernet interface, it is
    /// captured passively: by a [tap](Access::Tap), or by AF_PACKET where that is not possible. The
    /// report says which, and why.
    #[default]
    Auto,
    /// AF_XDP in any case.
    Xdp,
    /// AF_PACKET in any case: the host keeps its traffic, and both directions are seen.
    Packet,
    /// Programs of traffic control in any case, which copy packets into blocks (Linux 6.6): the host keeps
    /// its traffic, and both directions are seen.
    Tap,
}

impl Access {
    const ALL: [Self; 4] = [Access::Auto, Access::Xdp, Access::Packet, Access::Tap];

    /// The prefix of an interface's name.
    const fn prefix(self) -> &'static str {
        match self {
            Access::Auto => "",
            Access::Xdp => XDP,
            Access::Packet => PACKET,
            Access::Tap => TAP,
        }
    }
}

/// A port to open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortSpec {
    /// An interface.
    Interface {
        /// Its name.
        name: String,
        /// How to get at its packets.
        access: Access,
        /// Which of its receive queues, over AF_XDP; `None` for all, which no other process can then have.
        /// Processes that name their queues share the interface.
        queues: Option<QueueSet>,
    },
    /// A trace file, see [`trace`](crate::port::trace).
    Trace {
        /// Its name; `-` is standard input.
        path: PathBuf,
    },
    /// Memory only.
    Null(NullPort),
    /// Numbered packets.
    #[cfg(test)]
    Example(crate::port::example::ExamplePort),
    /// Another port with faults injected.
    Fault {
        /// The port that suffers the faults.
        inner: Box<PortSpec>,
        /// Which faults.
        faults: Faults,
    },
}

/// A port that makes packets without contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NullPort {
    /// Number of receive queues.
    pub queues: u16,
    /// Length of each packet in bytes. Longer ones than a cell holds come in several parts.
    pub packet_bytes: u32,
    /// Number of packets that each queue makes before it falls silent.
    pub packets_per_queue: u64,
}

/// Faults to inject. Each strikes once in this number of calls on average, drawn from a seeded generator; 0
/// is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the generator.
    pub seed: u64,
    /// Nothing is received although packets wait: an interrupt that was lost.
    pub stall: u32,
    /// Only one packet is received although more wait.
    pub short_batch: u32,
    /// Free chunks are not attached: the kernel starves.
    pub starve: u32,
    /// The driver reports a cell that is not ours, once more besides the real ones.
    pub foreign_cell: u32,
}

impl PortSpec {
    /// The name of the port in reports.
    pub fn name(&self) -> String {
        match self {
            PortSpec::Interface { name, queues, .. } => device_name(name, queues.as_ref()),
            PortSpec::Fault { inner, .. } => format!("{FAULT}{}", inner.name()),
            _ => self.to_string(),
        }
    }

    /// Whether both would capture the same packets, judging by their names: an alternative name of an
    /// interface is another one until the interface is looked up.
    ///
    /// ```
    /// use wirecap::PortSpec;
    ///
    /// let port = PortSpec::from("xdp:eth1@0-3");
    /// assert!(port.overlaps(&"eth1".into()) && port.overlaps(&"eth1@3".into()));
    /// assert!(!port.overlaps(&"eth1@4".into()));
    /// ```
    pub fn overlaps(&self, other: &Self) -> bool {
        use PortSpec::Interface;
        match (self, other) {
            (Interface { name, queues, .. }, Interface { name: other, queues: others, .. }) => {
                name == other && QueueSet::overlap(queues.as_ref(), others.as_ref())
            }
            _ => matches!(self, PortSpec::Trace { .. }) && self == other,
        }
    }
}

/// The name of an interface, or of some of its queues: `eth1`, `eth1@0-3`.
pub(crate) fn device_name(interface: &str, queues: Option<&QueueSet>) -> String {
    queues.map_or_else(|| interface.into(), |queues| format!("{interface}@{queues}"))
}

/// The text up to its first colon, and the rest.
fn split_prefix(text: &str) -> (&str, &str) {
    text.split_at(text.find(':').map_or(0, |colon| colon + 1))
}

/// `eth1` is an interface that is taken unless the host uses it, `xdp:eth1` one that is taken in any case,
/// `tap:eth1` and `packet:eth1` one that the host keeps. `eth1@2` is its receive queue 2, `eth1@0-3,6` are
/// five of them. `trace:old.pcapng` is a trace file, `trace:-` standard input.
///
/// ```
/// use wirecap::{Access, PortSpec, QueueSet};
///
/// let queues = QueueSet::new(0..4);
/// assert_eq!(PortSpec::from("xdp:eth1@0-3"), PortSpec::Interface { name: "eth1".into(), access: Access::Xdp, queues });
/// ```
impl From<&str> for PortSpec {
    fn from(text: &str) -> Self {
        let (prefix, name) = split_prefix(text);
        if prefix == TRACE {
            return PortSpec::Trace { path: name.into() };
        }
        let access = Access::ALL.into_iter().find(|access| access.prefix() == prefix);
        let (access, name) = access.map_or((Access::Auto, text), |access| (access, name));
        // An invalid set of queues stays in the name, which no interface has.
        let (name, queues) = match name.rsplit_once('@').map(|(name, queues)| (name, queues.parse())) {
            Some((interface, Ok(queues))) => (interface, Some(queues)),
            _ => (name, None),
        };
        PortSpec::Interface { name: name.into(), access, queues }
    }
}

impl From<String> for PortSpec {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<NullPort> for PortSpec {
    fn from(port: NullPort) -> Self {
        PortSpec::Null(port)
    }
}

/// A text that cannot name a port, on any machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortSpecError {
    /// There is no name.
    #[error("{text:?} names no port; write eth1, {XDP}eth1, {TAP}eth1, {PACKET}eth1 or {TRACE}FILE")]
    NoName {
        /// The text.
        text: String,
    },
    /// The prefix names no kind of port.
    #[error(
        "{prefix}{name}: no port begins with {prefix}; write {name}, {XDP}{name}, {TAP}{name} or {PACKET}{name} \
         for an interface, {TRACE}FILE for a trace"
    )]
    UnknownPrefix {
        /// The prefix, with its colon.
        prefix: String,
        /// The text behind the prefix.
        name: String,
    },
}

/// As [`PortSpec::from`], but refuses texts that cannot name a port.
impl FromStr for PortSpec {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, name) = split_prefix(text);
        if name.is_empty() {
            return Err(PortSpecError::NoName { text: text.into() });
        }
        if !prefix.is_empty() && !prefix::ALL.contains(&prefix) {
            return Err(PortSpecError::UnknownPrefix { prefix: prefix.into(), name: name.into() });
        }
        Ok(text.into())
    }
}

/// The text that [`PortSpec::from`] reads; `null` and `fault:…` for those that have none.
impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortSpec::Interface { name, access, queues } => {
                write!(f, "{}{}", access.prefix(), device_name(name, queues.as_ref()))
            }
            PortSpec::Trace { path } => write!(f, "{TRACE}{}", path.display()),
            PortSpec::Null(_) => f.write_str("null"),
            #[cfg(test)]
            PortSpec::Example(_) => f.write_str("example"),
            PortSpec::Fault { inner, .. } => write!(f, "{FAULT}{inner}"),
        }
    }
}

/// Fails for ports that have no text, and for a path that is not UTF-8.
impl Serialize for PortSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_text = match self {
            PortSpec::Interface { .. } => true,
            PortSpec::Trace { path } => path.to_str().is_some(),
            _ => false,
        };
        if has_text {
            serializer.collect_str(self)
        } else {
            Err(ser::Error::custom(format_args!("the port {self} cannot be written down")))
        }
    }
}

impl<'de> Deserialize<'de> for PortSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        choice::parsed(deserializer)
    }
}
