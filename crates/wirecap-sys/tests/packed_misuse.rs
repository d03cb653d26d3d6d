//! Callers that try to write into packed memory by safe code. Needs root.

use std::sync::Arc;

use wirecap_core::{Geometry, PoolId};
use wirecap_sys::{
    bpf::{
        Alu, Assembler, Bytecode, Cond, Error, FrameLength, Helper, Label, Map, MapKind, MapSpec, Program,
        ProgramKind, ProgramSpec, Reg, Size, XDP_DROP, XDP_PASS,
    },
    packed::{MIN_BLOCK_BYTES, PackOption, PackSpec, PackedMemory, PacketForm},
};

/// Below the stamp and the hash.
const STACK_END: i16 = -16;
const REGISTERS: [Reg; 10] =
    [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// Where the program goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    NoBlock,
    Busy,
    Impossible,
}

fn geometry() -> Geometry {
    Geometry::new(64, 2, 2048).unwrap()
}

fn memory() -> Arc<PackedMemory> {
    Arc::new(PackedMemory::create([0], geometry()).unwrap())
}

/// A map of the caller's.
fn own_map() -> Map {
    let spec = MapSpec { kind: MapKind::Array, key_size: 4, value_size: 8, max_entries: 1, name: "own" };
    Map::create(&spec).unwrap()
}

fn load(code: &Bytecode) -> Result<Program, Error> {
    Program::load(&ProgramSpec { frags: true, ..ProgramSpec::new(ProgramKind::Xdp, "misuse", code) })
}

/// What goes on at one label.
fn pack(exits: [Label; 3]) -> PackSpec {
    let [no_block, busy, impossible] = exits;
    PackSpec {
        stream: Reg::R7,
        interface: 0,
        stamp: Some(-8),
        to_utc: true,
        form: PacketForm::Frame(FrameLength::of_kernel()),
        option: Some(PackOption::Hash(-16)),
        stack_end: STACK_END,
        no_block,
        busy,
        impossible,
    }
}

/// A program that packs, and continues with `then` at this exit. Each place that the packing uses holds a
/// pointer to the caller's own value until the packing overwrites it.
fn packs(memory: &PackedMemory, own: &Map, at: Exit, then: impl FnOnce(&mut Assembler)) -> Bytecode {
    use Reg::{R0, R1, R6, R7, R8, R9, R10};
    let mut asm = Assembler::new();
    asm.mov(R6, R1).mov_imm(R7, 0).load_map_value(R8, own, 0).mov(R9, R8);
    for slot in (STACK_END - 64..0).step_by(8) {
        asm.store(Size::Double, R10, slot, R8);
    }
    asm.store_imm(Size::Double, R10, -16, 0).store_imm(Size::Double, R10, -8, 0);
    let exits = [asm.label(), asm.label(), asm.label()];
    memory.emit_pack(&mut asm, &pack(exits));
    let mut then = Some(then);
    let labels = [None].into_iter().chain(exits.map(Some));
    for (label, exit) in labels.zip([Exit::Done, Exit::NoBlock, Exit::Busy, Exit::Impossible]) {
        if let Some(label) = label {
            asm.bind(label);
        }
        if exit == at {
            then.take().unwrap()(&mut asm);
        }
        asm.mov_imm(R0, XDP_PASS).exit();
    }
    asm.finish().unwrap()
}

#[test]
fn packing_leaves_no_pointer_behind() {
    if !wirecap_lab::require_root("packing_leaves_no_pointer_behind") {
        return;
    }
    let (memory, own) = (memory(), own_map());
    for exit in [Exit::Done, Exit::NoBlock, Exit::Busy, Exit::Impossible] {
        load(&packs(&memory, &own, exit, |_| {})).unwrap();
        let own_value = |asm: &mut Assembler| _ = asm.store_imm(Size::Double, Reg::R8, 0, 1);
        load(&packs(&memory, &own, exit, own_value)).unwrap();
        for register in REGISTERS.into_iter().filter(|&register| register != Reg::R8) {
            let stores = |asm: &mut Assembler| _ = asm.store_imm(Size::Double, register, 0, 1);
            let result = load(&packs(&memory, &own, exit, stores));
            assert!(matches!(result, Err(Error::Rejected { .. })), "{exit:?}, {register:?}: {result:?}");
        }
        let mut left = 0;
        for slot in (STACK_END - 64..STACK_END).step_by(8) {
            let stores = |offset| {
                load(&packs(&memory, &own, exit, |asm| {
                    asm.load(Size::Double, Reg::R1, Reg::R10, slot).store_imm(
                        Size::Double,
                        Reg::R1,
                        offset,
                        1,
                    );
                }))
            };
            // Behind the caller's value, but not behind a block or an entry.
            let result = stores(16);
            assert!(matches!(result, Err(Error::Rejected { .. })), "{exit:?}, {slot}: {result:?}");
            left += u32::from(stores(0).is_ok());
        }
        assert!(left >= 3, "{exit:?}: {left} places are still the caller's");
    }
}

