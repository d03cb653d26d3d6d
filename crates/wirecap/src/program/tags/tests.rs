//! Restoring tags in unusual cases: see `tests/capture/vlan_tags.rs` for the others.

use wirecap_lab::{require_root, skip};
use wirecap_sys::bpf::{FrameLength, Link, XdpMode};

use super::*;
use crate::{
    Capture, Diagnostic, Modes,
    port::{
        lab::{Lab, OpenEnd},
        xdp::attempt::ProgramFeatures,
    },
    program::{CaptureProgram, Outlet, ProgramPlan},
};

const FRAMES: u32 = 40;

/// Frames without and with a tag, alternating.
fn frames() -> Vec<Vec<u8>> {
    let frame = |index: u32| {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        frame.extend(if index % 2 == 0 { &[][..] } else { &[0x81, 0, 0x60, 7] });
        frame.extend([0x88, 0xb5, 0, index as u8]);
        frame.resize(20 + index as usize, 9);
        frame
    };
    (0..FRAMES).map(frame).collect()
}

fn without_tags(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let tagged = |frame: &Vec<u8>| frame[12..14] == [0x81, 0];
    let without = |frame: &Vec<u8>| [&frame[..12], &frame[16..]].concat();
    frames.iter().map(|frame| if tagged(frame) { without(frame) } else { frame.clone() }).collect()
}

fn can_ask_drivers(test: &str) -> bool {
    if !require_root(test) {
        return false;
    }
    let can = matches!(KernelFunction::find(RX_VLAN_TAG), Ok(Some(_)));
    if !can {
        skip(
            test,
            "this kernel has no call that asks drivers for VLAN tags (Linux 6.8), or no type information",
        );
    }
    can
}

/// The bytes of all frames, once they have come.
fn receive(opened: &mut OpenEnd) -> Vec<Vec<u8>> {
    opened.receive(FRAMES, 1).into_iter().map(|(_, bytes)| bytes).collect()
}

fn open(lab: &Lab, tags: impl FnOnce(&Interface) -> Tags + Send) -> OpenEnd {
    let opened = lab.open(Modes::Copy, move |interface| {
        Ok(ProgramFeatures { stamping: None, tags: Ok(tags(interface)), hashing: None })
    });
    opened.unwrap()
}

/// From both origins: as on veth, and as on other devices. Each is tried on an interface of its own: a
/// process that another test starts may hold the link of a program for a moment after it was dropped.
const ORIGINS: [fn(&Interface) -> Tags; 2] =
    [|veth| Tags::of(veth).unwrap(), |veth| Tags::by_driver(veth).unwrap()];

/// No driver leaves so little room: each packet is captured without its tag, and counted.
#[test]
fn packets_without_room_for_their_tag_are_counted_and_kept() {
    if !can_ask_drivers("tags::packets_without_room_for_their_tag_are_counted_and_kept") {
        return;
    }
    for tags in ORIGINS {
        for has_room in [false, true] {
            let lab = Lab::new("tagroom");
            let mut opened = open(&lab, |interface| {
                let tags = tags(interface);
                if has_room { tags } else { tags.without_room() }
            });
            lab.send(frames());
            let (expected, untagged) =
                if has_room { (frames(), 0) } else { (without_tags(&frames()), FRAMES / 2) };
            assert_eq!(receive(&mut opened), expected);
            let counts = opened.queue.counts();
            assert_eq!((counts.seen, counts.untagged), (FRAMES.into(), untagged.into()));
            assert!(opened.port.report.untagged.is_some() && opened.port.report.fallbacks.is_empty());
        }
    }
}

/// A packet that no socket takes goes to the host as it came, whatever the program did to it.
#[test]
fn packets_that_no_socket_takes_reach_the_host_with_one_tag() {
    if !can_ask_drivers("tags::packets_that_no_socket_takes_reach_the_host_with_one_tag") {
        return;
    }
    for (captured, tags) in [1, 0].into_iter().flat_map(|captured| ORIGINS.map(|origin| (captured, origin))) {
        let lab = Lab::new("taghost");
        let mut host = lab
            .inside
            .enter(|| Capture::builder().chunks_per_pool(8).workers(1).port("packet:in0").open())
            .unwrap();
        let mut worker = host.take_workers().remove(0);
        let (program, _link) = lab.inside.enter(|| {
            let interface = wirecap_sys::netdev::interface("in0").unwrap();
            let plan = ProgramPlan {
                queues: 1,
                captured,
                longest_frame: Some(2000),
                share: None,
                length: FrameLength::of_kernel(),
                stamping: None,
                tags: Some(tags(&interface)),
                hashing: None,
            };
            let program = CaptureProgram::load(plan, Outlet::sockets(plan.queues).unwrap(), None).unwrap();
            let link = Link::attach_xdp(&program.program, interface.ifindex, XdpMode::Native).unwrap();
            (program, link)
        });
        lab.send(frames());
        let mut heard = Vec::new();
        while heard.len() < FRAMES as usize {
            let batch = worker.next_batch().unwrap();
            heard.extend(batch.packets().map(|packet| packet.data().to_vec()));
        }
        assert_eq!(heard, frames());
        let counts = program.counts(0).unwrap();
        assert_eq!((counts.seen, counts.passed, counts.untagged), (FRAMES.into(), FRAMES.into(), 0));
    }
}

/// If the kernel refuses the program, packets are captured as they are, and the report says why.
#[test]
fn a_program_that_the_kernel_refuses_is_replaced_and_that_is_reported() {
    if !can_ask_drivers("tags::a_program_that_the_kernel_refuses_is_replaced_and_that_is_reported") {
        return;
    }
    let lab = Lab::new("tagnone");
    let mut opened = open(&lab, Tags::not_callable);
    lab.send(frames());
    assert_eq!(receive(&mut opened), without_tags(&frames()));
    let [said] = opened.port.report.fallbacks.as_slice() else {
        panic!("{:?}", opened.port.report.fallbacks)
    };
    let rejected = |cause: &Cause| cause.text.contains("rejected");
    assert!(matches!(said, Diagnostic::VlanTagsNotPutBack { cause } if rejected(cause)), "{said:?}");
    assert!(opened.port.report.untagged.is_none());
}

/// That programs are bound accordingly, and work unbound, is seen where the kernel refuses bound ones: the
/// case `bound-blinded` of the virtual machines.
#[test]
fn only_a_question_to_the_driver_takes_a_bound_program() {
    if !can_ask_drivers("tags::only_a_question_to_the_driver_takes_a_bound_program") {
        return;
    }
    let lab = Lab::new("tagbound");
    let interface = lab.inside.enter(|| wirecap_sys::netdev::interface("in0")).unwrap();
    assert_eq!(Tags::by_driver(&interface).unwrap().bound_to(), Some(interface.ifindex));
    let reads = VethTag::of_kernel().is_some();
    assert_eq!(Tags::of(&interface).unwrap().bound_to(), (!reads).then_some(interface.ifindex));
}
