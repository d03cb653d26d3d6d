//! What tcpdump answers before it captures.

use wirecap_lab::VethOptions;
use wirecap_testing::need_root;

use crate::{
    frames::udp,
    rig::{Library, PORT, Rig, same},
};

#[test]
fn questions_and_mistakes_are_answered_by_libpcap() {
    need_root!("questions_and_mistakes_are_answered_by_libpcap");
    let rig = Rig::new("options");
    for (arguments, words) in [
        (&["-J", "-i", PORT][..], "Time stamp types for in0"),
        (&["-L", "-i", PORT], "EN10MB (Ethernet)"),
        (&["-L", "-i", "lo"], "EN10MB (Ethernet)"),
        (&["-I", "-i", PORT], "doesn't support monitor mode"),
        (&["-d", "-i", PORT, "udp"], "(000) ldh      [12]"),
        (&["-i", PORT, "-y", "IEEE802_11"], "is not one of the DLTs supported by this device"),
        (&["-i", PORT, "-j", "nonsense"], "invalid time stamp type nonsense"),
        (&["-i", PORT, "-s", "300000"], "invalid snaplen 300000"),
        (&["-i", PORT, "-B", "99999999"], "invalid packet buffer size"),
        (&["-i", PORT, "-w", "/no/such/file"], "No such file or directory"),
        (&["-i", PORT, "port nonsense"], "unknown port 'nonsense'"),
        (&["-i", PORT, "ether proto"], "syntax error"),
        (&["-i", "999"], "Invalid adapter index"),
        (&["-i", ""], "No such device exists"),
    ] {
        let what = arguments.join(" ");
        let printed = same(&what, |library| {
            let ended = rig.spawn(library, "tcpdump", arguments).wait();
            format!("{:?}\n{}\n{}", ended.code, ended.stdout, ended.stderr)
        });
        assert!(printed.contains(words), "{what}: {printed}");
    }
}

#[test]
fn unusual_settings_are_taken_as_by_libpcap() {
    need_root!("unusual_settings_are_taken_as_by_libpcap");
    let rig = Rig::new("settings");
    for settings in [
        &["-j", "adapter"][..],
        &["-j", "adapter_unsynced"],
        &["-s", "0"],
        &["-B", "1"],
        &["-y", "DOCSIS"],
        &["-y", "EN10MB", "--micro"],
        &["-F", "/dev/null"],
    ] {
        let what = settings.join(" ");
        same(&what, |library| {
            let always = ["-i", PORT, "-c", "1", "-w", "/dev/null"];
            let program = rig.spawn(library, "tcpdump", &[&always, settings].concat());
            program.running.wait_for("listening on");
            rig.send([&udp(60, 0)]);
            let ended = program.wait();
            ended.assert_captured(library);
            format!("{:?}\n{}", ended.code, ended.stderr)
        });
    }
}

/// The pool of each of the four queues has 128 chunks of 128 KiB by default.
#[test]
fn a_buffer_size_makes_pools_larger_and_never_smaller() {
    need_root!("a_buffer_size_makes_pools_larger_and_never_smaller");
    let rig = Rig::with("buffer", VethOptions { queues: 4, ..VethOptions::default() });
    let device = format!("{PORT}?M=64");
    for (kibibytes, chunks) in [("1024", 128), ("20480", 128), ("131072", 256)] {
        let arguments = ["-i", &device, "-c", "1", "-w", "/dev/null", "-B", kibibytes];
        let program = rig.spawn(Library::Wirecap, "tcpdump", &arguments);
        program.running.wait_for("listening on");
        rig.send([&udp(60, 0)]);
        let ended = program.wait();
        assert_eq!(ended.accounts.len(), 1, "{ended:#?}");
        let memory = &ended.accounts[0]["report"]["memory"];
        assert_eq!(memory["chunks_per_pool"], chunks, "{kibibytes} KiB: {memory:#}");
    }
}
