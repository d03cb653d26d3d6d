//! The bpf module with the running kernel. Needs root; each test has its own network namespace.

use std::collections::BTreeSet;
use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::thread;
use std::time::Duration;

use wirecap_sys::{
    bpf::{
        Alu, Assembler, Bytecode, Cond, Error, Helper, Link, Map, MapKind, MapSpec, Operand, Program,
        ProgramKind, ProgramSpec, Reg, SharedMap, Size, XDP_DROP, XDP_PASS, XdpMode, holders_of_programs,
        link_holders, links, program_holders, shared_map,
    },
    cpu,
};

const FRAME: [u8; 60] = [0x5a; 60];

#[test]
fn a_trivial_program_runs_and_has_a_name() {
    privileged("a_trivial_program_runs_and_has_a_name", || {
        let program = returning(XDP_PASS, "trivial_pass");
        let run = program.test_run(&FRAME, 1).unwrap();
        assert_eq!((run.action, run.frame.as_slice()), (XDP_PASS as u32, FRAME.as_slice()));
        assert_eq!(Program::name_by_id(program.id().unwrap()).unwrap(), "trivial_pass");
        assert_eq!(Program::name_by_id(u32::MAX).unwrap_err().errno(), Some(libc::ENOENT));
    });
}

#[test]
fn maps_keep_written_values() {
    privileged("maps_keep_written_values", || {
        let array = map(MapKind::Array, 16, "array");
        assert_eq!(array.lookup(&3u32.to_ne_bytes()).unwrap().unwrap(), vec![0; 16]);
        array.update(&3u32.to_ne_bytes(), &[7; 16]).unwrap();
        assert_eq!(array.lookup(&3u32.to_ne_bytes()).unwrap().unwrap(), vec![7; 16]);
        assert_eq!(array.lookup(&4u32.to_ne_bytes()).unwrap(), None, "out of range");
        assert_eq!(array.update(&4u32.to_ne_bytes(), &[7; 16]).unwrap_err().errno(), Some(libc::E2BIG));

        let hash = map(MapKind::Hash, 8, "hash");
        assert_eq!(hash.lookup(b"abcd").unwrap(), None);
        hash.update(b"abcd", b"12345678").unwrap();
        assert_eq!(hash.lookup(b"abcd").unwrap().unwrap(), b"12345678");
        assert!(hash.delete(b"abcd").unwrap() && !hash.delete(b"abcd").unwrap());
    });
}

#[test]
fn a_program_array_calls_its_programs_and_takes_only_one_kind() {
    privileged("a_program_array_calls_its_programs_and_takes_only_one_kind", || {
        let programs = map(MapKind::ProgArray, 4, "programs");
        let mut asm = Assembler::new();
        asm.mov_imm(Reg::R3, 2).load_map_fd(Reg::R2, &programs).call(Helper::TailCall);
        asm.mov_imm(Reg::R0, XDP_PASS).exit();
        let caller = load(&asm.finish().unwrap(), "caller").unwrap();
        let action = || caller.test_run(&FRAME, 1).unwrap().action;
        assert_eq!((programs.program_id(2).unwrap(), action()), (None, XDP_PASS as u32));
        let called = returning(XDP_DROP, "called");
        programs.set_program(2, &called).unwrap();
        assert_eq!(
            (programs.program_id(2).unwrap(), action()),
            (Some(called.id().unwrap()), XDP_DROP as u32)
        );
        let ids = [called.id().unwrap(), caller.id().unwrap(), u32::MAX];
        let holders = holders_of_programs(&ids);
        let is_ours = |id| program_holders(id).iter().any(|holder| holder.pid == std::process::id());
        assert!(is_ours(ids[0]) && is_ours(ids[1]) && !is_ours(ids[2]));
        assert_eq!(holders.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([ids[0], ids[1]]));
        assert!(holders.values().all(|of| of.iter().any(|holder| holder.pid == std::process::id())));
        assert!(programs.delete(&2u32.to_ne_bytes()).unwrap());
        assert_eq!((programs.program_id(2).unwrap(), action()), (None, XDP_PASS as u32));

        let mut asm = Assembler::new();
        asm.mov_imm(Reg::R0, XDP_DROP).exit();
        let insns = asm.finish().unwrap();
        let spec = ProgramSpec { frags: true, ..ProgramSpec::new(ProgramKind::Xdp, "frags", &insns) };
        assert!(
            programs.accepts(&called, 3).unwrap()
                && !programs.accepts(&Program::load(&spec).unwrap(), 3).unwrap()
        );
        assert_eq!(programs.program_id(3).unwrap(), None, "the program was only tried");
        assert_eq!(programs.set_program(4, &called).unwrap_err().errno(), Some(libc::E2BIG));
        assert!(matches!(
            map(MapKind::Array, 4, "array").set_program(0, &called),
            Err(Error::WrongKind { .. })
        ));
    });
}

