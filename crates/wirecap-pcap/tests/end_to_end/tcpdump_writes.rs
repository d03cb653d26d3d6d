//! The files that tcpdump writes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use nix::sys::signal::Signal;
use wirecap_testing::{need_root, wait_until};

use crate::{
    frames::{mixture, mixture_with_tags, udp},
    rig::{PORT, Program, Rig, as_lines, files, packets, same},
};

/// Enough for what a test sends at once.
const BUFFER: &[&str] = &["-B", "32768"];

fn listening(program: Program) -> Program {
    program.running.wait_for("listening on");
    program
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// By default tcpdump becomes another user before it opens the file.
#[test]
fn the_file_has_every_packet_whatever_the_user() {
    need_root!("the_file_has_every_packet_whatever_the_user");
    let rig = Rig::new("writes");
    let frames = mixture_with_tags(300);
    for user in [&[][..], &["-Z", "root"], &["-Z", "nobody"]] {
        let what = user.join(" ");
        let lines = same(&what, |library| {
            let file = rig.path(&format!("{library:?}-{}.pcap", user.len()));
            let _ = fs::remove_file(&file);
            let always = ["-i", PORT, "-c", "300", "-w", file.to_str().unwrap()];
            let program = listening(rig.spawn(library, "tcpdump", &[&always, user, BUFFER].concat()));
            rig.send(&frames);
            program.succeed();
            as_lines(&packets(&file))
        });
        assert_eq!(lines.lines().count(), 300, "{what}");
    }
}

#[test]
fn times_have_nanoseconds_and_are_those_of_now() {
    need_root!("times_have_nanoseconds_and_are_those_of_now");
    let rig = Rig::new("nanoseconds");
    for (precision, magic) in [("nano", 0xa1b2_3c4d_u32), ("micro", 0xa1b2_c3d4)] {
        same(precision, |library| {
            let file = rig.path(&format!("{library:?}-{precision}.pcap"));
            let precision = format!("--time-stamp-precision={precision}");
            let arguments = ["-i", PORT, "-c", "100", &precision, "-w", file.to_str().unwrap()];
            let program = listening(rig.spawn(library, "tcpdump", &arguments));
            // A file without nanoseconds rounds down.
            let before = now_ns() - 1_000;
            rig.send(&mixture(100));
            program.succeed();
            let after = now_ns();
            assert_eq!(fs::read(&file).unwrap()[..4], magic.to_ne_bytes(), "{library:?}, {precision}");
            let times: Vec<_> = packets(&file).iter().map(|packet| packet.timestamp_ns.unwrap()).collect();
            assert!(times.is_sorted(), "{library:?}, {precision}: {times:?}");
            assert!(before <= times[0] && times[99] <= after, "{library:?}: {before} {times:?} {after}");
            let has_fractions = times.iter().any(|time| time % 1_000 != 0);
            format!("{has_fractions}, {}", as_lines(&packets(&file)))
        });
    }
}

#[test]
fn files_rotate_by_size() {
    need_root!("files_rotate_by_size");
    let rig = Rig::new("by_size");
    let frames: Vec<_> = (0..2_500).map(|sequence| udp(1514, sequence)).collect();
    for (keep, count) in [("9", 4), ("2", 2)] {
        let lines = same(keep, |library| {
            let directory = rig.path(&format!("{library:?}-{keep}"));
            fs::create_dir(&directory).unwrap();
            let file = directory.join("file");
            let arguments = ["-i", PORT, "-Z", "root", "-c", "2500", "-C", "1", "-W", keep, "-w"];
            let program =
                rig.spawn(library, "tcpdump", &[&arguments[..], &[file.to_str().unwrap()], BUFFER].concat());
            let program = listening(program);
            rig.send(&frames);
            program.succeed();
            all_packets(&directory)
        });
        assert_eq!(lines.matches("file").count(), count, "{keep} files");
    }
}

/// The packets of each file of a directory, after the file's name.
fn all_packets(directory: &Path) -> String {
    let lines = |file: &PathBuf| {
        format!("{}\n{}", file.file_name().unwrap().to_string_lossy(), as_lines(&packets(file)))
    };
    files(directory).iter().map(lines).collect()
}

#[test]
fn files_rotate_by_time() {
    need_root!("files_rotate_by_time");
    let rig = Rig::new("by_time");
    let printed = same("by time", |library| {
        let directory = rig.path(&format!("{library:?}"));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("%s.pcap");
        let arguments = ["-i", PORT, "-Z", "root", "-U", "-G", "1", "-w", file.to_str().unwrap()];
        let program = listening(rig.spawn(library, "tcpdump", &arguments));
        let mut sent = 0;
        wait_until("there are three files", || {
            rig.send([&udp(100, sent)]);
            sent += 1;
            files(&directory).len() >= 3
        });
        wait_until("all packets are written", || {
            let files = files(&directory);
            let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
            bytes == 24 * files.len() as u64 + 116 * sent
        });
        program.running.signal(Signal::SIGINT);
        program.succeed();
        let all: Vec<_> = files(&directory).iter().flat_map(|file| packets(file)).collect();
        let expected: Vec<_> = (0..sent).map(|sequence| udp(100, sequence)).collect();
        assert!(all.iter().map(|packet| &packet.data).eq(&expected), "{library:?}: {}", as_lines(&all));
        "every packet once".to_owned()
    });
    assert_eq!(printed, "every packet once");
}

#[test]
fn it_ends_at_an_interrupt_and_counts_at_a_signal() {
    need_root!("it_ends_at_an_interrupt_and_counts_at_a_signal");
    let rig = Rig::new("signals");
    let printed = same("signals", |library| {
        let file = rig.path(&format!("{library:?}.pcap"));
        let arguments = ["-i", PORT, "-U", "-w", file.to_str().unwrap(), "udp"];
        let program = listening(rig.spawn(library, "tcpdump", &arguments));
        rig.send(&mixture(40));
        let frames: Vec<_> = (0..60).map(|sequence| udp(60, sequence)).collect();
        rig.send(&frames);
        wait_until("the file has the last packet", || {
            packets_so_far(&file)
                .is_some_and(|packets| packets.last().is_some_and(|last| *last == frames[59]))
        });
        program.running.signal(Signal::SIGUSR1);
        program.running.wait_for("packets captured");
        program.running.signal(Signal::SIGINT);
        let ended = program.wait();
        ended.assert_captured(library);
        format!("{:?}\n{}\n{}", ended.code, ended.stdout, ended.stderr)
    });
    assert!(printed.starts_with("Some(0)"), "{printed}");
    assert!(printed.contains("\n0 packets dropped by kernel"), "{printed}");
}

/// The packets of a file that is being written, if it is whole.
fn packets_so_far(path: &Path) -> Option<Vec<Vec<u8>>> {
    let capture = wirecap_lab::Capture::read(fs::File::open(path).unwrap()).ok()?;
    let packets = capture.packets.into_iter().map(|packet| packet.data).collect();
    capture.damage.is_none().then_some(packets)
}
