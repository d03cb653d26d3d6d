//! Who is at the other end of a Unix socket, as the kernel noted it when that process connected.

use std::{io, os::fd::AsFd};

use super::socket_option;

/// The most groups of a process (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 1 << 16;

/// A process that has connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process id, as in the PID namespace of this process; 0 if it is in another one.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group, then its supplementary ones.
    pub groups: Vec<u32>,
}

impl Peer {
    /// The peer of a connected Unix socket.
    ///
    /// # Errors
    /// The kernel's error: the socket is no Unix socket, or not connected.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let [pid, uid, gid]: [u32; 3] = socket_option::get(&socket, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
        let more = socket_option::get_list(&socket, libc::SOL_SOCKET, libc::SO_PEERGROUPS, MAX_GROUPS)?;
        Ok(Self { pid, uid, groups: [vec![gid], more].concat() })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_process_is_its_own_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(|number| number.parse().unwrap()).collect::<Vec<u32>>()
        };
        assert_eq!((peer.uid, peer.groups[0]), (field("Uid:")[1], field("Gid:")[1]));
        assert_eq!(peer.groups[1..], field("Groups:"));
    }

    #[test]
    fn a_socket_of_another_kind_has_no_peer() {
        assert!(Peer::of(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
