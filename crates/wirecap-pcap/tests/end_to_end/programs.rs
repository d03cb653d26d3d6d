//! C programs, compiled for each test.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use crate::rig::{Library, Program, Rig, our_library};

impl Rig {
    /// Compiles `tests/c/NAME.c` against libpcap. Returns the program's path.
    #[track_caller]
    pub fn compile(&self, name: &str) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
        let program = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
        let output = cc.args(["-lpcap", "-lpthread", "-ldl"]).output().expect("cc: apt-get install gcc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program.to_str().unwrap().to_owned()
    }

    /// Compiles a program of this crate, with these further flags, against the header and the library, which
    /// it finds under libpcap's name. Returns its path.
    pub fn compile_with_library(&self, source: &str, flags: &[&str]) -> String {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (program, library) = (self.path("program"), self.path("libpcap.so.0.8"));
        symlink(our_library(), &library).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-Werror"]).args(flags).arg("-I").arg(own.join("include"));
        cc.arg("-o").arg(&program).arg(own.join(source)).arg(&library);
        cc.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
        let output = cc.args(["-lpthread", "-ldl"]).output().expect("cc: apt-get install gcc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program.to_str().unwrap().to_owned()
    }

    /// Starts a program and waits until it prints `ready` on standard error.
    #[track_caller]
    pub fn spawn_ready(&self, library: Library, program: &str, arguments: &[&str]) -> Program {
        let program = self.spawn(library, program, arguments);
        program.running.wait_for("ready");
        program
    }
}
