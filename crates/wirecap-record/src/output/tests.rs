use std::{io::Write, os::unix::fs::PermissionsExt};

use nix::{libc, sys::stat::Mode, unistd::mkfifo};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::*;
use crate::{Compression, compress::tests::decoded};

/// In place, so that tests can watch the file.
fn open(path: &Path) -> Result<Output, RecordError> {
    let in_place = FileOptions { in_place: true, ..FileOptions::default() };
    Output::open_with(path, Format::Pcapng, in_place)
}

fn open_partial(path: &Path) -> Result<Output, RecordError> {
    Output::open(path, Format::Pcapng)
}

/// The names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_file_replaces_another_only_when_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    fs::write(&path, "precious").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    let mut output = open_partial(&path).unwrap();
    output.begin(b"head").unwrap();
    output.settle();
    assert_eq!(names(directory.path()), ["a.pcapng", "a.pcapng.partial"]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    for other in [open_partial(&path), open(&path)] {
        assert!(matches!(other, Err(RecordError::InUse)), "{other:?}");
    }
    assert!(output.complete().unwrap());
    assert_eq!((names(directory.path()), output.partial()), (vec!["a.pcapng".into()], None));
    assert_eq!(output.whereabouts(), Whereabouts::InPlace);
    assert!(matches!(open_partial(&path), Err(RecordError::InUse)), "still open");
    drop(output);
    assert_eq!(fs::read(&path).unwrap(), b"head");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o604, "as before");
}

#[test]
fn what_a_killed_capture_has_left_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    for packets in ["one", "two"] {
        let mut output = open_partial(&path).unwrap();
        assert_eq!(output.left_over().is_some(), packets == "two");
        output.begin(packets.as_bytes()).unwrap();
        output.settle();
    }
    assert_eq!(names(directory.path()), ["a.pcapng.2.partial", "a.pcapng.partial"]);
    assert_eq!(fs::read(directory.path().join("a.pcapng.partial")).unwrap(), b"one");
    drop(open_partial(&path).unwrap());
    assert_eq!(names(directory.path()).len(), 2, "a capture that did not start leaves none");
}

#[test]
fn a_partial_file_that_another_program_has_taken_away_is_not_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, taken) = (directory.path().join("a.pcapng"), directory.path().join("taken"));
    let mut output = open_partial(&path).unwrap();
    output.begin(b"head").unwrap();
    fs::rename(directory.path().join("a.pcapng.partial"), &taken).unwrap();
    fs::write(directory.path().join("a.pcapng.partial"), "theirs").unwrap();
    assert!(!output.complete().unwrap(), "it has another name");
    assert_eq!(output.whereabouts(), Whereabouts::Moved(taken.canonicalize().unwrap()));
    assert!(!path.exists());
}

#[test]
fn permissions_are_as_requested_or_for_owner_and_group() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    for (mode, in_place, expected) in
        [(None, false, 0o640), (None, true, 0o640), (Some(0o666), false, 0o666), (Some(0o600), true, 0o600)]
    {
        let options = FileOptions { mode, in_place, compression: None };
        let output = Output::open_with(&path, Format::Pcapng, options).unwrap();
        let mode = output.sink.file.metadata().unwrap().mode() & 0o777;
        // Less the umask of the tests.
        assert_eq!((mode | 0o040, mode & !expected), (expected | 0o040, 0), "{options:?}");
    }
}

#[test]
fn a_failed_capture_removes_its_new_file_and_leaves_an_old_one_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (new, old) = (directory.path().join("new.pcapng"), directory.path().join("old.pcapng"));
    fs::write(&old, "precious").unwrap();
    drop(open(&new).unwrap());
    drop(open(&old).unwrap());
    assert!(!new.exists());
    assert_eq!(fs::read(&old).unwrap(), b"precious");
}

#[test]
fn truncation_by_another_program_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pcapng");
    let mut output = open(&path).unwrap();
    output.begin(b"the beginning").unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::InPlace);
    File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::Cut, "shorter");
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    output.append(&mut [IoSlice::new(b"more")]).unwrap();
    output.keep(4);
    assert_eq!(output.whereabouts(), Whereabouts::Cut, "the same length, with a hole");
}

