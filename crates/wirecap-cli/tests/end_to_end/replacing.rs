//! A file that exists is replaced by a complete one, or not at all.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use nix::sys::signal::Signal;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, SmallDisk, partial, read};

const FRAMES: u64 = 1_000;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_only_by_a_complete_one() {
    if !require_root("a_file_is_replaced_only_by_a_complete_one") {
        return;
    }
    let lab = Lab::with_queues("replaced", 1);
    let directory = lab.path("files");
    fs::create_dir(&directory).unwrap();
    let path = directory.join("x.pcapng");
    let capture = || lab.capture(&["r0", "-w", text(&path)]);
    let running = capture();
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.stop().account().assert_lossless(FRAMES);
    assert_eq!(names(&directory), ["x.pcapng"]);

    // A capture that is killed.
    let killed = capture();
    lab.send(0, 0, 10, LiveOptions::default());
    killed.wait_for_bytes(&path, 10 * 92);
    assert_eq!(read(&path).packets.len() as u64, FRAMES, "the file is what it was, also now");
    killed.signal(Signal::SIGKILL);
    killed.wait();
    assert_eq!(names(&directory), ["x.pcapng", "x.pcapng.partial"]);
    assert_eq!(read(&path).packets.len() as u64, FRAMES);

    // The next one keeps both until it is complete, and then what was killed.
    let running = capture();
    lab.send(0, 0, 20, LiveOptions::default());
    let ended = running.stop();
    let left = format!("{} is left from a capture that was killed; it is kept", text(&partial(&path)));
    assert!(ended.stderr.contains(&left), "{ended:#?}");
    ended.account().assert_lossless(20);
    assert_eq!(names(&directory), ["x.pcapng", "x.pcapng.partial"]);
    assert_eq!((read(&path).packets.len(), read(&partial(&path)).packets.len()), (20, 10));
}

#[test]
fn a_full_disk_keeps_the_file_that_was_to_be_replaced() {
    if !require_root("a_full_disk_keeps_the_file_that_was_to_be_replaced") {
        return;
    }
    let lab = Lab::with_queues("full_again", 1);
    let directory = lab.path("disk");
    let _disk = SmallDisk::mount(&directory);
    let path = directory.join("x.pcapng");
    let running = lab.capture(&["r0", "-w", text(&path)]);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.stop().account().assert_lossless(FRAMES);
    let running = lab.capture(&["r0", "-w", text(&path)]);
    lab.send(0, 0, 30_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let words = format!("the last one complete, in {}; ", text(&partial(&path)));
    assert!(ended.stderr.contains("make room") && ended.stderr.contains(&words), "{words}: {ended:#?}");
    assert_eq!(read(&path).packets.len() as u64, FRAMES);
    assert_eq!(read(&partial(&path)).packets.len() as u64, ended.account().written("packets"));
}

/// Each file before it has its name.
#[test]
fn a_series_on_a_full_disk_tells_its_partial_file_apart() {
    if !require_root("a_series_on_a_full_disk_tells_its_partial_file_apart") {
        return;
    }
    let lab = Lab::with_queues("full_series", 1);
    let directory = lab.path("disk");
    let _disk = SmallDisk::mount(&directory);
    let running = lab.capture(&["r0", "-w", text(&directory.join("x.pcapng")), "-C", "400k"]);
    lab.send(0, 0, 30_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(names(&directory), ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng.partial"]);
    let packets: usize = names(&directory).iter().map(|name| read(&directory.join(name)).packets.len()).sum();
    assert_eq!(packets as u64, ended.account().written("packets"));
    let last = text(&directory.join("x_00003.pcapng.partial")).to_owned();
    let words = format!("wrote {packets} packets (");
    let place = format!("the last one complete; the last file is {last}; ");
    assert!(ended.stderr.contains(&words) && ended.stderr.contains(&place), "{ended:#?}");
}

/// What is gone is not kept, and is reported once.
#[test]
fn a_series_whose_directory_is_removed_keeps_nothing() {
    if !require_root("a_series_whose_directory_is_removed_keeps_nothing") {
        return;
    }
    let lab = Lab::with_queues("gone_series", 1);
    let directory = lab.path("files");
    fs::create_dir(&directory).unwrap();
    let running = lab.capture(&["r0", "-w", text(&directory.join("x.pcapng")), "-C", "400k"]);
    fs::remove_dir_all(&directory).unwrap();
    lab.send(0, 0, 10_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let written = ended.account().written("packets");
    let first = directory.join("x_00001.pcapng");
    let lost =
        format!("{} was deleted while it was written; its {written} packets are lost", first.display());
    assert!(written > 1_000 && ended.stderr.contains(&lost), "{ended:#?}");
    assert_eq!(ended.stderr.matches("was deleted while it was written").count(), 1, "{ended:#?}");
    assert!(ended.stderr.contains("; kept 0 packets; "), "{ended:#?}");
}

#[test]
fn in_place_a_file_has_its_name_from_the_start() {
    if !require_root("in_place_a_file_has_its_name_from_the_start") {
        return;
    }
    let lab = Lab::with_queues("in_place", 1);
    let directory = lab.path("files");
    fs::create_dir(&directory).unwrap();
    let path = directory.join("x.pcapng");
    fs::write(&path, "old").unwrap();
    let running = lab.capture(&["r0", "-w", text(&path), "--in-place"]);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.wait_for_bytes(&path, FRAMES * 92);
    assert_eq!(names(&directory), ["x.pcapng"]);
    assert_eq!(read(&path).packets.len() as u64, FRAMES);
    running.stop().account().assert_lossless(FRAMES);
    assert_eq!(names(&directory), ["x.pcapng"]);
}

#[test]
fn a_link_that_anybody_may_have_made_is_refused() {
    if !require_root("a_link_that_anybody_may_have_made_is_refused") {
        return;
    }
    let lab = Lab::with_queues("link", 1);
    let (shared, target) = (lab.path("shared"), lab.path("target.pcapng"));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(&target, "precious").unwrap();
    let (trap, own) = (shared.join("x.pcapng"), lab.path("own.pcapng"));
    std::os::unix::fs::symlink(&target, &trap).unwrap();
    std::os::unix::fs::symlink(&target, &own).unwrap();
    for flags in [&[][..], &["--in-place"]] {
        let refused = lab.spawn(&[&["capture", "r0", "-w", text(&trap)], flags].concat()).wait();
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        assert!(
            refused.stderr.contains("is a link in a directory that everyone may write to"),
            "{refused:#?}"
        );
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }
    // A link of one's own names the file it leads to.
    lab.capture(&["r0", "-w", text(&own), "--duration", "50ms"]).wait().account();
    assert!(own.is_symlink() && read(&target).packets.is_empty());
}
