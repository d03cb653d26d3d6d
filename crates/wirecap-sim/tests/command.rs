//! The command as it is run.

use std::{fs, process::Command};

#[test]
fn a_figure_is_printed_and_written_as_a_page_and_a_picture() {
    const TEST: &str = "a_figure_is_printed_and_written_as_a_page_and_a_picture";
    if Command::new("rsvg-convert").arg("--version").output().is_err() {
        return wirecap_lab::skip(TEST, "rsvg-convert is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (page, pictures) = (folder.path().join("page.html"), folder.path().join("pictures"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirecap-sim"));
    command.arg("figure3").arg("--report").arg(&page).arg("--png").arg(&pictures);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert!(printed.contains("(simulated)") && printed.contains("largest / mean"), "{printed}");
    assert!(fs::read_to_string(page).unwrap().contains("<svg role=\"img\""));
    let names: Vec<_> = fs::read_dir(pictures).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].to_str().unwrap().starts_with("01-figure-3-"), "{names:?}");
}

#[test]
fn a_directory_that_cannot_be_made_is_reported_before_anything_is_simulated() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirecap-sim"));
    let ended = command.args(["all", "--png", "/dev/null/pictures"]).output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("/dev/null/pictures: ") || said.contains("librsvg2-bin"), "{said}");
}
