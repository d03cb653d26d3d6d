//! What is read from one file at most, so that no file makes a reader grow without a bound.

/// The longest pcapng block, and the longest packet of a pcap file, that is read, in bytes: 16 MiB, as in
/// libpcap and Wireshark. More is taken for damage. A pcap packet longer than both 256 KiB and the file's
/// snapshot length is, too.
pub const MAX_BLOCK_LEN: u32 = 16 << 20;

/// The most interfaces that are read from one file. They are remembered, so there must be an end to them.
pub const MAX_INTERFACES: u32 = 65_536;

/// The most comments that are read from one block: an empty comment takes 4 bytes in the file and 24 in
/// memory.
pub const MAX_COMMENTS: u32 = 65_536;
