//! Programs that are bound to an interface, when the interface is deleted.
//!
//! A kernel that loses track of such a program crashes and takes all network configuration with it, so these
//! tests run in virtual machines only.

use std::{fs, thread, time::Duration};

use wirecap::{Capture, Diagnostic, Modes, Timestamp};
use wirecap_sys::{
    bpf::{
        self, Alu, Assembler, Bytecode, Cond, Helper, Map, MapKind, MapSpec, Program, ProgramKind,
        ProgramSpec, Reg, Size, VethTag, XDP_PASS,
    },
    netdev,
};
use wirecap_testing::kernel_is_at_least;

use super::Case;
use crate::machine::{Machine, run};

pub(super) const CASES: [Case; 3] =
    [("bound-deleted", deleted), ("bound-captured", captured), ("bound-blinded", blinded)];

pub(super) const VETH: &str = "bound0";
/// Its other end.
pub(super) const PEER: &str = "bound1";
/// The kernel's setting for blinding constants.
const HARDEN: &str = "/proc/sys/net/core/bpf_jit_harden";
/// A page holds about 505 instructions, so some of these programs almost fill one page, and some two. The
/// verifier adds about 50 to each.
const LENGTHS: std::ops::RangeInclusive<usize> = 400..=1_100;

/// A pair of virtual interfaces that exists while `body` runs, unless that deletes it.
pub(super) fn with_veth(body: impl FnOnce()) {
    run("ip", &["link", "add", VETH, "type", "veth", "peer", "name", PEER]);
    run("ip", &["link", "set", VETH, "up"]);
    run("ip", &["link", "set", PEER, "up"]);
    body();
    if netdev::interface(VETH).is_ok() {
        delete();
    }
}

fn delete() {
    run("ip", &["link", "del", VETH]);
}

fn has_bound_programs() -> bool {
    // Before, programs were bound only to be offloaded to a NIC.
    let has = kernel_is_at_least(6, 3);
    if !has {
        println!(
            "bound: this kernel has no programs that are bound to an interface and run on the host (6.3)"
        );
    }
    has
}

/// Programs of many lengths, each with instructions that the verifier replaces by longer sequences. Each is
/// loaded while its interface is deleted, and released afterwards.
fn deleted(_: &Machine) {
    if !has_bound_programs() {
        return;
    }
    let spec = MapSpec { kind: MapKind::Array, key_size: 4, value_size: 8, max_entries: 4, name: "bound" };
    let map = Map::create(&spec).unwrap();
    for len in LENGTHS.step_by(20) {
        with_veth(|| {
            let code = assemble(len, &map);
            let bound_to = Some(netdev::interface(VETH).unwrap().ifindex);
            let spec = ProgramSpec { bound_to, ..ProgramSpec::new(ProgramKind::Xdp, "bound", &code) };
            let program = Program::load(&spec).unwrap();
            delete();
            drop(program);
        });
    }
    // Programs are freed in the background, where the kernel would crash as well.
    thread::sleep(Duration::from_secs(1));
}

/// A program of `len` instructions that looks eight times into a map.
fn assemble(len: usize, map: &Map) -> Bytecode {
    use Reg::{R0, R1, R2, R7, R10};
    let mut asm = Assembler::new();
    let end = asm.label();
    asm.mov_imm(R7, 0).store_imm(Size::Word, R10, -4, 0);
    for _ in 0..8 {
        asm.load_map_fd(R1, map).mov(R2, R10).alu64(Alu::Add, R2, -4);
        asm.call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, end);
    }
    while asm.len() + 2 < len {
        asm.alu64(Alu::Add, R7, 1);
    }
    asm.bind(end).mov_imm(R0, XDP_PASS).exit();
    asm.finish().unwrap()
}

/// The interface is deleted while it is captured by programs that ask the driver for tags and hashes, with
/// filters of several lengths.
fn captured(_: &Machine) {
    if !has_bound_programs() {
        return;
    }
    let hosts = |count: u32| (1..=count).map(|host| format!("host 198.18.0.{host}")).collect::<Vec<_>>();
    for modes in [Modes::Packed, Modes::Copy] {
        for count in [1, 8, 40] {
            with_veth(|| {
                let builder = Capture::builder().modes(modes).timestamp(Timestamp::Kernel).rx_hash(true);
                let builder = builder.filter(hosts(count).join(" or ")).port(format!("xdp:{VETH}"));
                let capture = builder.open().unwrap();
                delete();
                capture.stopper().stop();
                drop(capture);
            });
        }
    }
    thread::sleep(Duration::from_secs(1));
}

/// Where the kernel blinds constants, nothing is bound: a capture goes on without what it can do without, and
/// reports why; what it was asked for is refused. Tags of a veth can be read by a program that is not bound.
fn blinded(_: &Machine) {
    if !has_bound_programs() {
        return;
    }
    let before = fs::read_to_string(HARDEN).unwrap();
    fs::write(HARDEN, "2").unwrap();
    with_veth(|| {
        let builder = || Capture::builder().port(format!("xdp:{VETH}"));
        let capture = builder().open().unwrap();
        let fallbacks = capture.report().ports[0].fallbacks.clone();
        drop(capture);
        let metadata =
            netdev::interface(VETH).unwrap().xdp_features.and_then(|features| features.rx_metadata);
        let cause = fallbacks.iter().find_map(|fallback| match fallback {
            Diagnostic::VlanTagsNotPutBack { cause } => Some(cause),
            _ => None,
        });
        let asks = metadata.is_some_and(|metadata| metadata.vlan_tag) && VethTag::of_kernel().is_none();
        assert_eq!(cause.is_some(), asks, "{fallbacks:?}");
        if let Some(cause) = cause {
            assert!(cause.text.contains("bpf_jit_harden"), "{cause:?}");
            println!("bound-blinded: {}", cause.text);
        }
        let error = builder().rx_hash(true).open().map(drop).unwrap_err();
        assert!(is_blinded(&error), "{error:?}");
        println!("bound-blinded: {error}");
        delete();
    });
    fs::write(HARDEN, before.trim()).unwrap();
    thread::sleep(Duration::from_secs(1));
}

fn is_blinded(error: &wirecap::Error) -> bool {
    matches!(error, wirecap::Error::Program { source: bpf::Error::Blinded { .. }, .. })
}
