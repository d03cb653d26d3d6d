use wirecap_core::Geometry;
use wirecap_lab::{require_root, skip};
use wirecap_sys::{netdev, packed::PackedMemory};

use super::*;
use crate::{port::lab::Lab, program::tags::Tags};

/// The packets come as the driver hands them out, and the report says why.
#[test]
fn a_tap_without_what_puts_tags_back_is_attached_nevertheless() {
    const TEST: &str = "tap::a_tap_without_what_puts_tags_back_is_attached_nevertheless";
    if !require_root(TEST) {
        return;
    }
    if Tags::by_driver(&netdev::interface("lo").unwrap()).is_err() {
        return skip(TEST, "this kernel has no call that asks drivers for VLAN tags (Linux 6.8)");
    }
    type OfVethOrLoopback = fn(&Interface, &Interface) -> Tags;
    let cases: [(OfVethOrLoopback, bool); 4] = [
        (|veth, _| Tags::of(veth).unwrap(), true),
        (|veth, _| Tags::by_driver(veth).unwrap(), true),
        (|veth, _| Tags::not_callable(veth), false),
        // The program is bound to another device.
        (|_, loopback| Tags::by_driver(loopback).unwrap(), false),
    ];
    for (tags, puts_back) in cases {
        let lab = Lab::new("taprefuse");
        let [interface, loopback] =
            ["in0", "lo"].map(|name| lab.inside.enter(|| netdev::interface(name)).unwrap());
        let tags = tags(&interface, &loopback);
        let geometry = Geometry::new(64, 2, 2048).unwrap();
        let memory = Arc::new(PackedMemory::create([0], geometry).unwrap());
        let packing = Packing { memory, interface: 0, names_queue: false, has_hashes: false, to_utc: false };
        let tap = Tap {
            interface: &interface,
            hook: TapHook::Xdp,
            packing: &packing,
            counters: &Counters::new(1).unwrap(),
            streams: 1,
            filter: None,
            user: None,
            stamping: None,
            own_sender: None,
            tags: Ok(tags),
        };
        let attached = lab.inside.enter(|| tap.attach()).unwrap();
        assert_eq!(attached.puts_tags_back, puts_back);
        let is_said = |said: &[Diagnostic]| matches!(said, [Diagnostic::VlanTagsNotPutBack { .. }]);
        assert_eq!(is_said(&attached.missing_tags), !puts_back, "{:?}", attached.missing_tags);
        let programs = lab.inside.enter(|| netdev::xdp_programs(interface.ifindex)).unwrap();
        assert_eq!(programs.len(), 1);
    }
}
