//! Compares lookups with a scan of all lines, and checks refusals.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::{collection::vec, prelude::*};
use wirecap_headers::MacAddress;

use super::{
    never_forwarded::{NEVER_FORWARDED, RESERVED},
    *,
};

/// The most specific prefix that contains `address`, unless a more specific one is never forwarded.
fn scan(prefixes: &[IpNet], address: IpAddr) -> Option<IpNet> {
    let around = |nets: &[IpNet]| -> Option<IpNet> {
        nets.iter().copied().filter(|net| net.contains(&address)).max_by_key(IpNet::prefix_len)
    };
    let never = around(&[&NEVER_FORWARDED[..], &[RESERVED]].concat());
    around(prefixes).filter(|found| never.is_none_or(|never| never.prefix_len() <= found.prefix_len()))
}

/// Prefixes of all lengths that often nest, since few of their bits are set.
fn prefixes() -> impl Strategy<Value = Vec<IpNet>> {
    let v4 = (any::<u32>(), any::<u32>(), any::<u32>(), 0..=32u8)
        .prop_map(|(a, b, c, len)| IpNet::from(Ipv4Net::new_assert(Ipv4Addr::from_bits(a & b & c), len)));
    let v6 = (any::<u128>(), any::<u128>(), any::<u128>(), 0..=128u8)
        .prop_map(|(a, b, c, len)| IpNet::from(Ipv6Net::new_assert(Ipv6Addr::from_bits(a & b & c), len)));
    // Neighbours under the same 16 bits, too many to search one by one.
    let dense = (any::<u16>(), 20..=32u8).prop_map(|(low, len)| {
        IpNet::from(Ipv4Net::new_assert(Ipv4Addr::from_bits(0x0a07_0000 | u32::from(low)), len))
    });
    vec(prop_oneof![v4, v6, dense.clone(), dense], 0..150).prop_map(|mut nets| {
        nets.iter_mut().for_each(|net| *net = net.trunc());
        nets.retain(|net| !NEVER_FORWARDED.iter().any(|never| never.contains(net)));
        nets.sort();
        nets.dedup();
        nets
    })
}

/// Addresses at both ends of each prefix, just beyond them, and in the middle.
fn edges(prefixes: &[IpNet]) -> Vec<IpAddr> {
    let beside = |net: &IpNet| match net {
        IpNet::V4(net) => {
            let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first + (last - first) / 2]
                .map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)))
        }
        IpNet::V6(net) => {
            let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first + (last - first) / 2]
                .map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits)))
        }
    };
    prefixes.iter().flat_map(beside).collect()
}

/// A table in which the device of each route is the index of its prefix.
fn routes(prefixes: &[IpNet]) -> Routes {
    let lines: Vec<String> =
        prefixes.iter().enumerate().map(|(index, net)| format!("{net} dev e{index}\n")).collect();
    lines.concat().parse().unwrap()
}

