//! Refused expressions and their messages.

use wirecap_filter::{DEFAULT_SNAPLEN, Error, Filter, LINK_TYPE_ETHERNET};

fn refused(expression: &str) -> Error {
    match Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN) {
        Err(error) => error,
        Ok(_) => panic!("{expression} compiles"),
    }
}

#[test]
fn an_error_quotes_libpcap_and_the_expression_and_gives_a_hint() {
    for (expression, words, hint) in [
        ("tcp prot 80", "syntax error", "pcap-filter(7)"),
        ("host 10.0.0.1 or or", "syntax error", "quote"),
        ("ip and ip6 and tcp[0] = 1 and arp", "rejects all packets", "`or` is meant"),
        ("port nosuchservice", "port", "write the number"),
        ("ifname eth0", "", "leave it out"),
        ("ip broadcast", "netmask", "broadcast address"),
        ("gateway 192.0.2.1", "gateway", "pcap-filter(7)"),
        ("vlan 5000", "VLAN", "pcap-filter(7)"),
        ("net 10.0.0.1/8", "non-network bits", "pcap-filter(7)"),
    ] {
        let text = refused(expression).to_string();
        let complete = text.contains(expression) && text.contains(words) && text.contains(hint);
        assert!(complete, "{expression}: {text}");
    }
}

/// A long expression would hide the rest of the message.
#[test]
fn a_long_expression_is_quoted_by_its_beginning_and_end() {
    let hosts: Vec<_> = (0..2_000).map(|host| format!("host 10.0.{}.{}", host / 250, host % 250)).collect();
    let expression = format!("ip and ({}) or or größer", hosts.join(" or "));
    let text = refused(&expression).to_string();
    let ends =
        text.starts_with("filter `ip and (host 10.0.0.0 or ") && text.contains(" or or größer`: can't parse");
    assert!(ends && text.chars().count() < 500, "{text}");
    let more = expression.chars().count() - 180;
    assert!(text.contains(&format!(" … ({more} more characters) … ")), "{text}");
}

#[test]
fn text_with_a_zero_byte_is_refused() {
    assert!(refused("tcp\0udp").to_string().contains("byte 3"));
}

#[test]
fn a_snapshot_length_of_zero_is_refused() {
    let error = Filter::compile("ip", LINK_TYPE_ETHERNET, 0).unwrap_err();
    assert!(error.to_string().contains("snapshot length 0"), "{error}");
}

#[test]
fn an_empty_expression_lets_everything_through() {
    let filter = Filter::compile("", LINK_TYPE_ETHERNET, 96).unwrap();
    assert_eq!(filter.program().run(&[], 0), 96);
}

/// libpcap's compiler calls itself for each term. This test calls it from a thread with a small stack, as
/// applications have them.
#[test]
fn a_long_list_of_addresses_does_not_overflow_the_stack() {
    let hosts: Vec<_> = (0..400).map(|host| format!("src host 10.{}.{}.1", host / 250, host % 250)).collect();
    let compile = move || Filter::compile(&hosts.join(" or "), LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(compile).unwrap();
    let filter = thread.join().unwrap();
    let mut frame = [0; 60];
    frame[12] = 8;
    frame[26..30].copy_from_slice(&[10, 1, 149, 1]);
    assert!(filter.matches(&frame, 60));
    frame[26] = 11;
    assert!(!filter.matches(&frame, 60));
}