#[test]
fn a_foreign_table_and_link_are_found_by_the_attached_program() {
    privileged("a_foreign_table_and_link_are_found_by_the_attached_program", || {
        let programs = map(MapKind::ProgArray, 4, "of_others");
        let mut asm = Assembler::new();
        asm.mov_imm(Reg::R3, 0).load_map_fd(Reg::R2, &programs).call(Helper::TailCall);
        asm.mov_imm(Reg::R0, XDP_PASS).exit();
        let program = load(&asm.finish().unwrap(), "shared").unwrap();
        let (ifindex, id) = (veth(), program.id().unwrap());
        assert!(Link::of_program(id).unwrap().is_none(), "the program is not attached yet");
        let theirs = Link::attach_xdp(&program, ifindex, XdpMode::Native).unwrap();

        let called = returning(XDP_DROP, "called");
        programs.set_program(1, &called).unwrap();
        assert!(shared_map(id, "another_name").unwrap().is_none());
        assert!(shared_map(u32::MAX, "of_others").unwrap().is_none());
        let SharedMap { map, max_entries } = shared_map(id, "of_others").unwrap().unwrap();
        assert_eq!((max_entries, map.program_id(1).unwrap()), (4, Some(called.id().unwrap())));
        let ours = Link::of_program(id).unwrap().unwrap().closed_before(&map).unwrap();
        assert!(ours.as_fd().as_raw_fd() > map.as_fd().as_raw_fd());

        drop((theirs, program, programs));
        assert!(shows_xdp("wc0") && map.program_id(1).unwrap().is_some(), "our handles keep both");
        drop(ours);
        assert!(loses_xdp("wc0"));
    });
}

#[test]
fn maps_refuse_wrong_lengths_and_kinds() {
    privileged("maps_refuse_wrong_lengths_and_kinds", || {
        let array = map(MapKind::Array, 8, "array");
        assert!(matches!(
            array.lookup(b"abc"),
            Err(Error::WrongSize { part: "key", expected: 4, got: 3, .. })
        ));
        assert!(matches!(array.update(b"abcd", b"1"), Err(Error::WrongSize { part: "value", .. })));
        assert!(matches!(array.lookup_per_cpu(b"abcd"), Err(Error::WrongKind { .. })));
        let sockets = map(MapKind::XskMap, 4, "sockets");
        let no_socket = std::fs::File::open("/dev/null").unwrap();
        assert!(sockets.set_socket(0, no_socket.as_fd()).is_err());
        assert!(matches!(sockets.lookup(&0u32.to_ne_bytes()), Err(Error::WrongKind { .. })));
        assert!(matches!(array.set_socket(0, no_socket.as_fd()), Err(Error::WrongKind { .. })));
        let nothing =
            MapSpec { kind: MapKind::Array, key_size: 4, value_size: 0, max_entries: 0, name: "nothing" };
        assert_eq!(Map::create(&nothing).unwrap_err().errno(), Some(libc::EINVAL));
    });
}

