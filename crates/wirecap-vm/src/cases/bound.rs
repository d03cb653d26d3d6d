//! Programs that are bound to an interface, when the interface is deleted.
//!
//! A kernel that loses track of such a program crashes and takes all network configuration with it, so these
//! tests run in virtual machines only.

use std::{fs, thread, time::Duration};

use wirecap::{Capture, Diagnostic, Modes, TapHook, Timestamp};
use wirecap_sys::{
    bpf::{
        self, Alu, Assembler, Bytecode, Cond, Helper, Map, MapKind, MapSpec, Program, ProgramKind,
        ProgramSpec, Reg, Size, XDP_PASS,
    },
    netdev,
};
use wirecap_testing::kernel_is_at_least;

use super::Case;
use crate::{
    machine::Machine,
    veth::{VETH, delete, with_veth},
};

pub(super) const CASES: [Case; 3] =
    [("bound-deleted", deleted), ("bound-captured", captured), ("bound-blinded", blinded)];

/// The kernel's setting for blinding constants.
const HARDEN: &str = "/proc/sys/net/core/bpf_jit_harden";
/// A page holds about 505 instructions, so some of these programs almost fill one page, and some two. The
/// verifier adds about 50 to each.
const LENGTHS: std::ops::RangeInclusive<usize> = 400..=1_100;

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

/// The interface is deleted while it is captured by programs that ask the driver for hashes, with filters of
/// several lengths.
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

/// Where the kernel blinds constants, nothing is bound: hashes, which take a bound program, are refused. To
/// put tags back on a veth takes none.
fn blinded(_: &Machine) {
    if !has_bound_programs() {
        return;
    }
    let _hardened = Hardened::new();
    with_veth(|| {
        let builder = || Capture::builder().port(format!("xdp:{VETH}"));
        let tap = Capture::builder().tap_hook(TapHook::Xdp).port(format!("tap:{VETH}"));
        for builder in [builder(), tap] {
            let capture = builder.open().unwrap();
            let fallbacks = capture.report().ports[0].fallbacks.clone();
            let not_put_back = |said: &Diagnostic| matches!(said, Diagnostic::VlanTagsNotPutBack { .. });
            assert!(!fallbacks.iter().any(not_put_back), "{fallbacks:?}");
        }
        let error = builder().rx_hash(true).open().map(drop).unwrap_err();
        assert!(is_blinded(&error), "{error:?}");
        println!("bound-blinded: {error}");
        delete();
    });
    thread::sleep(Duration::from_secs(1));
}

/// The kernel blinds constants while this exists.
struct Hardened {
    before: String,
}

impl Hardened {
    fn new() -> Self {
        let before = fs::read_to_string(HARDEN).unwrap();
        fs::write(HARDEN, "2").unwrap();
        Self { before }
    }
}

impl Drop for Hardened {
    fn drop(&mut self) {
        let _ = fs::write(HARDEN, self.before.trim());
    }
}

fn is_blinded(error: &wirecap::Error) -> bool {
    matches!(error, wirecap::Error::Program { source: bpf::Error::Blinded { .. }, .. })
}