proptest! {
    #[test]
    fn the_most_specific_prefix_is_found(prefixes in prefixes(), any4 in vec(any::<u32>(), 50), any6 in vec(any::<u128>(), 50)) {
        let routes = routes(&prefixes);
        let mut addresses = edges(&prefixes);
        addresses.extend(edges(&NEVER_FORWARDED));
        addresses.extend(any4.iter().map(|bits| IpAddr::from(Ipv4Addr::from_bits(*bits))));
        addresses.extend(any6.iter().map(|bits| IpAddr::from(Ipv6Addr::from_bits(*bits))));
        for address in addresses {
            let found = routes.to(address).map(|route| match route {
                Route::Via { device, next_hop: NextHop::Direct } => prefixes[*device],
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(found, scan(&prefixes, address), "{}", address);
        }
    }

    #[test]
    fn any_text_parses_or_is_an_error_with_a_line(text in "(([0-9a-f:./ ]|default|dev|via|lladdr|drop|#|\n| ){0,12}\n){0,4}") {
        if let Err(error) = text.parse::<Routes>() {
            prop_assert!(error.to_string().starts_with("line "), "{}", error);
        }
    }
}

#[test]
fn all_forms_of_a_line_are_read() {
    let text = "
        # comment
        10.0.0.0/8 dev eth2 lladdr 02:00:00:00:00:01 # behind a route
        198.51.100.0/24 via 192.0.2.1 dev eth1#in any order
        192.0.2.0/24 dev eth1
        192.0.2.7 drop
        2001:db8::/32 dev eth2 via fe80::1
        2001:db8::7 drop

        default dev eth0 via 203.0.113.1
        ::/0 dev eth2";
    let routes: Routes = text.parse().unwrap();
    assert_eq!(routes.devices(), ["eth2", "eth1", "eth0"]);
    let to = |address: &str| routes.to(address.parse().unwrap()).copied();
    let via = |device, next_hop| Some(Route::Via { device, next_hop });
    let address = |text: &str| NextHop::Address(text.parse().unwrap());
    assert_eq!(to("10.255.255.255"), via(0, NextHop::Mac(MacAddress([2, 0, 0, 0, 0, 1]))));
    assert_eq!(to("198.51.100.1"), via(1, address("192.0.2.1")));
    assert_eq!(to("192.0.2.6"), via(1, NextHop::Direct));
    assert_eq!(to("192.0.2.7"), Some(Route::Drop));
    assert_eq!(to("2001:db8::6"), via(0, address("fe80::1")));
    assert_eq!(to("2001:db8::7"), Some(Route::Drop));
    assert_eq!(to("8.8.8.8"), via(2, address("203.0.113.1")));
    assert_eq!(to("2600::"), via(0, NextHop::Direct));
    assert_eq!(routes.routes.len(), 7, "drop and each next hop once: {:?}", routes.routes);
}

#[test]
fn without_lines_there_are_no_routes() {
    let none: Routes = "# nothing\n\n".parse().unwrap();
    assert_eq!((none.to([10, 0, 0, 1].into()), none.to([0x20; 16].into())), (None, None));
    assert!(none.devices().is_empty() && none.routes.is_empty());
}

#[test]
fn never_forwarded_addresses_have_no_route_but_drop() {
    let routes: Routes = "default dev e0\n::/0 dev e0\n224.0.0.0/4 drop\nff02::/16 drop".parse().unwrap();
    for address in [
        "0.1.2.3",
        "127.0.0.1",
        "169.254.9.9",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:192.0.2.1",
        "fe80::1",
        "ff0e::1",
    ] {
        assert_eq!(routes.to(address.parse().unwrap()), None, "{address}");
        assert!(routes.is_martian(address.parse().unwrap()), "{address}");
    }
    for address in ["224.0.0.5", "239.255.255.250", "ff02::1"] {
        assert_eq!(routes.to(address.parse().unwrap()), Some(&Route::Drop), "{address}");
    }
    for address in ["1.0.0.0", "128.0.0.0", "169.255.0.0", "223.255.255.255"] {
        assert!(routes.to(address.parse().unwrap()).is_some(), "{address}");
    }
    for address in ["::2", "fe7f::", "fec0::", "feff::1"] {
        assert!(routes.to(address.parse().unwrap()).is_some(), "{address}");
    }
}

#[test]
fn reserved_addresses_need_explicit_routes() {
    let parse = |text: &str| -> Routes { text.parse().unwrap() };
    let (unsaid, said) =
        (parse("default dev e0"), parse("default dev e0\n240.0.0.0/8 dev e1\n241.0.0.1 drop"));
    for (address, device, is_martian) in [
        ("240.0.0.0", Some(1), false),
        ("240.255.255.255", Some(1), false),
        ("241.0.0.1", None, false),
        ("241.0.0.2", None, true),
        ("255.255.255.254", None, true),
        ("255.255.255.255", None, true),
    ] {
        let address = address.parse().unwrap();
        assert!(unsaid.to(address).is_none() && unsaid.is_martian(address), "{address}");
        let route = said.to(address).filter(|route| **route != Route::Drop);
        assert_eq!(
            route,
            device.map(|device| Route::Via { device, next_hop: NextHop::Direct }).as_ref(),
            "{address}"
        );
        assert_eq!(said.is_martian(address), is_martian, "{address}");
    }
    let all = parse("240.0.0.0/4 dev e0");
    assert!(all.to([250, 0, 0, 1].into()).is_some() && !all.is_martian([250, 0, 0, 1].into()));
    assert!(all.to([255; 4].into()).is_none() && all.is_martian([255; 4].into()));
}

#[test]
fn packets_from_martian_sources_are_not_routed() {
    let routes: Routes = "default dev e0\n::/0 dev e0".parse().unwrap();
    let is_martian = |source: &str| routes.is_martian(source.parse().unwrap());
    for source in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1"] {
        assert!(!is_martian(source), "{source}");
    }
    for source in ["0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        assert!(is_martian(source), "{source}");
    }
    for source in ["::", "::1", "fe80::1", "ff02::1"] {
        assert!(is_martian(source), "{source}");
    }
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    for (line, expected) in [
        ("10.0.0.0/33 dev e0", r#""10.0.0.0/33" is no prefix: write default, an address"#),
        ("eth0 drop", r#""eth0" is no prefix"#),
        ("10.0.0.1/8 dev e0", "10.0.0.1/8 has bits set behind its length: write 10.0.0.0/8"),
        ("2001:db8::1/32 drop", "write 2001:db8::/32"),
        ("224.0.1.0/24 dev e0", "never forwarded, since it is within 224.0.0.0/4"),
        ("fe80::/64 dev e0", "never forwarded, since it is within fe80::/10"),
        ("10.0.0.0/8", "10.0.0.0/8 goes nowhere: write drop, dev NAME"),
        ("10.0.0.0/8 via 192.0.2.1", "10.0.0.0/8 goes nowhere"),
        ("10.0.0.0/8 dev e0 metric 7", r#""metric" is not understood: after the prefix, write drop"#),
        ("10.0.0.0/8 dev", "dev needs a value: write dev NAME"),
        ("10.0.0.0/8 dev e0 via", "via needs a value: write via ADDRESS"),
        ("10.0.0.0/8 dev e0 lladdr", "lladdr needs a value: write lladdr MAC"),
        ("10.0.0.0/8 dev e0 dev e1", "dev conflicts with an earlier word"),
        ("10.0.0.0/8 dev e0 drop", "drop conflicts with an earlier word"),
        ("10.0.0.0/8 drop dev e0", "dev conflicts with an earlier word"),
        ("10.0.0.0/8 drop drop", "drop conflicts with an earlier word"),
        ("10.0.0.0/8 dev e0 via 192.0.2.1 lladdr 2:0:0:0:0:1", "lladdr conflicts with an earlier word"),
        ("10.0.0.0/8 dev e0 via inet6", r#""inet6" is no address: write that of a router"#),
        ("10.0.0.0/8 dev e0 via fe80::1", "fe80::1 cannot be the next hop to 10.0.0.0/8"),
        ("default dev e0 via fe80::1", "the default route of IPv6 is ::/0"),
        ("10.0.0.0/8 dev e0 via 224.0.0.1", "224.0.0.1 cannot be the next hop"),
        ("10.0.0.0/8 dev e0 via 0.0.0.0", "0.0.0.0 cannot be the next hop"),
        ("10.0.0.0/8 dev e0 lladdr 2:0:0:0:1", r#""2:0:0:0:1" is no Ethernet address"#),
        ("192.0.2.0/24 drop", "192.0.2.0/24 is on line 2 already: take one of them out"),
        ("0.0.0.0/0 drop", "0.0.0.0/0 is on line 3 already"),
    ] {
        let text = format!("# first\n192.0.2.0/24 dev e0\ndefault dev e0\n{line}\n10.9.0.0/16 drop");
        let text = if line.starts_with("default ") { text.replace("default dev e0\n", "\n") } else { text };
        let error = text.parse::<Routes>().unwrap_err().to_string();
        assert!(error.starts_with("line 4 of the routes: ") && error.contains(expected), "{error}");
    }
}
