//! Packets of real traces.

use std::path::Path;

use wirecap_filter::LINK_TYPE_ETHERNET;
use wirecap_lab::Capture;

use crate::packets::Packet;

/// All Ethernet packets; none, with a loud notice, if there is no such directory.
pub fn packets(test_name: &str) -> Vec<Packet> {
    let all = with_link_types(test_name).into_iter();
    all.filter(|(link_type, _)| *link_type == LINK_TYPE_ETHERNET).map(|(_, packet)| packet).collect()
}

/// All packets, with their link types; none, with a loud notice, if there is no such directory.
pub fn with_link_types(test_name: &str) -> Vec<(u16, Packet)> {
    let files = wirecap_lab::trace_files(test_name).unwrap_or_default();
    files.iter().flat_map(|path| of_file(path)).collect()
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