#[test]
fn a_dangling_link_creates_its_target() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (directory.path().join("link.pcapng"), directory.path().join("target.pcapng"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let mut output = open(&link).unwrap();
    output.begin(b"head").unwrap();
    output.settle();
    drop(output);
    assert_eq!(fs::read(&target).unwrap(), b"head");
}

#[test]
fn a_file_that_replaced_ours_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    let output = open(&path).unwrap();
    fs::rename(&path, directory.path().join("moved.pcapng")).unwrap();
    fs::write(&path, "theirs").unwrap();
    drop(output);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

#[test]
fn begin_replaces_old_contents_and_cut_leaves_kept_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    fs::write(&path, "a long text of another time").unwrap();
    let mut output = open(&path).unwrap();
    output.begin(b"head").unwrap();
    output.append(&mut [IoSlice::new(b""), IoSlice::new(b"one"), IoSlice::new(b"two, torn")]).unwrap();
    output.keep(3);
    output.cut().unwrap();
    output.append(&mut [IoSlice::new(b"tail")]).unwrap();
    output.keep(4);
    assert_eq!(output.len(), 11);
    drop(output);
    assert_eq!(fs::read(&path).unwrap(), b"headonetail");
}

#[test]
fn a_file_past_the_page_cache_is_cut_like_any_other() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = directory.path().join("a.pcapng");
    let mut output = open(&path).unwrap().direct().unwrap();
    output.begin(b"head").unwrap();
    let bytes = vec![7; 300_000];
    output.append(&mut [IoSlice::new(&bytes)]).unwrap();
    output.keep(200_001);
    output.cut().unwrap();
    output.append(&mut [IoSlice::new(&bytes), IoSlice::new(b"tail")]).unwrap();
    output.keep(300_004);
    assert_eq!(output.whereabouts(), Whereabouts::InPlace);
    assert_eq!(fs::read(&path).unwrap(), [b"head", &[7; 500_001][..], b"tail"].concat());
}

/// A compressed output that has begun.
fn compressed(path: &Path, format: Format, compression: Compression) -> Output {
    let options = FileOptions { compression: Some(compression), ..FileOptions::default() };
    let mut output = Output::open_with(path, format, options).unwrap();
    output.begin(b"head").unwrap();
    output
}

#[test]
fn a_compressed_file_is_cut_to_whole_groups() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng.zst");
        let mut output = compressed(&path, Format::Pcapng, compression);
        output.append(&mut [IoSlice::new(b"one"), IoSlice::new(b"two")]).unwrap();
        let len = output.len();
        // As if the disk were full.
        output.sink.file.write_all(b"torn").unwrap();
        output.cut().unwrap();
        assert!(output.len() > len, "an end");
        output.append_last(b"tail", true).unwrap();
        assert_eq!(output.len(), output.sink.file.metadata().unwrap().len());
        output.complete().unwrap();
        drop(output);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(decoded(compression, &bytes).unwrap(), b"headonetwotail");
    }
}

#[test]
fn the_end_of_a_compressed_file_is_written_when_there_is_room() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng.zst");
        let mut output = compressed(&path, Format::Pcapng, compression);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut output.sink.file, full);
        for _ in 0..2 {
            let failure = output.end().unwrap_err().cause;
            assert!(
                matches!(&failure, RecordError::Io(cause) if cause.kind() == ErrorKind::StorageFull),
                "{failure:?}"
            );
        }
        output.append(&mut [IoSlice::new(b"one")]).unwrap_err();
        output.sink.file = file;
        output.append_last(b"tail", true).unwrap();
        output.complete().unwrap();
        assert_eq!(decoded(compression, &fs::read(&path).unwrap()).unwrap(), b"headtail");
    }
}

#[test]
fn the_end_of_a_compressed_stream_waits_for_its_reader_and_can_be_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe.pcapng.zst");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let reader = File::options().read(true).write(true).open(&path).unwrap();
    let mut output = compressed(&path, Format::Pcapng, Compression::Zstd);
    while output.sink.file.write(&[7]).is_ok() {}
    output.set_give_up(&Arc::new(AtomicBool::new(true)));
    let failure = output.end().unwrap_err().cause;
    assert!(matches!(failure, RecordError::GivenUp), "{failure:?}");
    drop(reader);
}

