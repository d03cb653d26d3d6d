//! The same filters as socket filters, run by the kernel on socket buffers.

use wirecap_lab::require_root;

use crate::kernel::{SAMPLE, not_for_the_kernel, sample};
use crate::packets::{Draw, Packet, generated};
use crate::trial::trial_for_socket;
use crate::{corpus, traces};

/// The kernel takes these bytes for a link-level header.
const HEADER: [u8; 14] = [0; 14];
/// The longest packet that the kernel's test run takes.
const LONGEST: usize = 3_000;

/// Whether the packet matches.
pub fn verdict(program: &wirecap_sys::bpf::Program, packet: &[u8]) -> bool {
    program.test_run(&[&HEADER, packet].concat(), 1).unwrap().action != 0
}

#[test]
fn socket_filters_agree_with_the_interpreter() {
    if !require_root("socket_filters_agree_with_the_interpreter") {
        return;
    }
    let (mut made, mut real) =
        (generated(8_000), traces::packets("socket_filters_agree_with_the_interpreter"));
    for packets in [&mut made, &mut real] {
        packets.retain(|packet| (1..=LONGEST).contains(&packet.bytes.len()));
    }
    let mut draw = Draw(11);
    let (mut matched, mut rejected) = (0, 0);
    for filter in corpus::filters() {
        let program = match trial_for_socket(filter.program()) {
            Ok(program) => program,
            Err(error) => {
                not_for_the_kernel(&filter, &error);
                continue;
            }
        };
        let packets = [sample(&mut draw, &made, SAMPLE), sample(&mut draw, &real, SAMPLE / 2)].concat();
        for Packet { bytes, .. } in packets {
            let expected = filter.matches(&bytes, bytes.len() as u32);
            assert_eq!(verdict(&program, &bytes), expected, "{}: {bytes:02x?}", filter.expression());
            *if expected { &mut matched } else { &mut rejected } += 1;
        }
    }
    assert!(matched > 1_000 && rejected > 1_000, "{matched} matches, {rejected} rejections");
}
