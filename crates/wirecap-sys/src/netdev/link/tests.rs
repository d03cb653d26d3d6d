use super::*;

/// The link that a test wants; names and kinds as in the kernel's message.
#[derive(Default)]
pub struct LinkMessage {
    pub ifindex: u32,
    pub name: &'static str,
    pub kind: &'static str,
    pub master: Option<u32>,
    pub lower: Option<u32>,
    pub lower_namespace: Option<u32>,
}

/// The link that the kernel's message describes.
pub fn parsed(link: LinkMessage) -> Link {
    let mut header = [0; IFINFOMSG_BYTES];
    header[4..8].copy_from_slice(&link.ifindex.to_ne_bytes());
    let mut message = Message::new(0, &header).with(IFLA_IFNAME, format!("{}\0", link.name).as_bytes());
    let numbers =
        [(IFLA_MASTER, link.master), (IFLA_LINK, link.lower), (IFLA_LINK_NETNSID, link.lower_namespace)];
    for (kind, number) in numbers.into_iter().filter_map(|(kind, number)| Some((kind, number?))) {
        message = message.with(kind, &number.to_ne_bytes());
    }
    let info = Message::new(0, &[]).with(IFLA_INFO_KIND, format!("{}\0", link.kind).as_bytes());
    parse_link("test", &message.with(IFLA_LINKINFO, &info.payload).payload).unwrap()
}

#[test]
fn a_lower_link_is_distinguished_from_the_other_end_of_a_pair() {
    let of = |kind, lower, lower_namespace| {
        let message =
            LinkMessage { ifindex: 9, name: "x", kind, lower, lower_namespace, ..Default::default() };
        let link = parsed(message);
        (link.lower, link.interface.peer)
    };
    assert_eq!(of("vlan", Some(7), None), (Some(7), None));
    assert_eq!(of("macvlan", Some(7), Some(0)), (None, None), "an index of another namespace");
    assert_eq!(of("veth", Some(7), None), (None, Some(7)), "the other end");
    assert_eq!(of("veth", Some(7), Some(0)), (None, None), "the other end in another namespace");
    assert_eq!(of("ipip", Some(0), None), (None, None), "a tunnel bound to no interface");
    assert_eq!(of("bridge", None, None), (None, None));
}

#[test]
fn the_longest_aggregate_is_that_of_either_direction_and_family() {
    let of = |sizes: &[(u16, u32)]| {
        let message = sizes.iter().fold(Message::new(0, &[0; IFINFOMSG_BYTES]), |message, (kind, size)| {
            message.with(*kind, &size.to_ne_bytes())
        });
        parse_link("test", &message.payload).unwrap().interface.longest_aggregate
    };
    assert_eq!(of(&[]), 0, "Linux before 4.16");
    // As <linux/if_link.h> numbers them; 59 is what the driver could do.
    assert_eq!(of(&[(41, 65_536), (58, 131_072), (59, 524_280)]), 131_072);
    assert_eq!(of(&[(41, 185_000), (58, 65_536), (63, 65_536), (64, 65_536)]), 185_000);
    assert_eq!(of(&[(41, 65_536), (58, 65_536), (63, 100_000), (64, 70_000)]), 100_000);
}
