//! Less common filters of libpcap: loops, data that only sockets have, and offsets outside the packet.

use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::require_root;
use wirecap_testing::{PacketSender, SendPath};

use wirecap_testing::chains;

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP, read};

const CHAINS: usize = 140;

/// Frames of UDP over IPv6 that the filter finds after their chain of headers.
fn chains_to_udp() -> Vec<Vec<u8>> {
    let is_wanted = |(index, _): &(usize, Vec<u8>)| index % 2 == 0 && index % chains::ENDLESS_EVERY != 0;
    let untagged = |(index, _): &(usize, Vec<u8>)| index % 3 != 0;
    let frames = chains::frames(CHAINS).into_iter().enumerate().filter(is_wanted).filter(untagged);
    frames.map(|(_, frame)| frame).collect()
}

fn send(lab: &Lab, frames: &[Vec<u8>]) {
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    frames.iter().for_each(|frame| sender.send(frame).unwrap());
}

fn replay(arguments: &[&str]) -> CommandOutput {
    let mut command = std::process::Command::new(WIRECAP);
    command.args(["capture", "--json"]).args(arguments);
    RunningCommand::spawn(command).wait()
}

fn trace(lab: &Lab, frames: &[Vec<u8>]) -> String {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for frame in frames {
        let header = PacketHeader { original_len: frame.len() as u32, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [frame.as_slice()]);
    }
    let path = lab.path("trace.pcap");
    std::fs::write(&path, file).unwrap();
    format!("trace:{}", path.display())
}

#[test]
fn a_chain_of_headers_is_followed_on_every_port_and_reported() {
    if !require_root("a_chain_of_headers_is_followed_on_every_port_and_reported") {
        return;
    }
    let frames = chains::frames(CHAINS);
    let filter = "ip6 protochain 17";
    let check = |lab: &Lab, ended: &CommandOutput, port: &str| {
        assert_eq!(ended.code, Some(0), "{port}: {ended:#?}");
        assert!(ended.stderr.contains("the filter runs in user space, as native code"), "{}", ended.stderr);
        let runs = format!(r#""filter":{{"expression":"{filter}","runs":"native-code"}}"#);
        assert!(String::from_utf8_lossy(&ended.stdout).contains(&runs), "{port}: {ended:#?}");
        assert_eq!(ended.account().sum("filtered") as usize, CHAINS - chains_to_udp().len(), "{port}");
        let got: Vec<_> =
            read(&lab.path("udp.pcapng")).packets.into_iter().map(|packet| packet.data).collect();
        assert!(got == chains_to_udp(), "{port}: {}", got.len());
    };
    for port in ["r0", "packet:r0"] {
        let lab = Lab::with_queues("chains", 1);
        let path = lab.path("udp.pcapng");
        let running = lab.capture(&[port, "-w", path.to_str().unwrap(), "--filter", filter]);
        send(&lab, &frames);
        let ended = running.stop();
        check(&lab, &ended, port);
        let reason = "the filter is not in the kernel: the filter loops (protochain), and";
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    }
    let lab = Lab::new("chainfile", &[]);
    let path = lab.path("udp.pcapng");
    let ended = replay(&[&trace(&lab, &frames), "-w", path.to_str().unwrap(), filter]);
    check(&lab, &ended, "replay");
}

#[test]
fn directions_are_distinguished_beside_the_host() {
    if !require_root("directions_are_distinguished_beside_the_host") {
        return;
    }
    let lab = Lab::with_queues("directions", 1);
    let ifindex = lab.pairs[0].b().ifindex().unwrap();
    let frames = chains::frames(20);
    for (filter, wanted) in
        [("inbound".to_owned(), &frames[..10]), (format!("outbound and ifindex {ifindex}"), &frames[10..])]
    {
        let path = lab.path("direction.pcapng");
        let running = lab.capture(&["packet:r0", "-w", path.to_str().unwrap(), "--filter", &filter]);
        send(&lab, &frames[..10]);
        let mut back = lab.right.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        frames[10..].iter().for_each(|frame| back.send(frame).unwrap());
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.stderr.contains("the filter runs in the kernel"), "{}", ended.stderr);
        assert_eq!(ended.account().sum("filtered"), 10, "{filter}");
        let got: Vec<_> = read(&path).packets.into_iter().map(|packet| packet.data).collect();
        assert!(got == wanted, "{filter}: {}", got.len());
    }
}

#[test]
fn packets_taken_from_the_host_are_inbound_and_a_file_has_no_direction() {
    if !require_root("packets_taken_from_the_host_are_inbound_and_a_file_has_no_direction") {
        return;
    }
    let lab = Lab::with_queues("incoming", 1);
    let frames = chains::frames(20);
    for (filter, wanted) in [("inbound", 20), ("outbound", 0)] {
        let running = lab.capture(&["r0", "--filter", filter]);
        send(&lab, &frames);
        let ended = running.stop();
        assert!(ended.stderr.contains("`inbound` matches all packets, `outbound` none"), "{}", ended.stderr);
        assert_eq!(ended.account().sum("delivered"), wanted, "{filter}");
    }
    for filter in ["inbound", "not ifindex 1 and udp"] {
        let ended = replay(&[&trace(&lab, &frames), filter]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        let told = ended.stderr.contains(filter) && ended.stderr.contains("not supported when reading files");
        assert!(told && ended.has_one_line_of_stderr(), "{}", ended.stderr);
    }
}

#[test]
fn an_offset_before_the_packet_rejects_it() {
    if !require_root("an_offset_before_the_packet_rejects_it") {
        return;
    }
    let lab = Lab::with_queues("before", 1);
    let frames = chains::frames(20);
    // As in tcpdump, the negation rejects the packet, too.
    for (filter, wanted) in
        [("link[-5] = 1", 0), ("not link[-5] = 1", 0), ("ip6 or vlan or link[-5] = 1", 20)]
    {
        for port in ["r0", "packet:r0"] {
            let running = lab.capture(&[port, "--filter", filter]);
            send(&lab, &frames);
            let ended = running.stop();
            assert!(ended.stderr.contains("the filter runs in the kernel"), "{}", ended.stderr);
            assert_eq!(ended.account().sum("delivered"), wanted, "{port}: {filter}");
        }
        let ended = replay(&[&trace(&lab, &frames), filter]);
        assert_eq!(ended.account().sum("delivered"), wanted, "replay: {filter}");
    }
}

#[test]
fn a_long_filter_is_refused_with_its_two_ends() {
    if !require_root("a_long_filter_is_refused_with_its_two_ends") {
        return;
    }
    let lab = Lab::with_queues("longbad", 1);
    let long = format!("{} nonsense", "tcp or ".repeat(6_000));
    for filter in [long.clone(), long.replace(' ', "_")] {
        let ended = lab.spawn(&["capture", "r0", &filter]).wait();
        assert_eq!(ended.code, Some(2), "{:?}", ended.code);
        assert!(ended.stderr.len() < 600 && ended.stderr.contains("nonsense"), "{:.2000}", ended.stderr);
        assert!(ended.stderr.contains(" more characters) "), "{:.2000}", ended.stderr);
    }
}
