//! `wirecap handle`: filters that run several times, paces that are held, packets that are sent on.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wirecap_lab::{VethOptions, require_root, trace_bytes::Order};
use wirecap_testing::{PacketSender, SendPath, schema::check_records};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::{
    forward::{Cable, frame},
    lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP, assert_frames, by_queue, cores, read},
};

/// A UDP frame from this address.
fn udp_from(source: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 46]);
    (frame[22], frame[23]) = (64, 17);
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame
}

/// A packet of every four is of the paper's network, in a trace of this many packets.
fn trace(packets: u32) -> (TempDir, PathBuf) {
    let order = Order::Little;
    let mut bytes = order.pcap_header(0xa1b2_3c4d, (2, 4), 65_535, 1);
    for number in 0..packets {
        let source = if number % 4 == 1 { [131, 225, 2, number as u8] } else { [131, 225, 3, number as u8] };
        bytes.extend(order.pcap_record(1_700_000_000, number, (60, 60), &udp_from(source)));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn handle(arguments: &[&str]) -> Output {
    Command::new(WIRECAP).arg("handle").args(arguments).output().unwrap()
}

/// The record of how the packets of a trace were handled.
fn of_trace(packets: u32, arguments: &[&str]) -> Value {
    let (_directory, path) = trace(packets);
    let port = format!("trace:{}", path.display());
    let output = handle(&[&["-q", "--json", &port], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(check_records(&output.stdout), 1, "{output:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    record["handled"].clone()
}

/// A figure of all threads together.
fn sum(handled: &Value, figure: &str) -> u64 {
    threads(handled).iter().map(|thread| thread[figure].as_u64().unwrap()).sum()
}

fn threads(handled: &Value) -> &[Value] {
    handled["threads"].as_array().unwrap()
}

/// Each packet that was delivered is handled, given up, or came in by the other interface.
fn handled(ended: &CommandOutput) -> Value {
    let account = ended.account();
    let handled = account.0["handled"].clone();
    let ignored = handled["sent_on"]["ignored"].as_u64().unwrap_or(0);
    let unhandled = handled["unhandled"].as_u64().unwrap();
    assert_eq!(sum(&handled, "packets") + unhandled + ignored, account.sum("delivered"), "{handled:#}");
    handled
}

#[test]
fn matches_are_counted_whatever_runs_the_filter() {
    for (arguments, matched, is_native) in [
        (&["-x", "1"][..], 1_000, false),
        (&["-x", "7"], 1_000, false),
        (&["-x", "7", "--native"], 1_000, cfg!(target_arch = "x86_64")),
        (&["-x", "7", "--apply", "not net 131.225.2"], 3_000, false),
        (&["-x", "7", "--apply", "tcp"], 0, false),
    ] {
        let handled = of_trace(4_000, arguments);
        assert_eq!((sum(&handled, "packets"), sum(&handled, "matched")), (4_000, matched), "{arguments:?}");
        assert_eq!(handled["filter"]["native"], is_native, "{handled:#}");
    }
    let nothing = of_trace(4_000, &["-x", "0"]);
    let thread = &threads(&nothing)[0];
    assert_eq!((&thread["packets"], &thread["matched"]), (&4_000.into(), &Value::Null), "{nothing:#}");
}

#[test]
fn more_runs_cost_more_cpu_time() {
    let cost =
        |runs: &str| threads(&of_trace(2_000, &["-x", runs]))[0]["cpu_ns_per_packet"].as_f64().unwrap();
    // Other work on the machine makes a run dearer: the cheapest of three counts.
    let least = |runs: &str| (0..3).map(|_| cost(runs)).fold(f64::INFINITY, f64::min);
    let (few, many) = (least("50"), least("500"));
    assert!((4.0..25.0).contains(&(many / few)), "{few} ns and {many} ns");
}

#[test]
fn wrong_flags_are_refused_with_what_to_write() {
    let (_directory, path) = trace(4);
    let port = format!("trace:{}", path.display());
    for (arguments, words) in [
        (&[][..], "handle needs to know what a packet costs: -x 300"),
        (&["-x", "many"], "-x many: write a whole number, like -x 300"),
        (&["-x", "300", "--pace", "1k"], "cannot be used with"),
        (&["--pace", "fast"], "--pace fast: write packets per second, like 500k or 2Mpps"),
        (&["--pace", "1k", "--native"], "--apply and --native are for a filter that runs"),
        (&["-x", "0", "--native"], "--apply and --native are for a filter that runs"),
        (&["-x", "0", "--apply", "udp"], "--apply and --native are for a filter that runs"),
        (
            &["-x", "1", "--apply", "inbound"],
            "--apply inbound: inbound, outbound and ifindex are not in the bytes",
        ),
        (&["-x", "1", "--apply", "udp and"], "udp and"),
        (&["-x", "1", "--threads", "2", "--mode", "basic"], "use at most 1 worker, or advanced mode"),
        (&["-x", "1", "--mode", "basic", "-T", "60"], "-T is for advanced mode"),
        (&["-x", "1", "--forward", "lo"], "a trace file is sent with wirecap replay"),
    ] {
        let refused = handle(&[&[port.as_str()], arguments].concat());
        let message = String::from_utf8(refused.stderr.clone()).unwrap();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

#[test]
fn packets_of_an_interface_match_or_do_not() {
    if !require_root("packets_of_an_interface_match_or_do_not") {
        return;
    }
    let lab = Lab::with_queues("handlex", 2);
    let running = lab.spawn(&["handle", "r0", "-x", "20", "--json"]);
    running.wait_for(READY);
    let mut sent = 0;
    for core in 0..cores() {
        lab.send(0, core, 5_000, LiveOptions::default());
        sent += 5_000;
    }
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Direct)).unwrap();
    (0..200).for_each(|host| sender.send(&udp_from([131, 225, 2, host])).unwrap());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(sent + 200);
    let handled = handled(&ended);
    assert_eq!((sum(&handled, "packets"), sum(&handled, "matched")), (sent + 200, 200), "{handled:#}");
    assert_eq!(threads(&handled).len(), 2, "one for each queue");
    let said = "each packet: 20 runs of the filter \"net 131.225.2 and udp\", interpreted";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_pace_is_held_by_each_thread_without_cpu_time() {
    if !require_root("a_pace_is_held_by_each_thread_without_cpu_time") {
        return;
    }
    const PACE: f64 = 1_000.0;
    const FRAMES: u64 = 2_000;
    let lab = Lab::with_queues("handlepace", 2);
    let arguments = ["handle", "r0", "--pace", "1k", "--threads", "2", "--mode", "basic", "--json"];
    let running = lab.spawn(&arguments);
    running.wait_for(READY);
    (0..cores()).for_each(|core| _ = lab.send(0, core, FRAMES, LiveOptions::default()));
    // It ends once everything is handled.
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(cores() as u64 * FRAMES);
    let handled = handled(&ended);
    assert_eq!(handled["pace_pps"], 1_000);
    for thread in &threads(&handled)[..cores()] {
        assert_eq!(thread["packets"], FRAMES, "{thread:#}");
        let figure = |name: &str| thread[name].as_f64().unwrap();
        // It is never faster; how much slower is up to the machine, which may wake it late.
        let (busy, exact) = (figure("busy_seconds"), FRAMES as f64 / PACE);
        assert!(busy >= 0.999 * exact, "{thread:#}");
        assert!((figure("busy_pps") - FRAMES as f64 / busy).abs() < 1.0, "{thread:#}");
        let cpu_share = figure("cpu_ns_per_packet") * PACE / 1e9;
        assert!(cpu_share < 0.2, "it sleeps: {thread:#}");
    }
}

#[test]
fn a_small_pool_loses_what_a_pace_leaves() {
    if !require_root("a_small_pool_loses_what_a_pace_leaves") {
        return;
    }
    const CELLS: f64 = 256.0;
    const PACE: f64 = 1_000.0;
    const FRAMES: u64 = 8_000;
    let lab = Lab::with_queues("handleloss", 1);
    let pool = ["-M", "64", "-R", "4", "--xdp-mode", "copy", "--mode", "basic"];
    let arguments = [&["handle", "r0", "--pace", "1k", "--json", "--fail-on-loss"], &pool[..]].concat();
    let running = lab.spawn(&arguments);
    running.wait_for(READY);
    let sent = lab.send(0, 0, FRAMES, LiveOptions::default());
    running.wait_for("WARNING: r0 lost ");
    let ended = running.stop();
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    let account = ended.account();
    assert_eq!(account.sum("seen"), FRAMES);
    // The pool takes its cells, and those of batches that were done while the burst came.
    let (delivered, batch) = (account.sum("delivered") as f64, 64.0);
    let most = CELLS + PACE * sent.seconds + batch;
    assert!((CELLS..=most).contains(&delivered), "{delivered} of {most} at most");
    assert_eq!(sum(&handled(&ended), "packets"), account.sum("delivered"));
}

#[test]
fn more_threads_than_queues_help_and_fewer_have_several() {
    if !require_root("more_threads_than_queues_help_and_fewer_have_several") {
        return;
    }
    let lab = Lab::with_queues("handlemany", 2);
    for (number, words) in [
        ("4", "threads without a receive queue, which only help: 2-3"),
        ("1", "1 thread for 2 receive queues: the queues are dealt out in turn"),
    ] {
        let running = lab.spawn(&["handle", "r0", "--pace", "100k", "--threads", number, "--json"]);
        running.wait_for(READY);
        (0..cores()).for_each(|core| _ = lab.send(0, core, 1_000, LiveOptions::default()));
        let ended = running.stop();
        ended.account().assert_lossless(cores() as u64 * 1_000);
        let handled = handled(&ended);
        assert_eq!(threads(&handled).len().to_string(), number);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        lab.wait_until_given_back("r0");
    }
}

#[test]
fn a_second_signal_gives_up_what_is_still_to_be_handled() {
    if !require_root("a_second_signal_gives_up_what_is_still_to_be_handled") {
        return;
    }
    let lab = Lab::with_queues("handleup", 1);
    let running = lab.spawn(&["handle", "r0", "--pace", "1", "--json"]);
    running.wait_for(READY);
    lab.send(0, 0, 1_000, LiveOptions::default());
    thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGTERM);
    running.wait_for("packets are still to be handled");
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let handled = handled(&ended);
    let unhandled = handled["unhandled"].as_u64().unwrap();
    // A first batch of few packets may be done.
    assert!(unhandled > 900 && unhandled + sum(&handled, "packets") == 1_000, "{handled:#}");
    let said = format!("{unhandled} packets were captured and not handled: a signal gave them up");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);
}

/// Starts `wirecap handle m0 --forward m1` in the middle, and waits until it handles.
fn forwarding(cable: &Cable, arguments: &[&str]) -> RunningCommand {
    let running = cable.spawn(&[&["handle", "m0", "--forward", "m1", "--json"], arguments].concat());
    running.wait_for(READY);
    running
}

#[test]
fn handled_packets_are_sent_on_in_order() {
    if !require_root("handled_packets_are_sent_on_in_order") {
        return;
    }
    // Fewer than a pool has cells: nothing is lost, however late threads run.
    const FRAMES: u64 = 10_000;
    const CHUNKS: &str = "64";
    let cable = Cable::quiet_of("handlefw", VethOptions { queues: 2, ..VethOptions::default() });
    for (file, arguments) in [
        ("x.pcapng", &["-x", "3", "--mode", "basic"][..]),
        ("pace.pcapng", &["--pace", "50k", "--mode", "basic"]),
    ] {
        let running = forwarding(&cable, &[arguments, &["-R", CHUNKS]].concat());
        let far = cable.listen("xdp:r0", file, &[]);
        let ifindex = cable.first.a().ifindex().unwrap();
        let options = |core: usize| LiveOptions {
            frame: FrameSpec { run: core as u16, ..FrameSpec::default() },
            ..LiveOptions::default()
        };
        for core in 0..cores() {
            cable.left.enter(|| {
                wirecap_sys::cpu::pin_to_core(core).unwrap();
                let mut sender = wirecap_testing::LiveSender::new(ifindex, options(core)).unwrap().at(40_000);
                assert_eq!(sender.run(FRAMES).unwrap().dropped, 0);
            });
        }
        // What comes in by the other interface is not handled.
        let mut back = cable.sender_of_right();
        (0..5).for_each(|_| back.send(&udp_from([131, 225, 2, 1])).unwrap());
        thread::sleep(Duration::from_millis(500));
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let sent = cores() as u64 * FRAMES;
        ended.account().assert_lossless(sent + 5);
        let handled = handled(&ended);
        let on = &handled["sent_on"];
        assert_eq!((&on["to"], &on["packets"], &on["ignored"]), (&"m1".into(), &sent.into(), &5.into()));
        assert!(on["dropped"].as_object().unwrap().values().all(|packets| *packets == 0), "{on:#}");
        let far = far.stop();
        far.account().assert_lossless(sent);
        let capture = read(&cable.path(file));
        let queues = by_queue(&capture.packets);
        assert_eq!(queues.len(), cores());
        for ((_, queue), packets) in queues {
            assert_eq!(packets.len() as u64, FRAMES);
            assert_frames(&packets, options(queue.unwrap_or(0) as usize).frame, usize::MAX);
        }
    }
}

#[test]
fn buddies_send_on_what_they_took_over() {
    if !require_root("buddies_send_on_what_they_took_over") {
        return;
    }
    const FRAMES: u64 = 4_000;
    let cable = Cable::quiet_of("handlebud", VethOptions { queues: 2, ..VethOptions::default() });
    // A pool of 4,096 cells, which the burst fills far beyond T.
    let running = forwarding(&cable, &["--pace", "2k", "-T", "10", "-M", "64", "-R", "64"]);
    let far = cable.listen("xdp:r0", "buddy.pcapng", &[]);
    let ifindex = cable.first.a().ifindex().unwrap();
    cable.left.enter(|| {
        wirecap_sys::cpu::pin_to_core(0).unwrap();
        let mut sender = wirecap_testing::LiveSender::new(ifindex, LiveOptions::default()).unwrap();
        sender.run(FRAMES).unwrap();
    });
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let handled = handled(&ended);
    let lost = FRAMES - ended.account().sum("delivered");
    assert_eq!((lost, handled["sent_on"]["packets"].as_u64()), (0, Some(FRAMES)), "{handled:#}");
    assert!(threads(&handled).iter().all(|thread| thread["packets"] != 0), "both handle: {handled:#}");
    let far = far.stop();
    far.account().assert_lossless(FRAMES);
}

#[test]
fn what_the_other_interface_refuses_is_counted_by_cause() {
    if !require_root("what_the_other_interface_refuses_is_counted_by_cause") {
        return;
    }
    let cable = Cable::quiet("handlerefuse");
    for end in [cable.second.a(), cable.second.b()] {
        end.set_mtu(1000).unwrap();
    }
    let running = forwarding(&cable, &["-x", "1", "--fail-on-loss"]);
    running.wait_for("m0 has an MTU of 1500 and m1 of 1000: longer packets from m0 are dropped (too_long)");
    let mut sender = cable.sender();
    let mut send = |frames: u8, len| (0..frames).for_each(|number| sender.send(&frame(number, len)).unwrap());
    send(10, 200);
    send(5, 1_400);
    running.wait_for("so far: too_long 5");
    cable.right.ip(&["link", "set", "r0", "down"]).unwrap();
    running.wait_for("m1 has no carrier");
    send(20, 200);
    running.wait_for("link_down");
    let ended = running.stop();
    assert_eq!(ended.code, Some(3), "what a link that is down loses is a loss: {ended:#?}");
    let handled = handled(&ended);
    let on = &handled["sent_on"];
    assert_eq!((&on["packets"], &on["bytes"]), (&10.into(), &2_000.into()), "{on:#}");
    assert_eq!((&on["dropped"]["too_long"], &on["dropped"]["link_down"]), (&5.into(), &20.into()), "{on:#}");
    assert_eq!((sum(&handled, "packets"), ended.account().sum("delivered")), (35, 35));
}

#[test]
fn an_end_by_number_or_time_sends_on_what_was_captured() {
    if !require_root("an_end_by_number_or_time_sends_on_what_was_captured") {
        return;
    }
    for end in [["-c", "40"], ["--duration", "3s"]] {
        let cable = Cable::quiet("handleend");
        let far = cable.listen("xdp:r0", "end.pcapng", &[]);
        // Handling all of them takes 6 s: at the end, most of them are in the pool.
        let running = forwarding(&cable, &[&["--pace", "10"][..], &end].concat());
        let mut sender = cable.sender();
        let begun = Instant::now();
        (0..60).for_each(|number| sender.send(&frame(number, 200)).unwrap());
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(begun.elapsed() > Duration::from_millis(3_300), "{end:?}: ended before all were handled");
        let handled = handled(&ended);
        // The thread may hold more than -c asks for.
        let packets = ended.account().sum("delivered");
        assert!(packets == 60 || (end[0] == "-c" && (40..60).contains(&packets)), "{end:?}: {packets}");
        assert_eq!(handled["sent_on"]["packets"], packets, "{end:?}: {handled:#}");
        assert_eq!((sum(&handled, "packets"), &handled["unhandled"]), (packets, &0.into()));
        far.stop().account().assert_lossless(packets);
    }
}

#[test]
fn what_finds_no_room_at_the_interface_that_packets_are_sent_on_by_is_no_loss() {
    if !require_root("what_finds_no_room_at_the_interface_that_packets_are_sent_on_by_is_no_loss") {
        return;
    }
    let cable = Cable::quiet("handleback");
    let running = forwarding(&cable, &["--pace", "20", "-M", "64", "-R", "4", "--fail-on-loss"]);
    let far = cable.listen("xdp:r0", "arrived.pcapng", &["-c", "40"]);
    // The thread is busy for two seconds.
    let mut there = cable.sender();
    (0..40).for_each(|number| there.send(&frame(number, 60)).unwrap());
    let mut back = cable.sender_of_right();
    (0..2_000).for_each(|number: u32| back.send(&frame(number as u8, 60)).unwrap());
    far.wait();
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stderr.contains("lost"), "{ended:#?}");
    let ports = &ended.account().0["ports"];
    let lost = |port: usize| ports[port]["queues"][0]["lost"]["no_free_cell"].as_u64().unwrap();
    assert!(lost(0) == 0 && lost(1) > 500, "{ports:#}");
    assert_eq!(handled(&ended)["sent_on"]["packets"], 40);
}

#[test]
fn interfaces_between_which_nothing_can_be_sent_on_are_refused() {
    if !require_root("interfaces_between_which_nothing_can_be_sent_on_are_refused") {
        return;
    }
    let cable = Cable::quiet_of("handlebad", VethOptions { queues: 2, ..VethOptions::default() });
    for (arguments, words) in [
        (&["--forward", "m0"][..], "m0 is given twice"),
        (&["--forward", "tap:m1"], "tap:m1 cannot be forwarded"),
        (&["--forward", "nosuch"], "nosuch"),
        (&["--forward", "m1", "--threads", "3"], "--threads 3: with --forward, each thread needs a queue"),
    ] {
        let ended = cable.spawn(&[&["handle", "m0", "-x", "1"], arguments].concat()).wait();
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
}
