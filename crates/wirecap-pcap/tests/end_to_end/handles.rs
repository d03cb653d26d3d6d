//! Programs with several handles, several libraries, or a life of their own.

use nix::sys::signal::Signal;
use wirecap_testing::need_root;
use wirecap_traffic::FrameSpec;

use crate::{
    frames::udp,
    rig::{LIBRARIES, Library, PORT, Rig, as_lines, packets, same, send_from},
};

#[test]
fn two_devices_are_read_in_two_threads() {
    need_root!("two_devices_are_read_in_two_threads");
    let rig = Rig::new("two");
    let second = rig.second_pair();
    let two = rig.compile("two_devices");
    let frames: Vec<_> = (0..5_000).map(|sequence| udp(100, sequence)).collect();
    let printed = same("two devices", |library| {
        let program = rig.spawn_ready(library, &two, &[PORT, "in1", "5000"]);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.send(&frames));
            send_from(&second, &frames);
        });
        program.succeed()
    });
    let line = |device| format!("{device}: 5000 frames, 0 in disorder, 5000 received, 0 dropped\n");
    assert_eq!(printed, line(PORT) + &line("in1"));
}

/// libpcap itself loses packets while a filter is set; of it only the first is required.
#[test]
fn a_new_filter_refuses_and_loses_no_packet_under_traffic() {
    need_root!("a_new_filter_refuses_and_loses_no_packet_under_traffic");
    // The last number is one that both filters want.
    const FRAMES: u64 = 60_001;
    let rig = Rig::new("filters");
    let filters = rig.compile("filters");
    for library in LIBRARIES {
        let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
        let program = rig.spawn_ready(library, &filters, &[PORT, &FRAMES.to_string()]);
        sender.send(FRAMES);
        let printed = match library {
            Library::Wirecap => program.succeed(),
            // It may have lost the last frame, too.
            Library::System => {
                while program.printed().is_empty() {
                    rig.send([&udp(60, FRAMES + 3)]);
                }
                program.succeed()
            }
        };
        let lines: Vec<_> = printed.lines().collect();
        assert_eq!((lines[0], lines[2]), ("0 refused", "changed often"), "{library:?}: {printed}");
        assert!(library == Library::System || lines[1] == "0 missing", "{printed}");
    }
}

/// Also while the function that is interrupted has locks.
#[test]
fn statistics_are_read_in_signal_handlers_and_a_handler_closes_and_exits() {
    need_root!("statistics_are_read_in_signal_handlers_and_a_handler_closes_and_exits");
    const FRAMES: u64 = 60_000;
    let rig = Rig::new("signals");
    let signals = rig.compile("signals");
    let printed = same("signals", |library| {
        let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
        let program = rig.spawn_ready(library, &signals, &[PORT, &FRAMES.to_string()]);
        while sender.sent() < FRAMES {
            sender.send(1_000);
            // Else it is over before the handler was called often.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        program.wait_for_output("asked");
        // What was asked for in the callback is less, or the same, than what has come.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        program.running.signal(Signal::SIGINT);
        program.succeed()
    });
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[1..], ["60000 frames, 0 in disorder", "asked often, 0 failed, 0 fell"], "{printed}");
}

/// libpcap crashes, or runs in circles.
#[test]
fn callbacks_may_close_their_handle_and_are_refused_packets_of_it() {
    need_root!("callbacks_may_close_their_handle_and_are_refused_packets_of_it");
    let rig = Rig::new("callbacks");
    let callbacks = rig.compile("callbacks");
    let program = rig.spawn_ready(Library::Wirecap, &callbacks, &[PORT, "2000"]);
    rig.wire.queue_sender(0, FrameSpec::default()).send(2_000);
    let ended = program.wait();
    let expected = "the handle is being read: a callback cannot read from it\n\
                    pcap_loop = -2, 2000 frames, 0 in disorder, 6 refused\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), expected), "{}", ended.stderr);
    assert_eq!(ended.accounts.len(), 2);
    assert_eq!(ended.accounts[0]["closed"], true);
}

#[test]
fn a_daemon_forks_after_activation_and_its_child_reads() {
    need_root!("a_daemon_forks_after_activation_and_its_child_reads");
    let rig = Rig::new("daemon");
    let daemon = rig.compile("daemon");
    let frames: Vec<_> = (0..2_000).map(|sequence| udp(200, sequence)).collect();
    for (memory, settings) in [("blocks", ""), ("cells", "?xdp_mode=copy")] {
        let printed = same(memory, |library| {
            let file = rig.path(&format!("{library:?}-{memory}.pcap"));
            let settings = if library == Library::Wirecap { settings } else { "" };
            let device = format!("{PORT}{settings}");
            let program = rig.spawn_ready(library, &daemon, &[&device, "2000", file.to_str().unwrap()]);
            rig.send(&frames);
            // The child holds its standard error open.
            program.succeed() + &as_lines(&packets(&file))
        });
        assert!(printed.starts_with("pcap_loop = 0, 2000 received, 0 dropped\n"), "{printed:.100}");
        assert_eq!(printed.lines().count(), 2_001);
    }
}

