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

#[test]
fn a_parameter_without_an_effect_on_a_named_experiment_is_refused() {
    for (arguments, sentence) in [
        (&["today", "--param", "M=64"][..], "M has no effect on today, only on text, table1, figure8,"),
        (
            &["table1", "figure12", "--param", "T=80"],
            "T has no effect on figure12, only on text, table1, figure11,",
        ),
        (&["figure10", "--seed", "3"], "seed has no effect on figure10, only on text, table1, figure3,"),
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_wirecap-sim")).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}

#[test]
fn a_label_names_the_parameters_and_the_list_where_they_have_an_effect() {
    let output = |arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_wirecap-sim")).args(arguments).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    let labelled = output(&["figure10", "--param", "pace=1e9", "--timings"]);
    assert!(labelled.starts_with("Simulated with pace=1000000000: "), "{labelled}");
    assert!(labelled.contains("| million packets of traffic |"), "{labelled}");
    let listed = output(&["--list"]);
    assert!(listed.contains("of 10 ms.\n             seed, queues\n"), "{listed}");
    assert!(listed.contains("buddies.\n             no parameters\n"), "{listed}");
}
