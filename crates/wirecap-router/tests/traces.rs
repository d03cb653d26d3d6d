//! Looks up routes for all packets of real traces, damaged ones included.

use wirecap_headers::Layout;
use wirecap_lab::Capture;
use wirecap_router::Routes;

/// All packets. `None`, with a loud notice, if there is no such directory.
fn packets(test: &str) -> Option<Vec<Vec<u8>>> {
    let paths = wirecap_lab::trace_files(test)?.into_iter();
    let captures = paths.map(|path| Capture::read(std::fs::File::open(path).unwrap()).unwrap());
    Some(captures.flat_map(|capture| capture.packets).map(|packet| packet.data).collect())
}

#[test]
fn ip_packets_have_a_route() {
    let Some(packets) = packets("ip_packets_have_a_route") else { return };
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
