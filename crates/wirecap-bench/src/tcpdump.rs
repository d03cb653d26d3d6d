//! tcpdump, unmodified, on the system's libpcap or on wirecap.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::bed::{Link, RECEIVER};
use crate::run::{Process, ProcessOutput, ReadySign};

/// Which library a program gets its packets from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The system's libpcap.
    System,
    /// wirecap's, by `wirecap run`.
    Wirecap,
}

/// tcpdump with its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcpdump {
    /// Where its packets come from.
    pub library: Library,
    /// Its buffer in KiB, or `None` for the default one.
    pub buffer_kib: Option<u32>,
}

impl Tcpdump {
    /// Its command line, without the interface and the file.
    pub fn name(self) -> String {
        let run = if self.library == Library::Wirecap { "wirecap run " } else { "" };
        let buffer = self.buffer_kib.map_or_else(String::new, |kib| format!(" -B {kib}"));
        format!("{run}tcpdump -w{buffer}")
    }

    /// Starts it on the receiving end of a link, on the receiver's core; `wirecap` is the path of the
    /// command.
    ///
    /// # Errors
    /// With its output.
    pub fn start(self, link: &Link<'_>, wirecap: &Path, file: &Path) -> Result<Process> {
        let mut command = match self.library {
            Library::System => link.pinned("tcpdump"),
            Library::Wirecap => {
                let mut command = link.pinned(&wirecap.to_string_lossy());
                command.args(["run", "tcpdump"]);
                command
            }
        };
        // -Z root: tcpdump would drop root, and then could not write to a directory of root.
        command.args(["-i", RECEIVER, "-nn", "-Z", "root", "-w"]).arg(file);
        if let Some(kib) = self.buffer_kib {
            command.args(["-B", &kib.to_string()]);
        }
        Process::start("tcpdump", command, ReadySign::Line("tcpdump: listening on"))
    }

    /// The number of packets that it has written, by its own count.
    ///
    /// # Errors
    /// If it has not said so.
    pub fn captured(ended: &ProcessOutput) -> Result<u64> {
        captured(&ended.errors).with_context(|| format!("no count: {}", ended.errors.join("; ")))
    }
}

/// The number of tcpdump's `123 packets captured`.
fn captured(lines: &[String]) -> Option<u64> {
    lines.iter().find_map(|line| {
        let (number, rest) = line.trim().split_once(' ')?;
        rest.starts_with("packet").then(|| rest.ends_with("captured"))?.then(|| number.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_command_lines() {
        let name = |library, buffer_kib| Tcpdump { library, buffer_kib }.name();
        assert_eq!(name(Library::System, None), "tcpdump -w");
        assert_eq!(name(Library::Wirecap, Some(65_536)), "wirecap run tcpdump -w -B 65536");
    }

    #[test]
    fn tcpdump_s_count_is_read() {
        let lines = |text: &str| text.lines().map(Into::into).collect::<Vec<String>>();
        let said = "tcpdump: listening on wc1, link-type EN10MB\n1200 packets captured\n1300 packets received by filter";
        assert_eq!(captured(&lines(said)), Some(1200));
        assert_eq!(captured(&lines("1 packet captured")), Some(1));
        assert_eq!(captured(&lines("tcpdump: no such device")), None);
    }
}
