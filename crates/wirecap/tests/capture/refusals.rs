//! Ports that cannot be opened are refused before anything is changed, with a hint.

use wirecap::{Builder, Capture, Error, Mode, Modes, PortSpec, Rss, port::null::NullPort};
use wirecap_lab::{Namespace, VethOptions};

use wirecap_testing::{need_root, wait_until, wire::Wire};

fn null(queues: u16) -> PortSpec {
    NullPort { queues, packet_bytes: 60, packets_per_queue: 0 }.into()
}

/// Asserts that opening fails, with all of `words` in the message.
#[track_caller]
fn refused(builder: Builder, words: &[&str]) -> Error {
    let error = builder.open().map(|_| ()).expect_err("the ports cannot be opened");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    error
}

#[test]
fn impossible_sizes_are_refused() {
    let with = || Capture::builder().port(null(1));
    refused(with().cells_per_chunk(100), &["M", "100", "power of two", "try 128"]);
    refused(with().cells_per_chunk(0), &["M", "0", "try 1"]);
    refused(with().cells_per_chunk(1 << 20), &["M", "try 16384"]);
    refused(with().chunks_per_pool(0), &["R", "0"]);
    refused(with().cells_per_chunk(1 << 14).chunks_per_pool(1 << 12), &["R x M", "at most 4194304"]);
    refused(with().cell_bytes(3000), &["3000", "2048 or 4096"]);
    refused(with().ring_entries(1000), &["1000", "power of two"]);
    refused(with().ring_entries(1 << 30), &["1073741824", "to 32768"]);
    refused(with().ring_entries(64), &["64", "from M = 256 to 32768"]);
    let error = Mode::advanced(101).unwrap_err().to_string();
    assert!(error.contains("101") && error.contains("0 to 100"), "{error}");
    // Sizes that do work, so that the refusals above have no other reason.
    with().open().unwrap();
    with().ring_entries(256).open().unwrap();
}

#[test]
fn more_memory_than_available_is_refused() {
    let huge = Capture::builder().cells_per_chunk(1 << 14).chunks_per_pool(1 << 8).cell_bytes(4096);
    // 16 GiB a pool, and its page tables.
    refused(huge.port(null(1000)), &["16544000 MiB", "are available"]);
}

#[test]
fn impossible_threads_are_refused() {
    let with = || Capture::builder().port(null(2)).chunks_per_pool(4);
    refused(with().workers(1000), &["workers", "1000", "256"]);
    refused(with().mode(Mode::Basic).workers(3), &["workers (3)", "packets come by (2)", "basic mode"]);
    refused(with().workers(0), &["0 workers"]);
    refused(with().worker_cores([0, 1023]), &["core 1023"]);
    refused(with().capture_cores([99_999]), &["core 99999"]);
    let mut advanced = with().workers(3).worker_cores([0]).open().unwrap();
    assert_eq!(advanced.take_workers().len(), 3);
}

#[test]
fn missing_repeated_and_too_many_ports_are_refused() {
    refused(Capture::builder(), &["no interface"]);
    refused(Capture::builder().port(null(2000)), &["receive queues of one port", "2000", "1024"]);
    let many = (0..64).fold(Capture::builder(), |builder, _| builder.port(null(1)));
    // Of the 64 numbers of ports, the last one belongs to the allocators.
    refused(many, &["ports", "64", "63"]);
    need_root!("refusals::missing_repeated_and_too_many_ports_are_refused");
    let wire = Wire::with_queues("twice", 1);
    wire.inside.enter(|| {
        refused(Capture::builder().port("in0").port("xdp:in0"), &["in0", "twice"]);
    });
}

#[test]
fn unknown_names_are_refused() {
    need_root!("refusals::unknown_names_are_refused");
    let wire = Wire::with_queues("names", 1);
    wire.inside.ip(&["link", "set", "dev", "in0", "down"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "in0", "name", "capture0"]).unwrap();
    wire.inside.enter(|| {
        refused(Capture::builder().port("captur0"), &["captur0", "did you mean \"capture0\"?"]);
        refused(Capture::builder().port("xdp:capture1"), &["capture1", "did you mean \"capture0\"?"]);
        let far = refused(Capture::builder().port("zz"), &["no interface named \"zz\""]);
        assert!(!far.to_string().contains("did you mean"), "{far}");
        refused(Capture::builder().port(""), &["empty"]);
        refused(Capture::builder().port("n".repeat(200)), &["200 bytes", "15", "127"]);
    });
}