#[test]
fn per_cpu_values_are_rounded_up_and_summed() {
    privileged("per_cpu_values_are_rounded_up_and_summed", || {
        let narrow = map(MapKind::PerCpuArray, 12, "narrow");
        narrow.update(&1u32.to_ne_bytes(), &[9; 12]).unwrap();
        let values = narrow.lookup_per_cpu(&1u32.to_ne_bytes()).unwrap();
        assert_eq!(values.iter().collect::<Vec<_>>(), vec![&[9; 12][..]; cpu::possible().unwrap()]);
        assert_eq!(narrow.lookup_per_cpu(&4u32.to_ne_bytes()).unwrap_err().errno(), Some(libc::ENOENT));

        let counts = map(MapKind::PerCpuArray, 8, "counts");
        let program = load(&counting(&counts), "count").unwrap();
        program.test_run(&FRAME, 1000).unwrap();
        assert_eq!(counts.lookup_per_cpu(&0u32.to_ne_bytes()).unwrap().sum_u64(0), 1000);
    });
}

#[test]
fn a_single_value_is_read_without_a_lookup() {
    privileged("a_single_value_is_read_without_a_lookup", || {
        let spec = MapSpec { kind: MapKind::Array, key_size: 4, value_size: 16, max_entries: 1, name: "one" };
        let one = Map::create(&spec).unwrap();
        let mut asm = Assembler::new();
        asm.load_map_value(Reg::R1, &one, 8).mov_imm(Reg::R2, 3).atomic_add(
            Size::Double,
            Reg::R1,
            0,
            Reg::R2,
        );
        asm.mov_imm(Reg::R0, XDP_DROP).exit();
        load(&asm.finish().unwrap(), "direct").unwrap().test_run(&FRAME, 5).unwrap();
        let value = one.lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
        assert_eq!(value[8..], 15u64.to_ne_bytes());
    });
}

/// Runs every operation in the kernel and compares the results with the documentation of [`Alu`].
#[test]
fn arithmetic_matches_the_names() {
    privileged("arithmetic_matches_the_names", || {
        let (a, b) = (0x8000_1234u32 as i32, 13i32);
        let (x, y) = (a as i64 as u64, b as u64);
        let cases: [(Alu, u64); 12] = [
            (Alu::Add, x.wrapping_add(y)),
            (Alu::Sub, x.wrapping_sub(y)),
            (Alu::Mul, x.wrapping_mul(y)),
            (Alu::Div, x / y),
            (Alu::Or, x | y),
            (Alu::And, x & y),
            (Alu::Lsh, x << y),
            (Alu::Rsh, x >> y),
            (Alu::Mod, x % y),
            (Alu::Xor, x ^ y),
            (Alu::Mov, y),
            (Alu::Arsh, (x as i64 >> y) as u64),
        ];
        for (op, expected) in cases {
            for operand in [Operand::Imm(b), Operand::Reg(Reg::R2)] {
                let result = computed(|asm| {
                    asm.mov_imm(Reg::R1, a).mov_imm(Reg::R2, b).alu64(op, Reg::R1, operand);
                });
                assert_eq!(result, expected, "{op:?} {operand:?}");
            }
        }
        assert_eq!(computed(|asm| _ = asm.mov_imm(Reg::R1, -1).alu32(Alu::Add, Reg::R1, 3)), 2);
        let constant = 0x0102_0304_0506_0708;
        let swapped = |swap: fn(&mut Assembler)| {
            computed(|asm| {
                asm.load_imm64(Reg::R1, constant);
                swap(asm);
            })
        };
        assert_eq!(swapped(|asm| _ = asm.be16(Reg::R1)), u64::from(0x0708u16.to_be()));
        assert_eq!(swapped(|asm| _ = asm.be32(Reg::R1)), u64::from(0x0506_0708u32.to_be()));
        assert_eq!(swapped(|asm| _ = asm.be64(Reg::R1)), constant.to_be());
    });
}

#[test]
fn a_rejection_contains_the_verifiers_log() {
    privileged("a_rejection_contains_the_verifiers_log", || {
        let mut asm = Assembler::new();
        asm.mov(Reg::R0, Reg::R5).exit();
        let error = load(&asm.finish().unwrap(), "uninitialised").unwrap_err();
        let Error::Rejected { log, .. } = &error else { panic!("{error}") };
        assert!(log.contains("R5 !read_ok"), "{log}");
        assert!(
            error.to_string().contains("R5 !read_ok") && error.to_string().contains("uninitialised"),
            "{error}"
        );
    });
}

