//! The emulator around the machine, which pulls the plug of a NIC when it is asked to.
//!
//! ```text
//!   Qemu ── /dev/ttyS1 ── second serial port ── QEMU's monitor (QMP: one line of JSON each way)
//! ```

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
};

use nix::sys::termios::{SetArg, SpecialCharacterIndices, cfmakeraw, tcgetattr, tcsetattr};
use serde_json::{Value, json};

/// Where `vm/guest.sh` has the monitor end.
const MONITOR: &str = "/dev/ttyS1";
/// How long it may take to answer, in tenths of a second.
const PATIENCE_TENTHS: u8 = 100;

/// The cable of a NIC. It is plugged in when this is dropped.
pub(crate) struct Cable {
    monitor: Monitor,
    /// QEMU's name of what the NIC is connected with.
    name: String,
}

impl Cable {
    /// That of `eth0`, `eth1`.
    pub(crate) fn of(nic: &str) -> Self {
        let number = nic.strip_prefix("eth").expect("a NIC of the machine");
        Self { monitor: Monitor::open(), name: format!("net{number}") }
    }

    /// Pulls it out, or plugs it in.
    #[track_caller]
    pub(crate) fn plug(&mut self, is_in: bool) {
        self.try_plug(is_in).unwrap_or_else(|error| panic!("QEMU: {}: {error}", self.name));
    }

    fn try_plug(&mut self, is_in: bool) -> Result<(), String> {
        self.monitor.execute("set_link", &json!({ "name": self.name, "up": is_in }))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // A case that has failed says why by itself.
        let _ = self.try_plug(true);
    }
}

/// QEMU's monitor.
struct Monitor {
    commands: File,
    answers: BufReader<File>,
    /// The number of the last thing it was asked.
    last: u64,
}

impl Monitor {
    fn open() -> Self {
        let commands = OpenOptions::new().read(true).write(true).open(MONITOR).expect("vm/guest.sh gives it");
        // A terminal would send what the monitor says back to it.
        let mut settings = tcgetattr(&commands).unwrap();
        cfmakeraw(&mut settings);
        settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        settings.control_chars[SpecialCharacterIndices::VTIME as usize] = PATIENCE_TENTHS;
        tcsetattr(&commands, SetArg::TCSANOW, &settings).unwrap();
        let answers = BufReader::new(commands.try_clone().unwrap());
        let mut monitor = Self { commands, answers, last: 0 };
        // Until just now it has heard its own greeting; at this byte it begins anew.
        monitor.commands.write_all(b"\xff\n").unwrap();
        // Once it was asked, it does not know this any more.
        let _ = monitor.execute("qmp_capabilities", &json!({}));
        monitor
    }

    /// Has it do something, and waits until it has.
    fn execute(&mut self, command: &str, arguments: &Value) -> Result<(), String> {
        self.last += 1;
        let words = json!({ "execute": command, "arguments": arguments, "id": self.last });
        writeln!(self.commands, "{words}").map_err(|error| error.to_string())?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("no answer to {words}"));
            }
            // What else it says: a greeting, events, that it has not understood its greeting.
            let answer: Value = serde_json::from_str(&line).unwrap_or_default();
            if answer["id"] == self.last {
                return match &answer["error"] {
                    Value::Null => Ok(()),
                    error => Err(format!("{words}: {error}")),
                };
            }
        }
    }
}
