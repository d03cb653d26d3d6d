//! The kernel program makes the same frames as [`Template::stamp`], byte for byte.

use std::thread;

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::bpf::XDP_REDIRECT;

use super::*;
use crate::{Marks, SEQUENCE_END, layout::IpVersion};

#[test]
fn the_kernel_stamps_frames_like_the_template() {
    if !require_root("the_kernel_stamps_frames_like_the_template") {
        return;
    }
    let namespace = Namespace::new("stamp").unwrap();
    let veth = VethPair::new(&namespace, "s0", &namespace, "s1", VethOptions::default()).unwrap();
    let ifindex = veth.a().ifindex().unwrap();
    for (ip, vlan, len) in [
        (IpVersion::V4, None, 60),
        (IpVersion::V4, Some(5), 64),
        (IpVersion::V4, None, 1514),
        (IpVersion::V6, None, 80),
        (IpVersion::V6, Some(5), 85),
    ] {
        let frame = FrameSpec { len, ip, vlan, run: 0xfedc, ..FrameSpec::default() };
        let options = LiveOptions { frame, flows: 300, ..LiveOptions::default() };
        let generator = namespace.enter(|| LiveGenerator::new(ifindex, options)).unwrap();
        let mut ours = Template::new(frame).unwrap();
        generator.set_time().unwrap();
        let (begun_ns, mut last_ns) = (clock::system_ns(), 0);
        for sequence in 0..700 {
            let run = generator.program.test_run(generator.template.bytes(), 1).unwrap();
            assert_eq!(run.action, XDP_REDIRECT as u32);
            let sent_ns = Marks::read(&run.frame).unwrap().sent_ns;
            assert_eq!(
                run.frame,
                ours.stamp_at(sequence as u32 % 300, sequence, sent_ns),
                "{frame:?}, sequence {sequence}"
            );
            assert!(sent_ns >= last_ns && (sequence % 64 == 0 || sent_ns == last_ns), "sequence {sequence}");
            last_ns = sent_ns;
        }
        let (off_ns, now_ns) = (1_000_000, clock::system_ns());
        assert!((begun_ns - off_ns..=now_ns + off_ns).contains(&last_ns), "{begun_ns} {last_ns} {now_ns}");
        // The first frame of a call, in the middle of a batch: the caller may have waited for a core before.
        generator.set_time().unwrap();
        thread::sleep(Duration::from_millis(20));
        let called_ns = clock::system_ns();
        let run = generator.program.test_run(generator.template.bytes(), 1).unwrap();
        let sent_ns = Marks::read(&run.frame).unwrap().sent_ns;
        assert!(sent_ns + off_ns >= called_ns, "{sent_ns} {called_ns}");
        // High numbers give the checksum carries to fold.
        let far = SEQUENCE_END - 3;
        let state = [far, 299, u64::MAX, 0].map(u64::to_ne_bytes).concat();
        generator.state.update(&0u32.to_ne_bytes(), &state).unwrap();
        let run = generator.program.test_run(generator.template.bytes(), 1).unwrap();
        assert_eq!(run.frame, ours.stamp_at(299, far, u64::MAX), "{frame:?}");
    }
}