/// A server closes the handle in the processes that it forks, or leaves it to one of them.
#[test]
fn a_process_that_closes_a_handle_leaves_it_to_the_other() {
    need_root!("a_process_that_closes_a_handle_leaves_it_to_the_other");
    let rig = Rig::new("forking");
    let forking = rig.compile("forking");
    let frames: Vec<_> = (0..2_000).map(|sequence| udp(200, sequence)).collect();
    let devices = [
        PORT.into(),
        format!("packet:{PORT}"),
        format!("xdp:{PORT}"),
        format!("xdp:{PORT}@0"),
        format!("xdp:{PORT}?xdp_mode=copy"),
        format!("{PORT}?dispatch=push"),
    ];
    // The parent closes what its child has read: that is the child's account alone.
    let program = rig.spawn_ready(Library::Wirecap, &forking, &[PORT, "2000", "child", "last"]);
    rig.send(&frames);
    let ended = program.wait();
    assert_eq!(ended.stdout, "pcap_loop = 0, 2000 frames in order\nopened anew\n", "{ended:#?}");
    let delivered: Vec<_> =
        ended.accounts.iter().map(|account| &account["report"]["workers"][0]["packets"]).collect();
    assert_eq!(delivered, [2_000, 0], "and of the handle that was opened anew: {ended:#?}");
    assert!(ended.latest.is_empty(), "{ended:#?}");
    // Not so if the child does nothing. Only sockets of AF_XDP are bound to their queue until it ends.
    let is_by_socket = |device: &String| device.contains('@') || device.contains("copy");
    for device in devices.iter().filter(|device| !is_by_socket(device)) {
        let program = rig.spawn_ready(Library::Wirecap, &forking, &[device, "2000", "parent", "helper"]);
        rig.send(&frames);
        assert_eq!(program.succeed(), "pcap_loop = 0, 2000 frames in order\nopened anew\n", "{device}");
    }
    for reader in ["parent", "child"] {
        let read = |library, device: &str| {
            let program = rig.spawn_ready(library, &forking, &[device, "2000", reader]);
            rig.send(&frames);
            program.succeed()
        };
        let by_libpcap = read(Library::System, PORT);
        assert_eq!(by_libpcap, "pcap_loop = 0, 2000 frames in order\nopened anew\n");
        for device in &devices {
            // Only the process that has opened a capture has its threads.
            if reader == "parent" || !device.contains("push") {
                assert_eq!(read(Library::Wirecap, device), by_libpcap, "{device}, read by the {reader}");
            }
        }
    }
}

#[test]
fn descriptors_that_a_program_closes_are_not_missed() {
    need_root!("descriptors_that_a_program_closes_are_not_missed");
    let rig = Rig::new("closing");
    let closing = rig.compile("closing");
    let frames: Vec<_> = (0..500).map(|sequence| udp(60, sequence)).collect();
    for state in ["unused", "used"] {
        let printed = same(state, |library| {
            let file = rig.path(&format!("{library:?}"));
            let arguments = [PORT, "500", file.to_str().unwrap(), state];
            let program = rig.spawn_with(library, &[("WIRECAP_ACCOUNT", "")], &closing, &arguments);
            program.running.wait_for("ready");
            rig.send(&frames);
            let ended = program.wait();
            assert_eq!(ended.code, Some(0), "{ended:#?}");
            ended.stdout + &std::fs::read_to_string(&file).unwrap()
        });
        let numbers: String = (0..500).map(|number| format!("{number}\n")).collect();
        assert_eq!(printed, format!("pcap_loop = 0\n{numbers}"), "{state}");
    }
}

/// Of the figure of all queues in an account.
fn sum(account: &serde_json::Value, figure: &str) -> i64 {
    let queues = account["report"]["ports"][0]["queues"].as_array().unwrap();
    queues.iter().map(|queue| queue.pointer(figure).unwrap().as_i64().unwrap()).sum()
}

#[test]
fn a_handle_that_is_not_closed_has_an_account_that_closes() {
    need_root!("a_handle_that_is_not_closed_has_an_account_that_closes");
    let rig = Rig::new("ending");
    let ending = rig.compile("ending");
    for how in ["return", "exit"] {
        let program = rig.spawn_ready(Library::Wirecap, &ending, &[PORT, how]);
        rig.wire.queue_sender(0, FrameSpec::default()).send(20_000);
        let ended = program.wait();
        assert_eq!((ended.code, ended.accounts.len()), (Some(0), 1), "{how}: {ended:#?}");
        let account = &ended.accounts[0];
        let [seen, delivered, left, unexplained] =
            ["/seen", "/delivered", "/lost/left_at_stop", "/unexplained"].map(|figure| sum(account, figure));
        assert_eq!((account["closed"].as_bool(), unexplained), (Some(false), 0), "{how}: {account}");
        assert_eq!(seen, delivered + left, "{how}: {account}");
        assert_eq!(delivered, 5 + account["unread"].as_i64().unwrap(), "{how}: {account}");
    }
}

