//! Interpreter and native code agree with `bpf_filter` about every packet.

use wirecap_filter::{DEFAULT_SNAPLEN, Filter, NativeFilter};
use wirecap_sys::pcap;

use crate::packets::{Packet, generated};
use crate::{corpus, traces};

/// Generated packets; without optimisation, a sample of them and of the traces suffices.
const GENERATED: usize = if cfg!(debug_assertions) { 10_000 } else { 20_000 };
const EVERY: usize = if cfg!(debug_assertions) { 8 } else { 1 };

/// Runs a filter everywhere in user space and counts the packets that match.
fn matches(filter: &Filter, packets: &[Packet]) -> usize {
    let program = filter.program();
    let insns = program.insns().unwrap();
    let libpcap = pcap::library().unwrap().filter(&insns).expect("libpcap takes its own code");
    let native =
        NativeFilter::new(program).unwrap_or_else(|error| panic!("{}: {error}", filter.expression()));
    let mut matches = 0;
    for Packet { bytes, wirelen } in packets {
        // `bpf_filter` would loop forever where our run is cut off.
        let decided = program.decide(bytes, *wirelen);
        let expected = decided.map_or(0, |_| libpcap.run(bytes, *wirelen));
        let interpreted = program.run(bytes, *wirelen);
        let compiled = native.matches(bytes, *wirelen);
        assert!(
            interpreted == expected && compiled == expected,
            "{}: bpf_filter {expected}, interpreter {interpreted}, native {compiled}; wirelen {wirelen} of {bytes:02x?}",
            filter.expression()
        );
        matches += usize::from(expected != 0);
    }
    matches
}

#[test]
fn all_agree_on_generated_packets() {
    let packets = generated(GENERATED);
    let (mut all, mut decided) = (0, 0);
    let mut idle = Vec::new();
    for filter in corpus::filters() {
        let matches = matches(&filter, &packets);
        all += 1;
        if (1..packets.len()).contains(&matches) {
            decided += 1;
        } else {
            idle.push(filter.expression().to_owned());
        }
    }
    // A filter with the same verdict for every packet would agree with anything.
    assert!(
        decided * 10 >= all * 9,
        "{decided} of {all} filters distinguish packets; the others are {idle:#?}"
    );
}

#[test]
fn all_agree_on_real_traces() {
    let mut packets = traces::packets("all_agree_on_real_traces");
    let mut index = 0;
    packets.retain(|_| {
        index += 1;
        index % EVERY == 0
    });
    let total: usize = corpus::filters().map(|filter| matches(&filter, &packets)).sum();
    assert!(packets.is_empty() || total > packets.len(), "hardly anything matched: {total}");
}

/// Filters for other links: loopback, raw IP, the two cooked formats of Linux, 802.11 with radiotap.
#[test]
fn all_agree_on_other_link_types() {
    let packets = traces::with_link_types("all_agree_on_other_link_types");
    let mut matched = 0;
    for link_type in [0, 12, 113, 276, 127] {
        let of_link = packets.iter().filter(|(of_packet, _)| *of_packet == link_type);
        let of_link: Vec<_> = of_link.map(|(_, packet)| packet.clone()).collect();
        for expression in
            ["ip", "tcp port 80", "udp or icmp", "ip6 and not tcp", "len > 100", "host 10.0.0.1"]
        {
            let filter = Filter::compile(expression, link_type, DEFAULT_SNAPLEN).unwrap();
            assert_eq!((filter.link_type(), filter.expression()), (link_type, expression));
            matched += matches(&filter, &of_link);
        }
    }
    assert!(packets.is_empty() || matched > 500, "{matched}");
}
