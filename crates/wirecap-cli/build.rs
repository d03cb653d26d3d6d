//! Tells the program what it was built from and by, for `wirecap --version -v`.
//!
//! Rule: only an optimised build names its commit, since every commit would otherwise compile the command
//! again.

use std::{env, path::Path, process::Command};

/// The commit, for a build outside of a repository.
const COMMIT: &str = "WIRECAP_COMMIT";
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match env::var(COMMIT) {
        Ok(commit) => Some(commit),
        Err(_) if is_release => commit(),
        Err(_) => None,
    };
    println!("cargo::rustc-env={COMMIT}={}", commit.unwrap_or_else(|| "unknown".into()));
    let compiler = env::var_os("RUSTC").and_then(|rustc| answer(Command::new(rustc).arg("--version")));
    println!("cargo::rustc-env=WIRECAP_COMPILER={}", compiler.unwrap_or_else(|| "unknown".into()));
}

/// The commit that the tree has, and whether files differ from it.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| answer(Command::new("git").args(arguments));
    // Both change with a commit: the branch that is checked out, and what it points to.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"])?.get(..DIGITS)?.to_owned();
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
    Some(if is_changed { commit + ", changed" } else { commit })
}

/// What a program prints on one line.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
