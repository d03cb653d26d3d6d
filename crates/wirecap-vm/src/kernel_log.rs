//! What the kernel complains of while a case runs.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
};

/// Words with which the kernel begins to complain.
const COMPLAINTS: [&str; 9] = [
    "WARNING: ",
    "BUG: ",
    "Oops",
    "general protection fault",
    "refcount_t: ",
    "unregister_netdevice: waiting",
    "blocked for more than",
    "Call Trace:",
    "NETDEV WATCHDOG",
];
/// Bits of the kernel's taint that tell of an Oops and of a warning.
const TAINTS: u64 = (1 << 7) | (1 << 9);

/// The kernel's log, from some moment on.
pub(crate) struct KernelLog {
    file: File,
}

impl KernelLog {
    /// From its beginning.
    pub(crate) fn open() -> Self {
        let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg");
        Self { file: file.expect("the device is there") }
    }

    /// Everything that was not read yet.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let (mut lines, mut record) = (Vec::new(), [0; 8192]);
        loop {
            match self.file.read(&mut record) {
                // "level,sequence,time,flags;text\n KEY=value…"
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]).into_owned();
                    lines.extend(
                        text.lines()
                            .next()
                            .and_then(|line| line.split_once(';'))
                            .map(|(_, text)| text.into()),
                    );
                }
                // The kernel has overwritten what was not read in time; what is left follows.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => return lines,
            }
        }
    }
}

/// The complaints among lines of the log, each with what follows it.
pub(crate) fn complaints(lines: &[String]) -> Vec<String> {
    let first = lines.iter().position(|line| COMPLAINTS.iter().any(|words| line.contains(words)));
    first.map_or_else(Vec::new, |first| lines[first.saturating_sub(2)..].iter().take(40).cloned().collect())
}

/// From now on the kernel says on the console whatever it says: when nobody reads its log any more.
pub(crate) fn speak_on_console() {
    // Where it cannot be asked to, it goes on with what is serious.
    let _ = fs::write("/proc/sys/kernel/printk", "8");
}

/// Whether the kernel says of itself that it has warned or oopsed since it was started.
pub(crate) fn is_tainted() -> bool {
    let taint = fs::read_to_string("/proc/sys/kernel/tainted").unwrap_or_default();
    taint.trim().parse::<u64>().unwrap_or(TAINTS) & TAINTS != 0
}
