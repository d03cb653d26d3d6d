//! Refusals name settings as their user wrote them: by key and line, or by flag.

use std::fs;

use clap::Parser;
use wirecap::Fanout;
use wirecap_sandbox::Sandbox;

use super::*;
use crate::{
    capture::{known_interfaces::KnownInterfaces, plan::Plan},
    commands::{Command, Flags, capture::settings::CaptureSettings, forward::settings::ForwardSettings},
    settings::file::tables,
    sources::Sourced,
};

/// Why `wirecap capture` refuses this file and these flags; `t.toml` stands for the file.
fn refusal(file: &str, arguments: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.toml");
    fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let words = ["wirecap", "capture", "--config", path].into_iter().chain(arguments.split_whitespace());
    let Command::Capture(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    let Sourced { settings, sources } = flags.into_settings(|word| word.starts_with("eth")).unwrap();
    let refused = settings.check().map_err(anyhow::Error::from).and_then(|()| {
        let CaptureSettings { capture, output, .. } = settings;
        Plan::new(capture, output, KnownInterfaces::default(), Sandbox::off())
    });
    let error = explain(refused.expect_err(file), &sources);
    assert_eq!(exit::code_of(&error), Exit::Usage, "{file}");
    text::error::describe(&error).replace(path, "t.toml")
}

const SERIES: &str = "[capture]\nports = ['eth1']\n[output]\nwrite = 'x.pcapng'\nrotate_size = '100M'\n";

#[test]
fn settings_of_a_file_that_contradict_each_other_are_named_with_their_lines() {
    for (more, expected) in [
        (
            "rotate_files = 3\nkeep_files = 5\n",
            "rotate_files (t.toml:6) and keep_files (t.toml:7) both say how many files there are: leave one of them out",
        ),
        (
            "rotate_command = 'true'\nkeep_files = 5\n",
            "keep_files (t.toml:7) deletes files while the command of rotate_command (t.toml:6) may still read them: leave one \
             of them out, or have the command delete old files",
        ),
        (
            "stop_size = '1G'\n",
            "stop_size (t.toml:6) is the size of one file, and rotate_size (t.toml:5) makes a series: leave one of them out",
        ),
    ] {
        assert_eq!(refusal(&[SERIES, more].concat(), ""), expected);
    }
    let compressed = "[output]\ndirect_io = true\nwrite = 'x.pcapng.zst'\n";
    let refused = refusal(compressed, "eth1");
    assert!(refused.starts_with("direct_io (t.toml:2) has the disk read files"), "{refused}");
    assert!(refused.contains("but write (t.toml:3) names a compressed one"), "{refused}");
    assert_eq!(
        refusal("[output]\nwrite = 'x.pcapng'\nrotate_files = 3\n", "eth1"),
        "rotate_files (t.toml:3) is for a series of files: add rotate_size or rotate_time, or leave it out"
    );
}

#[test]
fn a_flag_is_named_as_a_flag_beside_a_file_and_instead_of_the_key_that_it_overrides() {
    assert_eq!(
        refusal(&[SERIES, "keep_files = 5\n"].concat(), "-W 3"),
        "-W and keep_files (t.toml:6) both say how many files there are: leave one of them out"
    );
    assert_eq!(
        refusal(&[SERIES, "rotate_files = 4\nkeep_files = 5\n"].concat(), "-W 3"),
        "-W and keep_files (t.toml:7) both say how many files there are: leave one of them out"
    );
    let refused = refusal("[capture]\nworkers = 3\n", "eth1 --workers 0");
    assert_eq!(refused, "0 workers cannot capture anything; use at least 1");
    let refused = refusal("", "eth1 -w x.pcapng -W 3");
    assert_eq!(refused, "-W is for a series of files: add -C SIZE or -G TIME, or leave it out");
}

#[test]
fn values_without_a_meaning_have_a_line_a_column_and_a_key() {
    for (file, expected) in [
        (
            "[capture]\nworkers = 0\n",
            "t.toml:2:11: workers: 0 workers cannot capture anything; use at least 1",
        ),
        (
            "capture.cells_per_chunk = 100\n",
            "t.toml:1:27: cells_per_chunk: M (cells per chunk) is 100, but must",
        ),
        ("[capture]\npool_size = 'chunks:0'\n", "t.toml:2:13: pool_size: R (chunks per pool) is 0, but must"),
        (
            "[capture]\n\nring_entries = 1000\n",
            "t.toml:3:16: ring_entries: a ring of 1000 entries cannot be used",
        ),
        ("[capture]\nrx_hash = true\n", "t.toml:2:11: rx_hash: cannot be set for capture: "),
        ("[output]\ncount = 0\n", "t.toml:2:9: count: 0 would stop before the first packet: "),
        (
            "[output]\nwrite = 'x.txt'\n",
            "t.toml:2:9: write: cannot tell the capture format from the name \"x.txt\"",
        ),
        (
            "[output]\nrotate_packets = 0\n",
            "t.toml:2:18: rotate_packets: must not be 0: write a number from 1 on",
        ),
    ] {
        let refused = refusal(file, "eth1");
        assert!(refused.starts_with(expected), "{refused}");
    }
    let refused = refusal(&[SERIES, "keep_files = 0\n"].concat(), "");
    assert_eq!(refused, "t.toml:6:14: keep_files: counts the file that is written, too: keep two or more");
    let twice = refusal("[capture]\nports = ['eth1', 'eth1']\n", "");
    assert!(twice.starts_with("t.toml:2:9: ports: eth1 is named twice"), "{twice}");
}

#[test]
fn what_an_interface_does_not_take_has_the_place_of_its_setting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.toml");
    let file = "[capture]\nports = ['eth1']\nxdp_mode = 'packed'\nfanout = 'hash'\nring_entries = 512\npool_size = 'chunks:1'\n\
                cells_per_chunk = 2\n";
    fs::write(&path, file).unwrap();
    let words = ["wirecap", "capture", "--config", path.to_str().unwrap()];
    let Command::Capture(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    let Sourced { sources, .. } = flags.into_settings(|_| true).unwrap();
    let name = || "eth1".to_owned();
    let (not_packed, not_tapped) = (
        |reason| Error::NotPacked { name: name(), reason },
        |reason| Error::NotTapped { name: name(), reason },
    );
    let packed = |source| Error::Packed { name: name(), source };
    for (error, place) in [
        (Error::OnlyPassive { name: name(), reason: None }, "3:12: xdp_mode"),
        (not_packed(PackingRefusal::Sending), "3:12: xdp_mode"),
        (not_packed(PackingRefusal::Rings), "5:16: ring_entries"),
        (not_tapped(TapRefusal::SeveralWorkers { fanout: Fanout::Hash }), "4:10: fanout"),
        (not_tapped(TapRefusal::SmallChunks { least_bytes: 131_072 }), "7:19: cells_per_chunk"),
        (not_tapped(TapRefusal::FewChunks), "6:13: pool_size"),
        (packed(PackedError::SmallBlock { block_bytes: 4096 }), "7:19: cells_per_chunk"),
        (packed(PackedError::FewBlocks { blocks: 1 }), "6:13: pool_size"),
    ] {
        let unplaced = text::error::of_capture(&error);
        let explained = explain(error.into(), &sources);
        assert_eq!(exit::code_of(&explained), Exit::Usage, "{explained}");
        let expected = format!("t.toml:{place}: {unplaced}");
        assert!(explained.to_string().ends_with(&expected), "{explained}\n{expected}");
    }
}

#[test]
fn a_size_that_was_meant_in_megabytes_is_refused() {
    for (size, bytes) in [("100", 100), ("999", 999), ("'999'", 999), ("0", 0)] {
        for key in ["rotate_size", "stop_size"] {
            let file = format!("[output]\nwrite = 'x.pcapng'\n{key} = {size}\nkeep_files = 3\n");
            let column = key.len() + 4;
            let expected = format!(
                "t.toml:3:{column}: {key}: {bytes} bytes is too small for a file, which takes 1000 or more; a number alone is in \
                 bytes: write \"100M\" for 100 MiB, or 100_000_000 for what -C 100 means"
            );
            assert_eq!(refusal(&file, "eth1"), expected);
        }
    }
    assert_eq!(
        refusal("", "eth1 -w x.pcapng -C 1e2"),
        "-C 100 bytes is too small for a file, which takes 1000 or more: write a size with its unit, like 512k or 100M"
    );
    // The smallest one leads to the next mistake.
    let smallest = refusal("[output]\nwrite = 'x.pcapng'\nrotate_size = 1000\nkeep_files = 1\n", "eth1");
    assert!(smallest.contains("keep_files: counts the file"), "{smallest}");
}

#[test]
fn every_setting_is_a_key_of_one_table() {
    let all = [tables::<CaptureSettings>(), tables::<ForwardSettings>()];
    for setting in Setting::ALL {
        let most = all.iter().map(|tables| {
            tables.iter().flat_map(|table| &table.keys).filter(|key| *key == setting.key()).count()
        });
        assert_eq!(most.max(), Some(1), "{setting:?}");
    }
}
