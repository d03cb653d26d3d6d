//! Every file in a directory of real traces, compared with the manifest's table.
//!
//! `WIRECAP_TRACES` names the directory; by default it is next to the repository. Its MANIFEST.md has one row
//! for each file: name, source, licence, packets, flows, bytes, average / greatest length, packets cut, link
//! type, format, …

use std::path::Path;

use wirecap_file::{Error, Format};
use wirecap_lab::Capture;

use crate::skip::skipped;

struct Row {
    name: String,
    packets: usize,
    max_len: u32,
    cut: usize,
    link_types: Vec<u16>,
    format: String,
}

fn rows(manifest: &str) -> Vec<Row> {
    let rows = manifest.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim_matches(['|', ' ']).split('|').map(str::trim).collect();
        let [name, _, _, packets, _, _, lengths, cut, link_types, format, ..] = cells[..] else {
            return None;
        };
        Some(Row {
            name: name.to_owned(),
            packets: packets.parse().ok()?,
            max_len: lengths.rsplit(' ').next()?.parse().ok()?,
            cut: cut.parse().ok()?,
            link_types: link_types.split(['(', ')']).filter_map(|number| number.parse().ok()).collect(),
            format: format.to_owned(),
        })
    });
    rows.collect()
}

#[test]
fn every_trace_matches_its_manifest() {
    let directory = wirecap_lab::trace_directory();
    let manifest = directory.as_ref().map(|directory| std::fs::read_to_string(directory.join("MANIFEST.md")));
    let (Some(directory), Some(Ok(manifest))) = (directory, manifest) else {
        return skipped(
            "every_trace_matches_its_manifest",
            "no traces with a MANIFEST.md; name their directory in WIRECAP_TRACES",
        );
    };
    let rows = rows(&manifest);
    let is_trace =
        |path: &Path| path.extension().is_some_and(|ext| ext == "pcap" || ext == "pcapng" || ext == "cap");
    let files =
        std::fs::read_dir(&directory).unwrap().filter(|entry| is_trace(&entry.as_ref().unwrap().path()));
    assert_eq!(files.count(), rows.len(), "every file has a row");
    for row in rows {
        check(&directory.join(&row.name), &row);
    }
}

fn check(path: &Path, row: &Row) {
    let name = &row.name;
    let capture =
        Capture::read(std::fs::File::open(path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(capture.packets.len(), row.packets, "{name}: packets");
    assert_eq!(capture.packets.iter().map(|p| p.original_len).max(), Some(row.max_len), "{name}: longest");
    let cut =
        capture.packets.iter().filter(|packet| (packet.data.len() as u32) < packet.original_len).count();
    assert_eq!(cut, row.cut, "{name}: packets cut");
    for interface in &capture.interfaces {
        assert!(row.link_types.contains(&interface.link_type), "{name}: link type {}", interface.link_type);
    }
    if capture.format == Format::Pcapng {
        let (interfaces, sections) = (capture.interfaces.len(), capture.sections.len());
        let expected = format!("{interfaces} if/{sections} sec");
        assert!(row.format.ends_with(&expected), "{name}: {expected}");
    }
    match capture.damage {
        None => assert!(!name.starts_with("DAMAGED"), "{name}: damage not noticed"),
        Some(Error::Damaged { .. } | Error::Truncated { .. }) if name.starts_with("DAMAGED") => {}
        Some(error) => panic!("{name}: {error}"),
    }
}
