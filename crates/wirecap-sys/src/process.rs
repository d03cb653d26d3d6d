//! Processes, as `/proc` shows them, and what they hold.
//!
//! Rule: what this process may not look into is left out. So nothing found means "not known", never "nothing
//! there".

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
};

use serde::Serialize;

/// A process that holds something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its name, from `/proc/PID/comm`; 15 bytes at most.
    pub name: String,
}

impl fmt::Display for Process {
    /// `tcpdump (pid 7)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// For each of these sockets, by the number of its inode, the processes that have it open.
///
/// Costs a look at every open file of the machine: for messages, not for loops.
pub fn holders_of_sockets(inodes: &[u64]) -> BTreeMap<u64, Vec<Process>> {
    holders(inodes, sockets)
}

/// For each of these numbers the processes that hold it, if there are any. `held` gives the numbers that a
/// process holds.
pub(crate) fn holders<N: Ord + Copy>(
    wanted: &[N],
    held: impl Fn(u32) -> BTreeSet<N>,
) -> BTreeMap<N, Vec<Process>> {
    let mut found: BTreeMap<N, Vec<Process>> = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    for pid in processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        for number in held(pid).into_iter().filter(|number| wanted.contains(number)) {
            found.entry(number).or_default().push(Process { pid, name: comm(pid) });
        }
    }
    found
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: u32) -> BTreeSet<u64> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter_map(|target| socket_inode(target.to_str()?)).collect()
}

/// The inode in what a socket's link in `/proc/PID/fd` points to.
fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |name| name.trim_end().into())
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsRawFd};

    use super::*;

    #[test]
    fn a_socket_is_held_by_the_process_that_has_it_open() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let inode = socket_inode(target.to_str().unwrap()).unwrap();
        let holders = holders_of_sockets(&[inode]);
        // A process that another test is just starting may still have the socket, too.
        assert!(holders[&inode].iter().any(|process| process.pid == std::process::id()), "{holders:?}");
        assert_eq!(holders.len(), 1);
        assert_eq!(holders_of_sockets(&[]), BTreeMap::new());
    }

    #[test]
    fn only_sockets_have_an_inode_here() {
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        for other in ["pipe:[4711]", "/dev/null", "socket:[]", "socket:[4711"] {
            assert_eq!(socket_inode(other), None, "{other}");
        }
    }
}
