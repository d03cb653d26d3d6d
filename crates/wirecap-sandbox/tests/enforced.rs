//! What the sandbox refuses, seen from outside: a program enters it, and tries.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

use nix::{errno::Errno, sys::signal::Signal};
use wirecap_lab::{require_root, skip};
use wirecap_sandbox::Support;

/// What became of an attempt.
#[derive(Debug, PartialEq)]
enum Outcome {
    Works,
    /// It fails with this error; a line on standard error names the call if it was forgotten in a list.
    Fails(Errno),
    /// The process ends by SIGSYS.
    Ends,
}
use Outcome::{Ends, Fails, Works};

/// Refused by the rules for files and ports, or by the filter without a word.
const BY_RULES: Outcome = Fails(Errno::EACCES);
/// The call is on no list of the thread.
const REFUSED: Outcome = Fails(Errno::EPERM);

fn run(profile: &str, directory: &Path, action: &str, path: &Path) -> Output {
    let mut trial = Command::new(env!("CARGO_BIN_EXE_wirecap-sandbox-trial"));
    trial.arg(profile).arg(directory).arg(action).arg(path).output().unwrap()
}

fn outcome(output: &Output) -> Outcome {
    if output.status.signal() == Some(Signal::SIGSYS as i32) {
        return Ends;
    }
    assert!(output.status.success(), "{output:?}");
    match String::from_utf8_lossy(&output.stdout).as_ref() {
        "ok" => Works,
        errno => Fails(Errno::from_raw(errno.parse().unwrap_or_else(|_| panic!("{output:?}")))),
    }
}

/// Whether this kernel has everything that these tests are about.
fn is_supported(test: &str) -> bool {
    let support = Support::find();
    if !support.is_complete() {
        skip(test, &format!("this kernel restricts only {support}"));
    }
    support.is_complete()
}

#[test]
fn each_thread_does_what_it_has_to_and_nothing_else() {
    const TEST: &str = "each_thread_does_what_it_has_to_and_nothing_else";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (inside, outside) = (directory.path().join("inside"), directory.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    let passwd = Path::new("/etc/passwd");
    let file = |directory: &Path, name: &str| {
        let path = directory.join(name);
        fs::write(&path, "x").unwrap();
        path
    };
    let (own, foreign) = (file(&inside, "own"), file(&outside, "foreign"));
    let socket = file(&inside, "socket");
    for (profile, action, path, expected) in [
        ("worker", "nothing", passwd, Works),
        ("worker", "read", passwd, BY_RULES),
        ("worker", "create", &inside.join("new"), BY_RULES),
        ("worker", "rename", &own, REFUSED),
        ("worker", "socket", passwd, REFUSED),
        ("worker", "send", passwd, REFUSED),
        ("worker", "thread", passwd, BY_RULES),
        ("worker", "execute", passwd, Ends),
        ("worker", "become", passwd, Ends),
        ("writer", "read", passwd, BY_RULES),
        ("writer", "create", &outside.join("new"), BY_RULES),
        ("writer", "read", &foreign, BY_RULES),
        ("writer", "remove", &foreign, BY_RULES),
        ("writer", "create", &inside.join("new"), Works),
        ("writer", "read", &own, Works),
        ("writer", "rename", &own, Works),
        ("writer", "remove", &inside.join("own.renamed"), Works),
        ("writer", "socket", passwd, REFUSED),
        ("writer", "start", passwd, BY_RULES),
        ("writer", "execute", passwd, Ends),
        ("main", "read", passwd, Works),
        ("main", "create", &inside.join("more"), REFUSED),
        ("main", "remove", &inside.join("new"), REFUSED),
        ("main", "listen", passwd, BY_RULES),
        ("main", "send", passwd, REFUSED),
        ("main", "start", passwd, BY_RULES),
        ("main", "execute", passwd, Ends),
        ("main", "enter", passwd, Ends),
        ("main-names", "read", passwd, Works),
        ("main-names", "listen", passwd, REFUSED),
        ("main-names", "create", &inside.join("more"), REFUSED),
        ("neighbours", "read", passwd, BY_RULES),
        ("neighbours", "socket", passwd, REFUSED),
        ("neighbours", "send", passwd, REFUSED),
        ("neighbours", "execute", passwd, Ends),
        ("server", "read", passwd, BY_RULES),
        ("server", "listen", passwd, REFUSED),
        ("server", "create", &inside.join("more"), BY_RULES),
        ("server", "rename", &socket, REFUSED),
        ("server", "remove", &foreign, BY_RULES),
        ("server", "remove", &socket, Works),
        ("server-of-ports", "remove", &own.with_extension("renamed"), REFUSED),
        ("server", "execute", passwd, Ends),
    ] {
        let output = run(profile, &inside, action, path);
        assert_eq!(outcome(&output), expected, "{profile} {action} {}: {output:?}", path.display());
        // A refused call that is on no list is reported, even if its caller ignores the error.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_named = stderr.contains("the sandbox refuses system call ");
        assert_eq!(is_named, expected == REFUSED, "{profile} {action}: {stderr}");
        assert_eq!(stderr.lines().count(), usize::from(is_named), "{profile} {action}: {stderr}");
    }
}

#[test]
fn a_refused_call_is_told_from_one_that_the_kernel_lacks() {
    const TEST: &str = "a_refused_call_is_told_from_one_that_the_kernel_lacks";
    if !require_root(TEST) || !is_supported(TEST) {
        return;
    }
    let trial = env!("CARGO_BIN_EXE_wirecap-sandbox-trial");
    for (errno, reason) in
        [(Errno::EPERM, "Refused"), (Errno::ENOSYS, "NotInKernel"), (Errno::EOPNOTSUPP, "NotInKernel")]
    {
        let errno = (errno as i32).to_string();
        let output = Command::new(trial).args(["refuse", &errno, trial, "worker", "/", "report"]).output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed, format!("Some({reason}) Some({reason})"), "{output:?}");
    }
}
