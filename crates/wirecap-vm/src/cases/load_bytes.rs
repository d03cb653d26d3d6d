//! What copying a packet costs inside an XDP program, on this kernel: `bpf_xdp_load_bytes`, which packs
//! packets, beside plain loads and stores, which are the other way to do it.
//!
//! The kernel measures each program (`BPF_PROG_TEST_RUN`). In an emulated guest only ratios mean something.

use wirecap_sys::bpf::{
    Alu, Assembler, Bytecode, Cond, Helper, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg,
    Size, XDP_PASS, xdp_md,
};

use super::Case;
use wirecap_testing::kernel_is_at_least;

use crate::machine::Machine;

pub(super) const CASES: [Case; 1] = [("load-bytes", load_bytes)];

/// Runs of one measurement.
const REPEAT: u32 = 50_000;
/// Measurements of each program; the least counts.
const ROUNDS: usize = 7;

/// How a program copies.
#[derive(Debug, Clone, Copy)]
enum CopyMethod {
    /// Not at all: what everything else costs.
    Nothing,
    /// By the helper.
    Helper,
    /// Eight bytes at a time, without a loop.
    Stores,
}

fn load_bytes(_: &Machine) {
    if !kernel_is_at_least(5, 18) {
        println!("load-bytes: this kernel has no bpf_xdp_load_bytes (Linux 5.18)");
        return;
    }
    for len in [60, 508, 1_496] {
        let [nothing, helper, stores] =
            [CopyMethod::Nothing, CopyMethod::Helper, CopyMethod::Stores].map(|method| nanos(method, len));
        println!("load-bytes: {len} bytes: nothing {nothing} ns, helper {helper} ns, stores {stores} ns");
    }
}

/// The least mean duration of the program, in ns.
fn nanos(method: CopyMethod, len: usize) -> u128 {
    let spec =
        MapSpec { kind: MapKind::Array, key_size: 4, value_size: 2048, max_entries: 1, name: "copies" };
    let copies = Map::create(&spec).unwrap();
    let insns = assemble(method, len as i32, &copies);
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "copies", &insns)).unwrap();
    let frame: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
    let run = |_| program.test_run(&frame, REPEAT).unwrap().duration.as_nanos();
    let least = (0..ROUNDS).map(run).min().unwrap();
    let copy = copies.lookup(&0_u32.to_ne_bytes()).unwrap().unwrap();
    assert_eq!(copy[..len] == frame, !matches!(method, CopyMethod::Nothing), "{method:?}, {len} bytes");
    least
}

fn assemble(method: CopyMethod, len: i32, copies: &Map) -> Bytecode {
    use Reg::{R0, R1, R2, R3, R4, R6, R7, R10};
    let mut asm = Assembler::new();
    let end = asm.label();
    asm.mov(R6, R1).store_imm(Size::Word, R10, -4, 0);
    asm.load_map_fd(R1, copies).mov(R2, R10).alu64(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, end).mov(R7, R0);
    match method {
        CopyMethod::Nothing => {}
        CopyMethod::Helper => {
            asm.mov(R1, R6).mov_imm(R2, 0).mov(R3, R7).mov_imm(R4, len).call(Helper::XdpLoadBytes);
        }
        CopyMethod::Stores => {
            asm.load(Size::Word, R1, R6, xdp_md::DATA).load(Size::Word, R2, R6, xdp_md::DATA_END);
            asm.mov(R3, R1).alu64(Alu::Add, R3, len).jump_if(Cond::Gt, R3, R2, end);
            for at in (0..len as i16).step_by(8) {
                let size = if i32::from(at) + 8 <= len { Size::Double } else { Size::Word };
                asm.load(size, R4, R1, at).store(size, R7, at, R4);
            }
        }
    }
    asm.bind(end).mov_imm(R0, XDP_PASS).exit();
    asm.finish().unwrap()
}
