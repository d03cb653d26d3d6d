use wirecap_sys::netdev::{self, Driver, XdpFeatures};

use super::*;

fn features(zero_copy: bool, segments: Option<u32>) -> Option<XdpFeatures> {
    let native = XdpFeatures { native: true, redirect: true, ..XdpFeatures::default() };
    Some(XdpFeatures { zero_copy, zero_copy_max_segments: segments, ..native })
}

fn interface(driver: &str, mtu: u32, xdp_features: Option<XdpFeatures>) -> Interface {
    let driver = Driver { name: driver.into(), version: None, firmware: None, bus: None };
    Interface { mtu, xdp_features, driver: Some(driver), ..netdev::interface("lo").unwrap() }
}

#[test]
fn best_packs_where_zero_copy_would_not_take_all_frames() {
    if !may_calculate_addresses() {
        return wirecap_lab::skip("packing::best_packs", "without CAP_PERFMON nothing is packed");
    }
    let of = |interface: &Interface| pool_maker(interface, &Config::default());
    let (packed, cells) = (PoolMaker::Packed, PoolMaker::Registered);
    for (driver, mtu, features, expected) in [
        ("veth", 1_500, features(false, None), packed),
        ("ice", 1_500, features(true, Some(1)), cells),
        ("ice", 9_000, features(true, Some(1)), packed),
        ("ice", 9_000, features(true, None), packed),
        ("ice", 9_000, features(true, Some(5)), cells),
        // It puts 1,024 bytes of a frame into a cell.
        ("igb", 1_500, features(true, Some(1)), packed),
        ("igb", 1_000, features(true, Some(1)), cells),
        // Linux before 6.3.
        ("ice", 1_500, None, cells),
        ("veth", 1_500, None, cells),
        // The kernel would not attach a program now.
        ("veth", 1_500, Some(XdpFeatures::default()), cells),
        ("tun", 1_500, features(false, None), cells),
        // Several members write at a time.
        ("bonding", 1_500, features(false, None), cells),
        ("hv_netvsc", 1_500, features(false, None), cells),
    ] {
        assert_eq!(of(&interface(driver, mtu, features)), expected, "{driver}, MTU {mtu}, {features:?}");
    }
}

#[test]
fn other_modes_are_not_changed() {
    let veth = interface("veth", 1_500, features(false, None));
    for mode in [Modes::ZeroCopy, Modes::Copy, Modes::Generic] {
        let config = Config { xdp_mode: mode, ..Config::default() };
        assert_eq!(pool_maker(&veth, &config), PoolMaker::Registered);
    }
    // Even where it is certain to fail: it is refused then, not replaced.
    let config = Config { xdp_mode: Modes::Packed, cells_per_chunk: 1, ..Config::default() };
    assert_eq!(pool_maker(&interface("tun", 1_500, None), &config), PoolMaker::Packed);
}

#[test]
fn each_refusal_has_its_reason() {
    let veth = interface("veth", 1_500, features(false, None));
    let refusal = |interface: &Interface, change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        refusal(interface, &config, expected_geometry(&config).unwrap())
    };
    let by = |change: fn(&mut Config)| refusal(&veth, change);
    assert_eq!(by(|config| config.transmit_entries = 64), Some(PackingRefusal::Sending));
    assert_eq!(by(|config| config.allocators = 1), Some(PackingRefusal::Sending));
    assert_eq!(by(|config| config.keep_packets = true), Some(PackingRefusal::Keeping));
    assert_eq!(by(|config| config.ring_entries = Some(64)), Some(PackingRefusal::Rings));
    let small = by(|config| config.cells_per_chunk = 32);
    assert_eq!(small, Some(PackingRefusal::SmallBlocks { block_bytes: 64 << 10 }));
    let few = by(|config| config.pool_size = PoolSize::Chunks(1));
    assert_eq!(few, Some(PackingRefusal::FewBlocks { blocks: 1 }));
    let on = |driver, features| refusal(&interface(driver, 1_500, features), |_| ());
    let tun = on("tun", features(false, None));
    assert_eq!(tun, Some(PackingRefusal::SeveralWriters { driver: "tun".into() }));
    assert_eq!(on("veth", None), Some(PackingRefusal::ZeroCopyNotKnown));
    assert_eq!(on("veth", Some(XdpFeatures::default())), Some(PackingRefusal::NotNative));
}

#[test]
fn a_bond_runs_the_program_on_its_members() {
    for (driver, is_on_members) in [("bonding", true), ("hv_netvsc", true), ("veth", false)] {
        let interface = interface(driver, 1_500, features(false, None));
        assert_eq!(members::running_driver(&interface), is_on_members.then_some(driver));
    }
    let bond = interface("bonding", 1_500, features(false, None));
    let forced = Config { xdp_mode: Modes::Packed, ..Config::default() };
    let several = PackingRefusal::SeveralWriters { driver: "bonding".into() };
    assert_eq!(refused_by_settings(&bond, &forced), Some(several), "not even if it is asked for");
}
