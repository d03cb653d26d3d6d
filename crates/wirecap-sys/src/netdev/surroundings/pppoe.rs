//! PPPoE sessions of the kernel, each over an interface: `/proc/thread-self/net/pppoe`.
//!
//! ```text
//!   Id       Address              Device
//!   00000005 02:00:00:00:00:01     eth1
//! ```

use wirecap_headers::MacAddress;

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PppoeSession {
    /// Its number.
    pub number: u16,
    /// The other end.
    pub peer: MacAddress,
    /// The name of the interface that it runs over.
    pub interface: String,
}

pub(super) fn parse(text: &str) -> Vec<PppoeSession> {
    text.lines().skip(1).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<PppoeSession> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [number, peer, interface] = fields[..] else { return None };
    // The kernel prints the number as it lies in the packet.
    let number = u16::from_be(u32::from_str_radix(number, 16).ok()?.try_into().ok()?);
    Some(PppoeSession { number, peer: peer.parse().ok()?, interface: interface.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read() {
        let number = u32::from(5_u16.to_be());
        let text = format!(
            "Id       Address              Device\n{number:08X} 02:00:00:00:00:01     eth1\nnonsense\n"
        );
        let peer = MacAddress([2, 0, 0, 0, 0, 1]);
        assert_eq!(parse(&text), [PppoeSession { number: 5, peer, interface: "eth1".into() }]);
    }
}
