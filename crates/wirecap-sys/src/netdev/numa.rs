//! The NUMA node of an interface, which only sysfs shows.

use std::fs;
use std::path::Path;

use super::MacAddress;

/// The NUMA node of the interface; `None` if the machine or the device has none, or if it cannot be known.
///
/// A mount of sysfs shows the interfaces of the network namespace it was mounted in, which may not be the one
/// of the calling thread. An interface found there under `name` is believed to be ours only if index and MAC
/// address agree.
pub(super) fn numa_node(name: &str, ifindex: u32, mac: Option<MacAddress>) -> Option<u32> {
    read_node(&Path::new("/sys/class/net").join(name), ifindex, mac)
}

fn read_node(directory: &Path, ifindex: u32, mac: Option<MacAddress>) -> Option<u32> {
    let read = |file: &str| Some(fs::read_to_string(directory.join(file)).ok()?.trim().to_owned());
    let same_index = read("ifindex")?.parse() == Ok(ifindex);
    let same_mac = mac.is_none_or(|mac| read("address").is_some_and(|address| address == mac.to_string()));
    if !(same_index && same_mac) {
        return None;
    }
    // -1 means "no node", and does not parse.
    read("device/numa_node")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_only_for_the_same_interface() {
        let directory = std::env::temp_dir().join(format!("wirecap-numa-{}", std::process::id()));
        fs::create_dir_all(directory.join("device")).unwrap();
        let write = |file: &str, text: &str| fs::write(directory.join(file), text).unwrap();
        write("ifindex", "7\n");
        write("address", "02:00:00:00:00:0a\n");
        write("device/numa_node", "1\n");
        let (ours, other) = (MacAddress([2, 0, 0, 0, 0, 10]), MacAddress([2, 0, 0, 0, 0, 11]));
        assert_eq!(read_node(&directory, 7, Some(ours)), Some(1));
        assert_eq!(read_node(&directory, 7, None), Some(1));
        assert_eq!(read_node(&directory, 8, Some(ours)), None, "another index");
        assert_eq!(read_node(&directory, 7, Some(other)), None, "another MAC address");
        write("device/numa_node", "-1\n");
        assert_eq!(read_node(&directory, 7, Some(ours)), None, "no node");
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(read_node(&directory, 7, Some(ours)), None, "no such interface in sysfs");
    }
}