/// A pcap file has no account. Nothing is behind the end of a frame: a compressed file can end only once.
#[test]
fn a_compressed_file_without_an_account_ends_once() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap.zst");
        for has_failed in [false, true] {
            let mut output = compressed(&path, Format::Pcap, compression);
            if has_failed {
                output.cut().unwrap();
            }
            output.append_last(b"", has_failed).unwrap();
            let len = output.len();
            // As with the account of a complete file that no other can follow.
            output.append_last(b"", true).unwrap();
            assert_eq!(output.len(), len, "{compression:?}, {has_failed}");
            output.complete().unwrap();
            assert_eq!(decoded(compression, &fs::read(&path).unwrap()).unwrap(), b"head");
        }
    }
}

#[test]
fn only_files_are_written_past_the_page_cache() {
    let device = Output::open("/dev/null", Format::Pcapng).unwrap();
    assert!(matches!(device.direct(), Err(RecordError::NoFile)));
    let directory = tempfile::tempdir().unwrap();
    let stream = File::create(directory.path().join("stream")).unwrap();
    assert!(matches!(Output::stream(stream, Format::Pcapng).direct(), Err(RecordError::NoFile)));
}

#[test]
fn a_second_writer_is_refused_and_leaves_the_file_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    let mut first = open(&path).unwrap();
    first.begin(b"head").unwrap();
    assert!(matches!(open(&path), Err(RecordError::InUse)));
    assert_eq!(fs::read(&path).unwrap(), b"head");
    drop(first);
    open(&path).unwrap();
}

#[test]
fn a_file_that_was_moved_or_deleted_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("a.pcapng"), directory.path().join("b.pcapng"));
    let mut output = open(&path).unwrap();
    output.begin(b"head").unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::InPlace);
    fs::rename(&path, &other).unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::Moved(other.canonicalize().unwrap()));
    fs::write(&path, "another's").unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::Moved(other.canonicalize().unwrap()));
    fs::remove_file(&other).unwrap();
    assert_eq!(output.whereabouts(), Whereabouts::Deleted);
}

#[test]
fn a_file_that_another_user_has_put_there_gets_nothing_of_the_new_one() {
    if !wirecap_lab::require_root("a_file_that_another_user_has_put_there_gets_nothing_of_the_new_one") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let path = shared.join("x.pcapng");
    fs::write(&path, "theirs").unwrap();
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    let set_mode = |mode| fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o1777);
    fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let in_place = FileOptions { in_place: true, ..FileOptions::default() };
    let refused = Output::open_with(&path, Format::Pcapng, in_place).map(drop);
    assert!(matches!(refused, Err(RecordError::SharedFile)), "{refused:?}");
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1, "nothing is left");
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    let output = Output::open(&path, Format::Pcapng).unwrap();
    let new = output.partial().unwrap().metadata().unwrap();
    assert_eq!((new.uid(), new.mode() & 0o777), (0, 0o640), "root replaces it");
    drop(output);
    // A new file is one's own, whatever a mount makes of its owner.
    drop(Output::open_with(shared.join("y.pcapng"), Format::Pcapng, in_place).unwrap());
    // One's own there, and anybody's where only the owner of the directory makes files.
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    drop(Output::open(&path, Format::Pcapng).unwrap());
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    set_mode(0o755);
    drop(Output::open(&path, Format::Pcapng).unwrap());
}

/// From now on, close(2) fails in this thread as on a network file system whose disk is full.
pub(crate) fn keep_nothing() {
    let (full, arch) = (SeccompAction::Errno(libc::EDQUOT as u32), std::env::consts::ARCH);
    let rules = [(libc::SYS_close, Vec::new())].into();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, full, arch.try_into().unwrap());
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn what_the_file_system_has_not_kept_is_not_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    // In a thread of its own, which the filter does not outlive.
    let (completed, output) = std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            let mut output = open_partial(&path).unwrap();
            output.begin(b"head").unwrap();
            output.settle();
            keep_nothing();
            (output.complete(), output)
        });
        ended.join().unwrap()
    });
    assert!(matches!(completed, Err(RecordError::NotKept(_))), "{completed:?}");
    assert_eq!(names(directory.path()), ["a.pcapng.partial"]);
    drop(output);
}
