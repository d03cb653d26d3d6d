//! The program in the kernel against [`Template::stamp`]: byte for byte the same frames.

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::bpf::XDP_REDIRECT;

use super::*;
use crate::frame::IpVersion;

#[test]
fn the_kernel_stamps_as_we_do() {
    if !require_root("the_kernel_stamps_as_we_do") {
        return;
    }
    let namespace = Namespace::new("stamp").unwrap();
    let veth = VethPair::new(&namespace, "s0", &namespace, "s1", VethOptions::default()).unwrap();
    let ifindex = veth.a().ifindex().unwrap();
    for (ip, vlan, len) in [
        (IpVersion::V4, None, 60),
        (IpVersion::V4, Some(5), 60),
        (IpVersion::V4, None, 1514),
        (IpVersion::V6, None, 74),
        (IpVersion::V6, Some(5), 79),
    ] {
        let frame = FrameSpec { len, ip, vlan, ..FrameSpec::default() };
        let options = LiveOptions { frame, flows: 300, ..LiveOptions::default() };
        let generator = namespace.enter(|| LiveGenerator::new(ifindex, options)).unwrap();
        let mut ours = Template::new(frame).unwrap();
        for sequence in 0..700 {
            let run = generator.program.test_run(generator.template.bytes(), 1).unwrap();
            assert_eq!(run.action, XDP_REDIRECT as u32);
            assert_eq!(
                run.frame,
                ours.stamp(sequence as u32 % 300, sequence),
                "{frame:?}, sequence {sequence}"
            );
        }
        // Far numbers: the checksum has carries to fold.
        let far = u64::MAX - 3;
        let state = [far.to_ne_bytes(), 299u64.to_ne_bytes()].concat();
        generator.state.update(&0u32.to_ne_bytes(), &state).unwrap();
        let run = generator.program.test_run(generator.template.bytes(), 1).unwrap();
        assert_eq!(run.frame, ours.stamp(299, far), "{frame:?}");
    }
}
