//! Every function in every state of a handle.

use wirecap_lab::{VethOptions, VethPair};
use wirecap_testing::need_root;

use crate::{
    difference::assert_same,
    rig::{LIBRARIES, Library, Rig},
};

/// Lines that the program prints at least; fewer mean that it gave up.
const LINES: usize = 250;

#[test]
fn every_call_returns_in_every_state_what_libpcap_returns() {
    need_root!("every_call_returns_in_every_state_what_libpcap_returns");
    // The program takes the interface down at its end.
    let [expected, found] = LIBRARIES.map(|library| {
        let rig = Rig::new("calls");
        let program = rig.compile("calls");
        // Both ends are in one namespace: the program sends, too.
        let inside = &rig.wire.inside;
        let pair = VethPair::new(inside, "sends", inside, "takes", VethOptions::default()).unwrap();
        let file = rig.path("savefile");
        let arguments = [pair.b().name(), pair.a().name(), file.to_str().unwrap()];
        let printed = rig.spawn(library, &program, &arguments).succeed();
        printed.replace(file.to_str().unwrap(), "SAVEFILE")
    });
    assert!(expected.lines().count() >= LINES, "{expected}");
    assert_same("calls", &expected, &found);
}

/// Memory that is read before it is written or after it is freed, and memory that is lost.
#[test]
fn valgrind_finds_no_error_in_any_call() {
    need_program!("valgrind_finds_no_error_in_any_call", "valgrind", "valgrind");
    let rig = Rig::new("valgrind");
    let program = rig.compile("calls");
    let inside = &rig.wire.inside;
    let pair = VethPair::new(inside, "sends", inside, "takes", VethOptions::default()).unwrap();
    let file = rig.path("savefile");
    let flags = ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
    let own = [program.as_str(), pair.b().name(), pair.a().name(), file.to_str().unwrap()];
    let ended = rig.spawn(Library::Wirecap, "valgrind", &[&flags[..], &own].concat()).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.lines().count() >= LINES, "{}", ended.stdout);
}

/// Also what valgrind does not see: bytes beyond an array, and what C leaves undefined.
#[test]
fn sanitizers_find_no_error_in_any_call() {
    need_root!("sanitizers_find_no_error_in_any_call");
    let rig = Rig::new("sanitizers");
    let program =
        rig.compile_with_library("tests/c/calls.c", &["-std=gnu11", "-g", "-fsanitize=address,undefined"]);
    let inside = &rig.wire.inside;
    let pair = VethPair::new(inside, "sends", inside, "takes", VethOptions::default()).unwrap();
    let file = rig.path("savefile");
    let mut command = inside.command(&program);
    command.env("ASAN_OPTIONS", "detect_leaks=1").env("UBSAN_OPTIONS", "halt_on_error=1");
    let output = command.args([pair.b().name(), pair.a().name(), file.to_str().unwrap()]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""), "{stdout}");
    assert!(stdout.lines().count() >= LINES, "{stdout}");
}
