//! Captures with faults: captured packets are kept, and the account closes.

use std::{thread, time::Duration};

use nix::sys::signal::Signal;
use wirecap_file::Error;
use wirecap_lab::Capture;
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::kernel_is_at_least;
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, RunningCommand, SmallDisk, WIRECAP, assert_frames, by_queue, partial, read};

const WHOLE: usize = usize::MAX;

#[test]
fn a_full_disk_keeps_what_fitted_and_closes_the_account() {
    if !require_root("a_full_disk_keeps_what_fitted_and_closes_the_account") {
        return;
    }
    // A disk in memory has direct writes since Linux 6.6.
    let direct = kernel_is_at_least(6, 6).then_some(("full.pcapng", &["--direct-io"][..]));
    for (name, flags) in [("full.pcapng", &[][..]), ("full.pcap", &[])].into_iter().chain(direct) {
        let lab = Lab::with_queues("full", 1);
        let directory = lab.path("disk");
        let _disk = SmallDisk::mount(&directory);
        let path = directory.join(name);
        let running = lab.capture(&[&["r0", "-w", path.to_str().unwrap()], flags].concat());
        // The capture ends while frames are still sent: those that meet the detached program are refused.
        lab.send_some(0, 0, 30_000);
        let ended = running.wait();
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert!(
            ended.stderr.contains("No space left on device") && ended.stderr.contains("kept "),
            "{ended:#?}"
        );
        let path = partial(&path);
        let (account, capture) = (ended.account(), read(&path));
        let kept = capture.packets.len() as u64;
        assert_eq!(account.written("packets"), kept);
        assert_eq!(account.0["written"]["partial"], path.to_str().unwrap());
        assert_eq!(account.written("bytes"), std::fs::metadata(&path).unwrap().len());
        assert!(kept > 5_000 && kept < account.sum("delivered"), "{kept}: {:#}", account.0);
        assert!(
            ended
                .stderr
                .contains(&format!("{} packets were captured but not", account.sum("delivered") - kept))
        );
        assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), WHOLE);
    }
}

#[test]
fn the_file_of_a_killed_capture_is_readable() {
    if !require_root("the_file_of_a_killed_capture_is_readable") {
        return;
    }
    let lab = Lab::with_queues("killed", 1);
    let path = lab.path("killed.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    thread::scope(|scope| {
        scope.spawn(|| lab.send_some(0, 0, 200_000));
        running.wait_for_bytes(&path, 100_000);
        running.signal(Signal::SIGKILL);
    });
    assert_eq!(running.wait().code, None);
    assert!(!path.exists());
    let capture = Capture::read(std::fs::File::open(partial(&path)).unwrap()).unwrap();
    assert!(matches!(capture.damage, None | Some(Error::Truncated { .. })), "{:?}", capture.damage);
    assert!(capture.packets.len() > 900);
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), WHOLE);
    // The interface is free again.
    lab.capture(&["r0", "--duration", "100ms"]).wait().account();
}

#[test]
fn an_interface_deleted_while_capturing_ends_the_capture() {
    if !require_root("an_interface_deleted_while_capturing_ends_the_capture") {
        return;
    }
    let lab = Lab::with_queues("deleted", 2);
    let path = lab.path("deleted.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 10_000, LiveOptions::default());
    lab.right.ip(&["link", "del", "dev", "r0"]).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("r0 was removed") && ended.stderr.contains("every interface is gone"),
        "{ended:#?}"
    );
    ended.account().assert_lossless(10_000);
    let capture = read(&path);
    assert_eq!((capture.packets.len(), capture.statistics.len()), (10_000, 1));
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), WHOLE);
}

#[test]
fn with_one_of_two_interfaces_gone_the_capture_continues() {
    if !require_root("with_one_of_two_interfaces_gone_the_capture_continues") {
        return;
    }
    let lab = Lab::new("one_gone", &[VethOptions::default(), VethOptions::default()]);
    let path = lab.path("one_gone.pcapng");
    let running = lab.capture(&["r0", "r1", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 2_000, LiveOptions::default());
    lab.right.ip(&["link", "del", "dev", "r0"]).unwrap();
    running.wait_for("r0 was removed");
    lab.send(1, 0, 3_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "the capture is incomplete: {ended:#?}");
    assert!(ended.stderr.contains("incomplete: r0 was removed, or moved"), "{ended:#?}");
    ended.account().assert_lossless(5_000);
    let capture = read(&path);
    let queues = by_queue(&capture.packets);
    assert_eq!(queues.values().map(Vec::len).collect::<Vec<_>>(), [2_000, 3_000]);
}

#[test]
fn a_link_that_goes_down_and_up_is_reported_and_survived() {
    if !require_root("a_link_that_goes_down_and_up_is_reported_and_survived") {
        return;
    }
    let lab = Lab::with_queues("down", 1);
    let path = lab.path("down.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    lab.pairs[0].a().set_down().unwrap();
    running.wait_for("r0 has no carrier; capture resumes");
    lab.pairs[0].a().set_up().unwrap();
    running.wait_for("r0 is up");
    lab.send(0, 0, 1_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(2_000);
    assert_eq!(read(&path).packets.len(), 2_000);
}

#[test]
fn a_reader_that_goes_away_is_reported() {
    if !require_root("a_reader_that_goes_away_is_reported") {
        return;
    }
    let lab = Lab::with_queues("pipe", 1);
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "-w", "-"]);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for("M = ");
    drop(running.take_stdout());
    lab.send_some(0, 0, 1_000);
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("cannot write standard output: the program that read it has ended"),
        "{ended:#?}"
    );
    assert_eq!(ended.account_on_stderr().written("packets"), 0);
}

#[test]
fn packets_lost_to_a_slow_disk_are_all_accounted_for() {
    if !require_root("packets_lost_to_a_slow_disk_are_all_accounted_for") {
        return;
    }
    let lab = Lab::with_queues("slow", 1);
    let mut command = lab.right.command(WIRECAP);
    // A pool of 2,048 cells, and a reader that takes nothing for a while.
    command.args(["capture", "r0", "--json", "-M", "64", "-R", "32", "-w", "-"]);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for("M = ");
    let mut stdout = running.take_stdout();
    let sent = lab.send_some(0, 0, 300_000);
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut bytes).unwrap();
        bytes
    });
    thread::sleep(Duration::from_millis(400));
    let ended = running.stop();
    let account = ended.account_on_stderr();
    assert_eq!((ended.code, account.sum("seen")), (Some(0), sent), "{:#}", account.0);
    assert!(account.sum("delivered") < sent, "{:#}", account.0);
    let capture = Capture::read(reader.join().unwrap().as_slice()).unwrap();
    assert_eq!(capture.packets.len() as u64, account.sum("delivered"));
    let lost = capture.statistics[0].counters.dropped_by_os.unwrap();
    assert_eq!(lost, sent - account.sum("delivered"), "the file has the number of missing packets");
}

#[test]
fn under_nohup_a_capture_outlives_its_terminal() {
    if !require_root("under_nohup_a_capture_outlives_its_terminal") {
        return;
    }
    let lab = Lab::with_queues("nohup", 1);
    let mut command = lab.right.command("nohup");
    command.args([WIRECAP, "capture", "r0", "--json"]);
    let running = RunningCommand::spawn(command);
    running.wait_for("wirecap: M =");
    running.signal(Signal::SIGHUP);
    lab.send_some(0, 0, 100);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(100);
}
