//! Enters the sandbox and tries one thing: what the tests of this crate watch from outside.
//!
//! `wirecap-sandbox-trial PROFILE DIRECTORY ACTION [PATH]` prints `ok`, or the number of the kernel's error.
//! The action `report` prints why files and system calls are not restricted.
//!
//! `wirecap-sandbox-trial refuse ERRNO PROGRAM [ARGUMENT]…` runs a program for which the calls of the sandbox
//! fail with this error, as in a service whose filter of system calls lacks them.
#![forbid(unsafe_code)]

use std::{
    env, fs, io,
    net::{TcpListener, UdpSocket},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use wirecap_sandbox::{Need, Profile, Sandbox, WritePaths};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [refuse, errno, program, arguments @ ..] = arguments.as_slice() {
        if refuse == "refuse" {
            refuse_calls(errno.parse().expect("a number"));
            panic!("{}", Command::new(program).args(arguments).exec());
        }
    }
    let [profile, directory, action, path @ ..] = arguments.as_slice() else { return ExitCode::from(2) };
    let directories = vec![PathBuf::from(directory)];
    let paths = WritePaths { directories: directories.clone(), names_files: true };
    let profile = match profile.as_str() {
        "worker" => Profile::Worker,
        "writer" => Profile::Writer(paths),
        "main" => Profile::Main(vec![Need::Interfaces]),
        "main-names" => Profile::Main(vec![Need::NamesOfProcesses]),
        "neighbours" => Profile::Neighbours,
        "server" => Profile::Server(directories),
        "server-of-ports" => Profile::Server(Vec::new()),
        _ => return ExitCode::from(2),
    };
    // What is open stays open.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sandbox = Sandbox::new(true, None).expect("a sandbox");
    sandbox.enter(&profile);
    if action == "report" {
        let report = &sandbox.report().threads[0];
        print(&format!("{:?} {:?}", report.files.reason, report.system_calls.reason));
        return ExitCode::SUCCESS;
    }
    let path = path.first().map_or(Path::new(""), Path::new);
    match attempt(action, path, &socket) {
        Ok(()) => print("ok"),
        Err(error) => print(&error.raw_os_error().unwrap_or(-1).to_string()),
    }
    ExitCode::SUCCESS
}

fn attempt(action: &str, path: &Path, socket: &UdpSocket) -> io::Result<()> {
    match action {
        "nothing" => Ok(()),
        "read" => fs::read(path).map(drop),
        "create" => fs::File::create(path).map(drop),
        "rename" => fs::rename(path, path.with_extension("renamed")),
        "remove" => fs::remove_file(path),
        "execute" => Err(Command::new("/bin/true").exec()),
        "start" => Command::new("/bin/true").status().map(drop),
        "thread" => thread::Builder::new().spawn(|| ()).map(drop),
        "socket" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "send" => socket.send_to(b"x", "127.0.0.1:9").map(drop),
        "become" => nix::unistd::setuid(0.into()).map_err(io::Error::from),
        "enter" => nix::unistd::chroot("/").map_err(io::Error::from),
        other => panic!("there is no action {other}"),
    }
}

/// Has the calls of the sandbox fail from now on.
fn refuse_calls(errno: u32) {
    let calls = [libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let machine = env::consts::ARCH.try_into().expect("a known machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), machine);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a program");
    seccompiler::apply_filter(&program).expect("a filter");
}

/// Prints by the one call that every thread may make.
fn print(word: &str) {
    nix::unistd::write(io::stdout(), word.as_bytes()).expect("standard output");
}