#[test]
fn interfaces_that_are_down_or_not_ethernet_are_refused() {
    need_root!("refusals::interfaces_that_are_down_or_not_ethernet_are_refused");
    let wire = Wire::with_queues("down", 1);
    wire.veth.b().set_down().unwrap();
    wire.inside.ip(&["tuntap", "add", "dev", "tun0", "mode", "tun"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "tun0", "up"]).unwrap();
    wire.inside.enter(|| {
        refused(Capture::builder().port("in0"), &["in0 is down", "ip link set in0 up"]);
        refused(Capture::builder().port("packet:in0"), &["in0 is down", "ip link set in0 up"]);
        refused(Capture::builder().port("xdp:tun0"), &["tun0", "type none", "Ethernet"]);
        refused(Capture::builder().port("xdp:lo"), &["lo", "loopback", "Ethernet"]);
    });
}

#[test]
fn the_other_end_of_a_pair_is_not_on_top() {
    need_root!("refusals::the_other_end_of_a_pair_is_not_on_top");
    let namespace = Namespace::new("pair").unwrap();
    let addresses_a = vec!["192.0.2.1/24".into()];
    let options = VethOptions { addresses_a, ..VethOptions::default() };
    let _pair = wirecap_lab::VethPair::new(&namespace, "out0", &namespace, "in0", options).unwrap();
    namespace.enter(|| drop(Capture::builder().chunks_per_pool(4).port("in0").open().unwrap()));
}

/// A process that another test is just starting has our descriptors until it executes its program.
fn wait_until_given_back() {
    wait_until("in0 is given back", || {
        let interface = wirecap_sys::netdev::interface("in0").unwrap();
        interface.xdp_programs.is_empty() && interface.promiscuity == 0
    });
}

#[test]
fn a_refusal_leaves_the_other_ports_alone() {
    need_root!("refusals::a_refusal_leaves_the_other_ports_alone");
    let wire = Wire::with_queues("undone", 2);
    let other = Namespace::new("undone_other").unwrap();
    let options = VethOptions::default();
    let second = wirecap_lab::VethPair::new(&other, "out1", &wire.inside, "in1", options).unwrap();
    second.b().set_down().unwrap();
    wire.inside.enter(|| {
        refused(Capture::builder().port("in0").port("in1"), &["in1 is down"]);
        wait_until_given_back();
        drop(Capture::builder().port("in0").open().unwrap());
    });
}

#[test]
fn an_xdp_mode_for_an_interface_of_the_host_is_refused() {
    need_root!("refusals::an_xdp_mode_for_an_interface_of_the_host_is_refused");
    let addresses_b = vec!["192.0.2.2/24".into()];
    let wire = Wire::new("modes", VethOptions { addresses_b, ..VethOptions::default() });
    wire.inside.enter(|| {
        let copy = |port: &str| Capture::builder().chunks_per_pool(4).modes(Modes::Copy).port(port);
        refused(copy("in0"), &["in0 is captured passively"]);
        drop(copy("xdp:in0").open().unwrap());
    });
}

#[test]
fn symmetric_rss_is_refused_where_the_nic_has_none() {
    need_root!("refusals::symmetric_rss_is_refused_where_the_nic_has_none");
    let addresses_b = vec!["192.0.2.2/24".into()];
    let wire = Wire::new("rss", VethOptions { queues: 2, addresses_b, ..VethOptions::default() });
    wire.inside.enter(|| {
        let symmetric = |port: &str| Capture::builder().chunks_per_pool(4).rss(Rss::Symmetric).port(port);
        let error = refused(symmetric("xdp:in0"), &["RSS of in0 cannot be made symmetric"]);
        assert!(
            matches!(&error, Error::Rss { .. }) && format!("{error:?}").contains("not supported"),
            "{error:?}"
        );
        refused(symmetric("xdp:in0@1"), &["RSS of in0 cannot be made symmetric"]);
        wait_until_given_back();
        refused(symmetric("in0"), &["in0 is captured passively"]);
        drop(Capture::builder().rss(Rss::Symmetric).chunks_per_pool(4).port(null(1)).open().unwrap());
    });
}
