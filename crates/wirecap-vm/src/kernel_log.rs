//! The complaints of the kernel while a case runs.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
};

/// Words that mark a complaint of the kernel.
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
/// The bits of the kernel's taint for an Oops and for a warning.
const TAINTS: u64 = (1 << 7) | (1 << 9);

/// A reader of the kernel's log.
pub(crate) struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Opens the log at its beginning.
    pub(crate) fn open() -> Self {
        let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg");
        Self { file: file.expect("the device exists") }
    }

    /// All lines since the last call.
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
                // The kernel has overwritten unread records; the next read returns the oldest that remains.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => return lines,
            }
        }
    }
}

/// The first complaint in `lines`, with the lines around it; empty without a complaint.
pub(crate) fn complaints(lines: &[String]) -> Vec<String> {
    let first = lines.iter().position(|line| COMPLAINTS.iter().any(|words| line.contains(words)));
    first.map_or_else(Vec::new, |first| lines[first.saturating_sub(2)..].iter().take(40).cloned().collect())
}

/// Has the kernel print all messages on the console from now on, since the suite no longer reads its log.
pub(crate) fn log_to_console() {
    // If this fails, the kernel still prints serious messages.
    let _ = fs::write("/proc/sys/kernel/printk", "8");
}

/// Whether the kernel's taint flags record a warning or an Oops since boot.
pub(crate) fn is_tainted() -> bool {
    let taint = fs::read_to_string("/proc/sys/kernel/tainted").unwrap_or_default();
    taint.trim().parse::<u64>().unwrap_or(TAINTS) & TAINTS != 0
}
