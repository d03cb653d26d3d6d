//! Charts as PNG files, by the program that makes them.

use std::{fs, path::Path, process::Command};

use wirecap_report::{Axis, Chart, Line, Origin, Plot, Provenance, Report, Section, check_png};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

fn chart(title: &str) -> Chart {
    let lines = vec![Line { name: "wirecap".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] }];
    let (x, y) = (Axis::linear("time"), Axis::linear("packets"));
    Chart { title: title.into(), description: "Two points.".into(), plot: Plot::Lines { x, y, lines } }
}

/// Width and height of a PNG.
fn size(path: &Path) -> (u32, u32) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], SIGNATURE, "{}", path.display());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn each_chart_is_a_picture_that_is_named_by_its_title() {
    const TEST: &str = "each_chart_is_a_picture_that_is_named_by_its_title";
    if Command::new("rsvg-convert").arg("--version").output().is_err() {
        return wirecap_lab::skip(TEST, "rsvg-convert is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("new/pictures");
    check_png(&pictures).unwrap();
    assert_eq!(fs::read_dir(&pictures).unwrap().count(), 0);
    let sections = ["Figure 9: bursts", "<&\">"].map(|title| Section::new("a").chart(chart(title)));
    let report = Report {
        title: "A report".into(),
        origin: Origin::Measured,
        provenance: Provenance::of_this_process(),
        sections: sections.into(),
    };
    // The second time, they are replaced.
    for _ in 0..2 {
        let written = report.write_png(&pictures).unwrap();
        assert_eq!(written, ["01-figure-9-bursts.png", "02-.png"].map(|name| pictures.join(name)));
        assert_eq!(fs::read_dir(&pictures).unwrap().count(), 2);
        written.iter().for_each(|path| assert_eq!(size(path), (1_920, 880)));
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let error = check_png(&folder.path().join("file")).unwrap_err().to_string();
    assert!(error.contains("/file: "), "{error}");
}
