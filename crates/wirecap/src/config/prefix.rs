//! What the name of a port begins with, by the kind of the port: `xdp:eth1`, `trace:old.pcapng`. A name
//! without a prefix is that of an interface.

/// An interface over AF_XDP.
pub const XDP: &str = "xdp:";
/// An interface over AF_PACKET.
pub const PACKET: &str = "packet:";
/// An interface that programs of traffic control tap.
pub const TAP: &str = "tap:";
/// A trace file.
pub const TRACE: &str = "trace:";
/// All of them.
pub const ALL: [&str; 4] = [XDP, PACKET, TAP, TRACE];
/// In reports only: a port with faults injected.
pub(crate) const FAULT: &str = "fault:";
