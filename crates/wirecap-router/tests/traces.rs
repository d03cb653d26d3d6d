//! Routes of all packets of real traces, the damaged ones too.
//!
//! The directory is named by `WIRECAP_TRACES`, or stands next to the repository.

use std::path::{Path, PathBuf};

use wirecap_file::Capture;
use wirecap_headers::Layout;
use wirecap_router::Routes;

/// All packets. `None`, said loudly, if there is no such directory.
fn packets(test: &str) -> Option<Vec<Vec<u8>>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let directory = std::env::var_os("WIRECAP_TRACES").map_or(beside, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(directory) else {
        wirecap_lab::skip(test, "there are no traces; name their directory in WIRECAP_TRACES");
        return None;
    };
    let is_trace = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("pcap" | "pcapng" | "cap"))
    };
    let paths = entries.map(|entry| entry.unwrap().path()).filter(is_trace);
    let captures = paths.map(|path| Capture::read(std::fs::File::open(path).unwrap()).unwrap());
    Some(captures.flat_map(|capture| capture.packets).map(|packet| packet.data).collect())
}

#[test]
fn packets_of_ip_have_a_route() {
    let Some(packets) = packets("packets_of_ip_have_a_route") else { return };
    let routes: Routes = "default dev v4\n::/0 dev v6".parse().unwrap();
    let (mut routed, mut not) = (0, 0);
    for packet in &packets {
        let Some(layout) = Layout::of(packet) else { continue };
        let Some(ip) = layout.ip() else { continue };
        let (source, destination) = ip.source(packet).zip(ip.destination(packet)).unwrap();
        match routes.to(destination) {
            Some(_) if !routes.is_martian(source) => routed += 1,
            _ => not += 1,
        }
    }
    assert!(routed > 1_000 && not > 100, "{routed} routed, {not} multicast and link-local");
}