#[test]
fn a_program_that_closes_the_descriptors_of_a_capture_gets_an_error() {
    need_root!("a_program_that_closes_the_descriptors_of_a_capture_gets_an_error");
    let rig = Rig::new("cut_off");
    let ending = rig.compile("ending");
    for settings in ["", "?xdp_mode=copy", "?dispatch=push"] {
        let device = format!("{PORT}{settings}");
        let printed = rig.spawn_ready(Library::Wirecap, &ending, &[&device, "closed"]).wait().stdout;
        let error = "-1: the program has closed the descriptors of this capture\n";
        assert_eq!(printed, format!("pcap_next_ex = -1, pcap_next_ex = {error}"), "{settings}");
    }
}

#[test]
fn an_open_that_fails_leaves_no_descriptor() {
    need_root!("an_open_that_fails_leaves_no_descriptor");
    let rig = Rig::new("refused");
    let ending = rig.compile("ending");
    for device in ["in0?R=0", "in0@77", "in0?xdp_mode=zero-copy", "in0?cores=999"] {
        let printed = rig.spawn(Library::Wirecap, &ending, &[device, "refused"]).wait().stdout;
        assert!(printed.ends_with(": 0 more\n"), "{device}: {printed}");
    }
}

#[test]
fn two_libraries_capture_in_one_program() {
    need_root!("two_libraries_capture_in_one_program");
    let rig = Rig::new("libraries");
    let two = rig.compile("two_libraries");
    let by_path = crate::symbols::system_library().to_str().unwrap();
    let frames: Vec<_> = (0..1_000).map(|sequence| udp(60, sequence)).collect();
    let printed = same("two libraries", |library| {
        // The frames stay for the other library.
        let beside = if library == Library::Wirecap { "packet:in0" } else { PORT };
        let arguments = ["1000", "libpcap.so.0.8", beside, by_path, PORT];
        let program = rig.spawn_ready(library, &two, &arguments);
        rig.send(&frames);
        program.succeed()
    });
    let line = |name| format!("{name}: 1000 frames, 0 in disorder\n");
    assert_eq!(printed, line("libpcap.so.0.8") + &line(by_path));
}

/// The second one is there before the first call of the one that is preloaded.
#[test]
fn a_libpcap_that_a_program_opens_by_path_first_is_whole() {
    need_root!("a_libpcap_that_a_program_opens_by_path_first_is_whole");
    let rig = Rig::new("by_path");
    let two = rig.compile("two_libraries");
    let by_path = crate::symbols::system_library().to_str().unwrap();
    let frames: Vec<_> = (0..1_000).map(|sequence| udp(60, sequence)).collect();
    let printed = same("by path first", |library| {
        let beside = if library == Library::Wirecap { "packet:in0" } else { PORT };
        let arguments = ["1000", by_path, PORT, "libpcap.so.0.8", beside];
        let program = rig.spawn_ready(library, &two, &arguments);
        rig.send(&frames);
        program.succeed()
    });
    let line = |name| format!("{name}: 1000 frames, 0 in disorder\n");
    assert_eq!(printed, line(by_path) + &line("libpcap.so.0.8"));
}

#[test]
fn a_device_that_is_opened_again_and_again_leaves_no_descriptor() {
    need_root!("a_device_that_is_opened_again_and_again_leaves_no_descriptor");
    let rig = Rig::new("reopening");
    let reopening = rig.compile("reopening");
    let printed = same("reopening", |library| rig.spawn(library, &reopening, &[PORT, "10"]).succeed());
    assert_eq!(printed, "0 more\n");
}

/// A daemon closes all descriptors that it does not know, and opens others under the same numbers.
#[test]
fn the_account_is_not_written_into_a_file_of_the_program() {
    need_root!("the_account_is_not_written_into_a_file_of_the_program");
    let rig = Rig::new("account");
    let closing = rig.compile("closing");
    let file = rig.path("numbers");
    let program = rig.spawn(Library::Wirecap, &closing, &[PORT, "10", file.to_str().unwrap(), "used"]);
    program.running.wait_for("ready");
    let frames: Vec<_> = (0..10).map(|sequence| udp(60, sequence)).collect();
    rig.send(&frames);
    assert_eq!(program.wait().code, Some(0));
    let numbers: String = (0..10).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), numbers);
}

/// libpcap hands filters to the kernel, whichever thread sets them.
#[test]
fn a_filter_is_changed_while_another_thread_reads() {
    need_root!("a_filter_is_changed_while_another_thread_reads");
    let rig = Rig::new("changing");
    let changing = rig.compile("changing");
    for device in [PORT.into(), format!("packet:{PORT}")] {
        let mut sender = rig.wire.queue_sender(0, FrameSpec::default());
        let program = rig.spawn_ready(Library::Wirecap, &changing, &[&device, "500"]);
        // For as long as the changes take, at least.
        for _ in 0..6_000 {
            sender.send(20);
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert_eq!(program.succeed(), "0 changes late, 500 descriptors, packets came\n", "{device}");
    }
}
