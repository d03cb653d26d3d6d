//! Every function in every state of a handle.

use wirecap_lab::{VethOptions, VethPair};
use wirecap_testing::need_root;

use crate::{
    difference::assert_same,
    rig::{LIBRARIES, Rig},
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
