//! Packets of real traces: those in the directory named by `WIRECAP_TRACES`, or beside the
//! repository.

use std::path::{Path, PathBuf};

use wirecap_file::Capture;
use wirecap_filter::LINK_TYPE_ETHERNET;

use crate::packets::Packet;

fn directory() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    std::env::var_os("WIRECAP_TRACES").map_or(beside, PathBuf::from)
}

/// All of Ethernet; none, said loudly, if there is no such directory.
pub fn packets(test_name: &str) -> Vec<Packet> {
    let all = with_link_types(test_name).into_iter();
    all.filter(|(link_type, _)| *link_type == LINK_TYPE_ETHERNET).map(|(_, packet)| packet).collect()
}

/// All of them, with their link types; none, said loudly, if there is no such directory.
pub fn with_link_types(test_name: &str) -> Vec<(u16, Packet)> {
    let Ok(entries) = std::fs::read_dir(directory()) else {
        wirecap_lab::skip(test_name, "its part over real traces: name their directory in WIRECAP_TRACES");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let packets: Vec<_> = paths.iter().filter(|path| is_trace(path)).flat_map(|path| of_file(path)).collect();
    assert!(!packets.is_empty(), "no trace in {}", directory().display());
    packets
}

fn is_trace(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "pcap" || extension == "pcapng" || extension == "cap")
}

fn of_file(path: &Path) -> Vec<(u16, Packet)> {
    let capture = Capture::read(std::fs::File::open(path).unwrap()).unwrap();
    let link_type = |interface: u32| capture.interfaces[interface as usize].link_type;
    let packets = capture.packets.iter().map(|packet| {
        let bytes = packet.data.clone();
        (link_type(packet.interface), Packet { bytes, wirelen: packet.original_len })
    });
    packets.collect()
}
