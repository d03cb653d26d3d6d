//! AF_PACKET sockets that hear what an interface receives: `/proc/thread-self/net/packet`.
//!
//! ```text
//!   sk               RefCnt Type Proto  Iface R Rmem   User   Inode
//!   0000000020516dbf 3      3    0003   3     1 0      0      60506
//! ```

/// A socket that hears packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSocket {
    /// Its interface; 0: all of the namespace.
    pub ifindex: u32,
    /// Its EtherType; 3 (ETH_P_ALL) hears all.
    pub protocol: u16,
    /// The number by which the processes that have it are found:
    /// [`holders_of_sockets`](crate::process::holders_of_sockets).
    pub inode: u64,
}

/// The sockets in the kernel's list. Those that only send hear nothing, and are left out.
pub(super) fn parse(text: &str) -> Vec<PacketSocket> {
    text.lines().skip(1).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<PacketSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, protocol, ifindex, running, _, _, inode] = fields[..] else { return None };
    let protocol = u16::from_str_radix(protocol, 16).ok()?;
    let socket = PacketSocket { ifindex: ifindex.parse().ok()?, protocol, inode: inode.parse().ok()? };
    (running == "1" && protocol != 0).then_some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_receive_are_listed_and_senders_are_left_out() {
        let text = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    0000000020516dbf 3      3    0003   3     1 0      0      60506 \n\
                    00000000f5eccad9 3      2    88cc   0     1 0      0      60519 \n\
                    000000007142ea7f 2      3    0000   0     0 0      0      60543 \n";
        let first = PacketSocket { ifindex: 3, protocol: 3, inode: 60506 };
        let second = PacketSocket { ifindex: 0, protocol: 0x88cc, inode: 60519 };
        assert_eq!(parse(text), [first, second]);
        assert_eq!(parse(""), []);
        assert_eq!(parse("a header\nand a line that makes no sense\n"), []);
    }
}
