//! C programs, compiled for each test.

use std::{path::Path, process::Command};

use crate::rig::{Library, Program, Rig};

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

    /// Starts a program and waits until it prints `ready` on standard error.
    #[track_caller]
    pub fn spawn_ready(&self, library: Library, program: &str, arguments: &[&str]) -> Program {
        let program = self.spawn(library, program, arguments);
        program.running.wait_for("ready");
        program
    }
}
