//! Captured traffic, sent again over a veth pair and captured: packet by packet, byte by byte, in order per
//! queue.
//!
//! The traces are those of [`wirecap_lab::trace_files`], and always a small one made here.

use std::{collections::VecDeque, env, fs, io::Write, path::Path};

use wirecap::{Capture, Dispatch};
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::VethOptions;
use wirecap_testing::{MAX_PACKET_LEN, MIN_PACKET_LEN};
use wirecap_traffic::{FrameSpec, IpVersion, Template};

use wirecap_testing::{
    check,
    crew::{Arrival, Crew},
    need_root, wait_or_explain,
    wire::Wire,
};

/// The most frames under way: the largest take 37 cells each, and a pool has 16,384. A veth's ring holds 256,
/// some of which may be used up and not given back yet.
const UNDER_WAY: u64 = 128;
const QUEUES: u16 = 2;

#[test]
fn traces_are_captured_as_sent() {
    need_root!("traces::traces_are_captured_as_sent");
    let Some(paths) = wirecap_lab::trace_files("traces::traces_are_captured_as_sent") else { return };
    let (mut traces, mut sent, mut unsendable) = (0, 0, 0);
    for path in paths {
        let Some((frames, left_out)) = ethernet_frames(&path) else { continue };
        if left_out > 0 {
            say(&format!("{}: {left_out} frames cannot be sent", path.display()));
        }
        if frames.is_empty() {
            unsendable += left_out;
            continue;
        }
        // Each dispatch mode gets every second trace; there are enough for both.
        let dispatch = if traces % 2 == 0 { Dispatch::Pull } else { Dispatch::Push };
        sends_and_captures(&path.display().to_string(), &frames, dispatch);
        traces += 1;
        sent += frames.len();
        unsendable += left_out;
    }
    say(&format!("{traces} traces, {sent} frames sent and captured, {unsendable} cannot be sent"));
    assert!(sent > 0, "no frames");
}

#[test]
fn a_small_trace_is_captured_as_sent() {
    need_root!("traces::a_small_trace_is_captured_as_sent");
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for frame in small_trace() {
        let header = PacketHeader { original_len: frame.len() as u32, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, u32::MAX, [frame.as_slice()]);
    }
    let path = env::temp_dir().join(format!("wirecap-trace-{}.pcap", std::process::id()));
    fs::write(&path, file).unwrap();
    let read = ethernet_frames(&path);
    fs::remove_file(&path).unwrap();
    let (frames, left_out) = read.unwrap();
    assert_eq!((frames.len() + left_out, left_out), (small_trace().len(), 2));
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        sends_and_captures("small trace", &frames, dispatch);
    }
}

/// Flows over IPv4 and IPv6 with and without VLAN tags, of all sizes; twins; and frames that are no packets
/// at all.
fn small_trace() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, len) in (84..9_000).step_by(37).enumerate() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            for vlan in [None, Some(7)] {
                let spec = FrameSpec { len, ip, vlan, ..FrameSpec::default() };
                let mut template = Template::new(spec).unwrap();
                frames.push(template.stamp(index as u32, len as u64).to_vec());
            }
        }
    }
    frames.extend(frames[..20].to_vec());
    frames.extend((MIN_PACKET_LEN..60).map(|len| vec![len as u8; len]));
    frames.extend([vec![0; MAX_PACKET_LEN], vec![0xff; MAX_PACKET_LEN - 1]]);
    frames.extend([vec![1; MIN_PACKET_LEN - 1], vec![1; MAX_PACKET_LEN + 1]]);
    frames
}

/// The Ethernet frames of a file that can be sent, and how many cannot; `None` if the file is no capture or
/// has none.
fn ethernet_frames(path: &Path) -> Option<(Vec<Vec<u8>>, usize)> {
    let capture = wirecap_lab::Capture::read(fs::File::open(path).ok()?).ok()?;
    let ethernet = capture.packets.into_iter().filter(|packet| packet.link_type == LINK_TYPE_ETHERNET);
    let (frames, others): (Vec<_>, Vec<_>) = ethernet
        .map(|packet| packet.data)
        .partition(|frame| (MIN_PACKET_LEN..=MAX_PACKET_LEN).contains(&frame.len()));
    (!frames.is_empty() || !others.is_empty()).then_some((frames, others.len()))
}

fn sends_and_captures(name: &str, frames: &[Vec<u8>], dispatch: Dispatch) {
    let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
    let mtu = (longest - MIN_PACKET_LEN).max(1500) as u32;
    let wire = Wire::new("traces", VethOptions { queues: QUEUES.into(), mtu, ..VethOptions::default() });
    let mut capture = wire.capture(Capture::builder().chunks_per_pool(64).dispatch(dispatch));
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    for frame in frames {
        sender.send(frame).unwrap_or_else(|error| panic!("{name}: {error}"));
        if sender.frames() % (UNDER_WAY / 2) == 0 {
            wait_or_explain(
                || format!("{} frames of {name}: {}", sender.frames(), wire.explain(&capture)),
                || sender.frames() <= crew.arrived() + UNDER_WAY / 2,
            );
        }
    }
    wait_or_explain(
        || format!("{} frames of {name}, {dispatch:?}: {}", frames.len(), wire.explain(&capture)),
        || crew.arrived() >= frames.len() as u64,
    );
    capture.stopper().stop();
    let arrivals = crew.join();
    let account = check::account_closed(&capture.finish());
    assert_eq!((account.seen, account.delivered), (frames.len() as u64, frames.len() as u64), "{name}");
    assert_interleaved(name, frames, &arrivals);
}

/// Asserts that the frames are those of the queues, each queue's in order. Frames with the same bytes have
/// the same flow hash, so they come from the same queue: the next frame is at the head of only one queue.
fn assert_interleaved(name: &str, frames: &[Vec<u8>], arrivals: &[Arrival]) {
    let mut queues: Vec<VecDeque<&Arrival>> =
        check::in_order(arrivals).into_values().map(VecDeque::from).collect();
    for (index, frame) in frames.iter().enumerate() {
        let head = queues.iter_mut().find(|queue| queue.front().is_some_and(|head| head.bytes == *frame));
        let head = head.unwrap_or_else(|| panic!("{name}: frame {index} is not the next of any queue"));
        head.pop_front();
    }
    assert!(queues.iter().all(VecDeque::is_empty), "{name}: more came than was sent");
}

/// Prints a line even under a test runner that captures output.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
