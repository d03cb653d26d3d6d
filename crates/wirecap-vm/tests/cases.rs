//! `wirecap-guest` outside of a virtual machine: it lists its cases, and refuses everything else.
//!
//! A package with integration tests has its programs built with them, so the guests get the programs that the
//! other end-to-end tests use, and nothing is compiled twice.

use std::{
    collections::BTreeSet,
    process::{Command, Output},
};

fn guest(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wirecap-guest")).args(words).output().unwrap()
}

#[test]
fn each_case_has_a_name_of_its_own() {
    let output = guest(&["cases"]);
    assert!(output.status.success());
    let names = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = names.lines().collect();
    assert!(names.contains(&"end-to-end"), "{names:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
}

#[test]
fn a_guest_refuses_to_run_on_a_host() {
    let output = guest(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("./dev vm"));
}