#[test]
fn counting_leaves_no_pointer_behind() {
    if !wirecap_lab::require_root("counting_leaves_no_pointer_behind") {
        return;
    }
    use Reg::{R0, R1, R2, R6, R7};
    let memory = memory();
    let counts = |then: &dyn Fn(&mut Assembler)| {
        let mut asm = Assembler::new();
        let none = asm.label();
        asm.mov(R6, R1).mov_imm(R7, 0);
        memory.emit_seen(&mut asm, R7, none);
        then(&mut asm);
        asm.bind(none).mov_imm(R0, XDP_PASS).exit();
        load(&asm.finish().unwrap())
    };
    counts(&|_| {}).unwrap();
    for register in [R1, R2] {
        let result = counts(&|asm| _ = asm.store_imm(Size::Double, register, 0, 1));
        assert!(matches!(result, Err(Error::Rejected { .. })), "{register:?}: {result:?}");
    }
}

/// Labels are numbers, which a caller can count by an assembler of its own.
#[test]
fn no_jump_leads_into_the_packing() {
    if !wirecap_lab::require_root("no_jump_leads_into_the_packing") {
        return;
    }
    let memory = memory();
    for number in 0..32 {
        let (mut asm, mut other) = (Assembler::new(), Assembler::new());
        let exits = [asm.label(), asm.label(), asm.label()];
        let inside = (0..=number).map(|_| other.label()).last().unwrap();
        asm.jump_if(Cond::Eq, Reg::R2, 0, inside);
        memory.emit_pack(&mut asm, &pack(exits));
        exits.into_iter().for_each(|label| _ = asm.bind(label));
        asm.exit();
        assert!(matches!(asm.finish(), Err(Error::UnboundLabel(0))), "label {number}");
    }
}

/// The two arrays of packed memory get the lowest numbers that are free: those of maps that were just closed.
#[test]
fn code_for_a_map_that_was_closed_does_not_reach_packed_memory() {
    if !wirecap_lab::require_root("code_for_a_map_that_was_closed_does_not_reach_packed_memory") {
        return;
    }
    use Reg::{R0, R1, R2, R10};
    let (mut asm, maps) = (Assembler::new(), [(); 2].map(|()| own_map()));
    for map in &maps {
        let none = asm.label();
        asm.store_imm(Size::Word, R10, -4, 0).mov(R2, R10).alu64(Alu::Add, R2, -4);
        asm.load_map_fd(R1, map).call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, none);
        // In a stream's entry, the end of the last packet of its first block.
        asm.store_imm(Size::Double, R0, 0, MIN_BLOCK_BYTES as i32).bind(none);
    }
    asm.mov_imm(R0, XDP_DROP).exit();
    let code = asm.finish().unwrap();
    drop(maps);
    let memory = memory();
    let (mut stream, mut pool, _reader) =
        memory.open_stream(0, PoolId { nic_id: 0, ring_id: 0 }).unwrap().unwrap();
    stream.attach(Some(&mut pool));
    let run = load(&code).unwrap().test_run(&[0; 64], 1).unwrap();
    assert_eq!(run.action, XDP_DROP as u32);
    assert_eq!(stream.waiting(), 0..0, "what a program wrote into the stream");
}

/// The number of a descriptor is a guess away.
#[test]
fn a_number_puts_no_object_into_a_map() {
    if !wirecap_lab::require_root("a_number_puts_no_object_into_a_map") {
        return;
    }
    let map = |kind, value_size| {
        Map::create(&MapSpec { kind, key_size: 4, value_size, max_entries: 1, name: "own" }).unwrap()
    };
    let block = map(MapKind::MappedArray, MIN_BLOCK_BYTES);
    let maps = Map::array_of(1, &[(0, &block)], "of_maps").unwrap();
    for map in [maps, map(MapKind::ProgArray, 4), map(MapKind::XskMap, 4)] {
        for number in 0..64_u32 {
            let result = map.update(&[0; 4], &number.to_ne_bytes());
            assert!(matches!(result, Err(Error::WrongKind { .. })), "{:?}, {number}: {result:?}", map.kind());
        }
    }
}
