//! The same filters as XDP programs, run by the kernel on the same packets.
//!
//! The kernel's test run takes frames of 14 bytes and more, as every driver does, and up to one page less
//! head- and tailroom in the first buffer; longer frames go to programs with `frags`, in several buffers. The
//! test run gets the whole packet: the length on the wire is the number of bytes.

use std::process::Command;

use wirecap_filter::{DEFAULT_SNAPLEN, Error, Filter, Insn, LINK_TYPE_ETHERNET, Program};
use wirecap_lab::require_root;

use crate::packets::{Draw, Packet, generated};
use crate::trial::{Verdict, trial};
use crate::{corpus, traces};

const FRAME_LENGTHS: std::ops::RangeInclusive<usize> = 14..=3_400;
/// Packets for each expression: a test run takes some ten microseconds.
pub const SAMPLE: usize = if cfg!(debug_assertions) { 100 } else { 400 };

pub fn sample(draw: &mut Draw, packets: &[Packet], count: usize) -> Vec<Packet> {
    if packets.is_empty() {
        Vec::new()
    } else {
        (0..count).map(|_| packets[draw.below(packets.len())].clone()).collect()
    }
}

/// Of the corpus, only filters with loops are refused.
pub fn not_for_the_kernel(filter: &Filter, error: &Error) {
    let loops = filter.program().loops() && filter.expression().contains("protochain");
    assert!(loops && matches!(error, Error::Loops), "{}: {error}", filter.expression());
}

pub fn verdict(program: &wirecap_sys::bpf::Program, packet: &[u8]) -> Verdict {
    let run = program.test_run(packet, 1).unwrap();
    assert_eq!(run.frame, packet, "a filter changes nothing");
    Verdict::from_action(run.action).unwrap_or_else(|| panic!("action {}", run.action))
}

#[test]
fn the_kernel_agrees_with_the_interpreter() {
    if !require_root("the_kernel_agrees_with_the_interpreter") {
        return;
    }
    let (mut made, mut real) = (generated(8_000), traces::packets("the_kernel_agrees_with_the_interpreter"));
    for packets in [&mut made, &mut real] {
        packets.retain(|packet| FRAME_LENGTHS.contains(&packet.bytes.len()));
    }
    let mut draw = Draw(7);
    let (mut matched, mut rejected) = (0, 0);
    for filter in corpus::filters() {
        let program = match trial(filter.program(), false) {
            Ok(program) => program,
            Err(error) => {
                not_for_the_kernel(&filter, &error);
                continue;
            }
        };
        let packets = [sample(&mut draw, &made, SAMPLE), sample(&mut draw, &real, SAMPLE / 2)].concat();
        for Packet { bytes, .. } in packets {
            let expected = filter.matches(&bytes, bytes.len() as u32);
            let verdict = verdict(&program, &bytes);
            assert_eq!(verdict == Verdict::Matches, expected, "{}: {bytes:02x?}", filter.expression());
            *if expected { &mut matched } else { &mut rejected } += 1;
        }
    }
    assert!(matched > 1_000 && rejected > 1_000, "{matched} matches, {rejected} rejections");
}

/// Packets of several buffers: the kernel decides those for which the first buffer suffices; user space
/// decides the rest.
#[test]
fn a_filter_on_later_buffers_is_left_undecided() {
    if !require_root("a_filter_on_later_buffers_is_left_undecided") {
        return;
    }
    let mut jumbo: Vec<u8> = generated(1).remove(0).bytes;
    jumbo.resize(9_000, 0x5a);
    jumbo[12..14].copy_from_slice(&[8, 0]);
    for (expression, expected) in [
        ("ip", Verdict::Matches),
        ("arp", Verdict::Rejects),
        ("len = 9000", Verdict::Matches),
        ("greater 9001", Verdict::Rejects),
        ("ether[3000] = 0x5a", Verdict::Matches),
        ("ether[8999] = 0x5a", Verdict::Beyond),
        ("ether[8999] = 0", Verdict::Beyond),
        ("arp and ether[8999] = 0x5a", Verdict::Rejects),
        ("ip and ether[8999] = 0x5a", Verdict::Beyond),
        ("ether[ether[0:4]] = 0x5a", Verdict::Rejects),
        ("ether[(ether[3000] << 24) + 70000] = 0x5a", Verdict::Rejects),
        ("ether[len - 1] = 0x5a", Verdict::Beyond),
        ("ip or ether[8999] = 0", Verdict::Matches),
    ] {
        let filter = Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
        let program = trial(filter.program(), true).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(verdict(&program, &jumbo), expected, "{expression}");
        // In one buffer, everything is decided or outside the packet.
        let decided = match filter.matches(&jumbo[..1_000], 1_000) {
            true => Verdict::Matches,
            false => Verdict::Rejects,
        };
        assert_eq!(verdict(&program, &jumbo[..1_000]), decided, "{expression}");
    }
}

#[test]
fn an_error_says_where_a_filter_runs_that_the_kernel_cannot_run() {
    let far = Filter::compile("ether[40000] = 1", LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
    let error = trial(far.program(), false).unwrap_err().to_string();
    assert!(error.contains("40001") && error.contains("user space"), "{error}");

    // Each comparison jumps to the end, farther than a jump can reach.
    let mut long = vec![Insn::new(0x20, 0, 0, 26)];
    for host in 0..20_000 {
        long.extend([Insn::new(0x15, 0, 1, host), Insn::new(0x05, 0, 0, 2 * (20_000 - host) - 1)]);
    }
    long.extend([Insn::new(0x06, 0, 0, 0), Insn::new(0x06, 0, 0, 1)]);
    let long = Program::new(long).unwrap();
    let error = trial(&long, false).unwrap_err().to_string();
    assert!(error.contains("32,767") && error.contains("user space"), "{error}");
    let frame = |host: u32| [[0; 26].as_slice(), &host.to_be_bytes(), &[0; 30]].concat();
    assert_eq!((long.run(&frame(19_999), 60), long.run(&frame(20_000), 60)), (1, 0), "user space runs it");
}

/// Set in the process of the following test that has dropped its privilege.
const CHILD: &str = "WIRECAP_FILTER_WITHOUT_PERFMON";

#[test]
fn a_missing_capability_is_named() {
    if std::env::var_os(CHILD).is_some() {
        for expression in ["tcp port 80", "greater 100"] {
            let filter = Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
            let error = trial(filter.program(), false).unwrap_err();
            assert!(matches!(error, Error::KernelPrivilege(_)), "{expression}: {error}");
            assert!(error.to_string().contains("CAP_PERFMON"), "{error}");
        }
        let filter = Filter::compile("ip and ip[8] = 64", LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
        trial(filter.program(), false).expect("constant offsets need no more than loading does");
    } else if require_root("a_missing_capability_is_named") {
        let child = Command::new("setpriv")
            .arg("--bounding-set=-all,+bpf,+net_admin")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "kernel::a_missing_capability_is_named"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
}
