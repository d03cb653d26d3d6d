//! The emulator around the guest, which can unplug the cable of a NIC.
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

/// The serial port that `vm/guest.sh` connects with the monitor.
const MONITOR: &str = "/dev/ttyS1";
/// How long the monitor may take to answer, in tenths of a second.
const TIMEOUT_TENTHS: u8 = 100;

/// The cable of a NIC. Dropping it plugs the cable in.
pub(crate) struct Cable {
    monitor: Monitor,
    /// QEMU's name of the network device that the NIC is connected with.
    name: String,
}

impl Cable {
    /// The cable of `eth0` or `eth1`.
    pub(crate) fn of(nic: &str) -> Self {
        let number = nic.strip_prefix("eth").expect("the NIC is named ethN");
        Self { monitor: Monitor::open(), name: format!("net{number}") }
    }

    /// Plugs the cable in, or pulls it out.
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
        // A case that has failed reports its own reason.
        let _ = self.try_plug(true);
    }
}

/// QEMU's monitor.
struct Monitor {
    commands: File,
    answers: BufReader<File>,
    /// The id of the last command.
    last: u64,
}

impl Monitor {
    fn open() -> Self {
        let commands =
            OpenOptions::new().read(true).write(true).open(MONITOR).expect("vm/guest.sh connects it");
        // Without raw mode, the terminal echoes the monitor's output back to it.
        let mut settings = tcgetattr(&commands).unwrap();
        cfmakeraw(&mut settings);
        settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        settings.control_chars[SpecialCharacterIndices::VTIME as usize] = TIMEOUT_TENTHS;
        tcsetattr(&commands, SetArg::TCSANOW, &settings).unwrap();
        let answers = BufReader::new(commands.try_clone().unwrap());
        let mut monitor = Self { commands, answers, last: 0 };
        // Until now the terminal has echoed the greeting as input; this byte resets the monitor's parser.
        monitor.commands.write_all(b"\xff\n").unwrap();
        // The monitor rejects this command if an earlier case has already sent it.
        let _ = monitor.execute("qmp_capabilities", &json!({}));
        monitor
    }

    /// Executes a command and waits for its answer.
    fn execute(&mut self, command: &str, arguments: &Value) -> Result<(), String> {
        self.last += 1;
        let words = json!({ "execute": command, "arguments": arguments, "id": self.last });
        writeln!(self.commands, "{words}").map_err(|error| error.to_string())?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("no answer to {words}"));
            }
            // Other lines are a greeting, events, or an error about the echoed greeting.
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