#[test]
fn a_link_detaches_when_it_is_dropped() {
    privileged("a_link_detaches_when_it_is_dropped", || {
        let ifindex = veth();
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let program = returning(XDP_PASS, "dropped");
            let link = Link::attach_xdp(&program, ifindex, mode).unwrap();
            drop(program);
            assert!(shows_xdp("wc0"), "{mode}: the link keeps the program");
            assert_eq!(link.ifindex().unwrap(), Some(ifindex));
            drop(link);
            assert!(loses_xdp("wc0"), "{mode}: dropping the link detaches the program");
        }
        let link = Link::attach_xdp(&returning(XDP_PASS, "detached"), ifindex, XdpMode::Native).unwrap();
        let other_fd = link.as_fd().try_clone_to_owned().unwrap();
        link.detach().unwrap();
        assert!(loses_xdp("wc0"), "detached although {other_fd:?} holds it");
    });
}

#[test]
fn a_busy_interface_names_its_holder() {
    privileged("a_busy_interface_names_its_holder", || {
        let ifindex = veth();
        let program = returning(XDP_PASS, "holder");
        let link = Link::attach_xdp(&program, ifindex, XdpMode::Native).unwrap();
        let id = link.id().unwrap();
        let listed = links().unwrap().into_iter().find(|listed| listed.id == id).expect("our link is listed");
        assert_eq!((listed.ifindex, listed.prog_id), (ifindex, program.id().unwrap()));
        // So does, until it executes its program, a child that another test has forked.
        let holders = link_holders(id);
        assert!(holders.iter().any(|holder| holder.pid == std::process::id()), "{holders:?}");

        let other = returning(XDP_DROP, "other");
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let error = Link::attach_xdp(&other, ifindex, mode).unwrap_err();
            assert!(matches!(error, Error::Busy { .. }), "{error}");
            let text = error.to_string();
            let pid = format!("(pid {})", std::process::id());
            assert!(text.contains("wc0") && text.contains("program holder") && text.contains(&pid), "{text}");
        }
    });
}

#[test]
fn attaching_to_an_unsuitable_interface_fails_with_the_reason() {
    privileged("attaching_to_an_unsuitable_interface_fails_with_the_reason", || {
        let program = returning(XDP_PASS, "nowhere");
        let error = Link::attach_xdp(&program, 999_999, XdpMode::Native).unwrap_err();
        assert!(
            matches!(error, Error::Attach { .. }) && error.to_string().contains("no such interface"),
            "{error}"
        );
        // The loopback device has no native XDP.
        let error = Link::attach_xdp(&program, 1, XdpMode::Native).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { interface, .. } if interface == "lo"), "{error}");
        let ifindex = veth();
        ip("link set dev wc0 mtu 9000");
        ip("link set dev wc1 mtu 9000");
        let error = Link::attach_xdp(&program, ifindex, XdpMode::Native).unwrap_err();
        assert!(error.errno() == Some(libc::ERANGE) && error.to_string().contains("MTU"), "{error}");
    });
}

#[test]
fn a_program_with_frags_takes_jumbo_frames() {
    privileged("a_program_with_frags_takes_jumbo_frames", || {
        let mut asm = Assembler::new();
        asm.mov_imm(Reg::R0, XDP_PASS).exit();
        let insns = asm.finish().unwrap();
        let spec = ProgramSpec { frags: true, ..ProgramSpec::new(ProgramKind::Xdp, "frags", &insns) };
        let ifindex = veth();
        ip("link set dev wc0 mtu 9000");
        ip("link set dev wc1 mtu 9000");
        Link::attach_xdp(&Program::load(&spec).unwrap(), ifindex, XdpMode::Native).unwrap();
    });
}

#[test]
fn live_frames_run_and_are_counted() {
    privileged("live_frames_run_and_are_counted", || {
        let counts = map(MapKind::PerCpuArray, 8, "counts");
        let program = load(&counting(&counts), "live").unwrap();
        // Not a multiple of the batch: the kernel must not round up.
        program.test_run_live(&FRAME, 1001, 64).unwrap();
        assert_eq!(counts.lookup_per_cpu(&0u32.to_ne_bytes()).unwrap().sum_u64(0), 1001);
        assert_eq!(program.test_run_live(&FRAME, 1, 257).unwrap_err().errno(), Some(libc::E2BIG));
        assert_eq!(program.test_run_live(&[0; 4096], 1, 0).unwrap_err().errno(), Some(libc::EINVAL));
    });
}

fn load(insns: &Bytecode, name: &str) -> Result<Program, Error> {
    Program::load(&ProgramSpec::new(ProgramKind::Xdp, name, insns))
}

fn returning(action: i32, name: &str) -> Program {
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, action).exit();
    load(&asm.finish().unwrap(), name).unwrap()
}

fn map(kind: MapKind, value_size: u32, name: &str) -> Map {
    Map::create(&MapSpec { kind, key_size: 4, value_size, max_entries: 4, name }).unwrap()
}

/// A program that adds one to entry 0 of `counts` and drops the packet.
fn counting(counts: &Map) -> Bytecode {
    let mut asm = Assembler::new();
    let out = asm.label();
    asm.store_imm(Size::Word, Reg::R10, -4, 0).mov(Reg::R2, Reg::R10).alu64(Alu::Add, Reg::R2, -4);
    asm.load_map_fd(Reg::R1, counts).call(Helper::MapLookupElem).jump_if(Cond::Eq, Reg::R0, 0, out);
    asm.load(Size::Double, Reg::R1, Reg::R0, 0).alu64(Alu::Add, Reg::R1, 1).store(
        Size::Double,
        Reg::R0,
        0,
        Reg::R1,
    );
    asm.bind(out).mov_imm(Reg::R0, XDP_DROP).exit();
    asm.finish().unwrap()
}

/// What `write` leaves in R1 when the kernel runs it.
fn computed(write: impl FnOnce(&mut Assembler)) -> u64 {
    let spec = MapSpec { kind: MapKind::Array, key_size: 4, value_size: 8, max_entries: 1, name: "result" };
    let result = Map::create(&spec).unwrap();
    let mut asm = Assembler::new();
    write(&mut asm);
    asm.load_map_value(Reg::R3, &result, 0).store(Size::Double, Reg::R3, 0, Reg::R1);
    asm.mov_imm(Reg::R0, XDP_DROP).exit();
    load(&asm.finish().unwrap(), "computed").unwrap().test_run(&FRAME, 1).unwrap();
    let value = result.lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
    u64::from_ne_bytes(value.try_into().unwrap())
}

/// Runs `test` in a thread with a fresh network namespace that ends with it; skips loudly without root.
fn privileged(name: &str, test: impl FnOnce() + Send) {
    // SAFETY: geteuid(2) has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skip(name);
    }
    let outcome = thread::scope(|scope| {
        let inside = || {
            // SAFETY: unshare(2) of the network namespace affects only this thread.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
            ip("link set lo up");
            test();
        };
        scope.spawn(inside).join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn skip(name: &str) {
    assert!(
        env::var_os("WIRECAP_NO_SKIP").is_none(),
        "{name} needs root, and WIRECAP_NO_SKIP forbids skipping"
    );
    let line = format!("SKIPPED: {name}: needs root; run it with sudo\n");
    // Not eprintln!, which the test runner would swallow.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(path) = env::var_os("WIRECAP_SKIP_LOG") {
        let mut log = OpenOptions::new().create(true).append(true).open(path).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

/// Makes the pair wc0 and wc1; returns the index of wc0.
fn veth() -> u32 {
    ip("link add wc0 type veth peer name wc1");
    ip("link set wc0 up");
    ip("link set wc1 up");
    // SAFETY: the name is zero-terminated.
    let ifindex = unsafe { libc::if_nametoindex(c"wc0".as_ptr()) };
    assert_ne!(ifindex, 0);
    ifindex
}

/// Whether `ip link` shows a program.
fn shows_xdp(interface: &str) -> bool {
    ip(&format!("link show {interface}")).contains("xdp")
}

/// Whether `ip link` soon shows no program: a process that lists the links of the machine holds each one for
/// a moment.
fn loses_xdp(interface: &str) -> bool {
    (0..1_000).any(|_| {
        let lost = !shows_xdp(interface);
        if !lost {
            thread::sleep(Duration::from_millis(5));
        }
        lost
    })
}

/// Runs ip(8) in the calling thread's namespace.
fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip (iproute2) is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
