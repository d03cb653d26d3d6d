//! Control groups, to run things short of threads or memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::Namespace;
use crate::sweep;

/// Attempts to remove a group whose processes are about to end.
const ATTEMPTS: u32 = 100;

/// What a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The number of threads.
    Pids,
    /// Memory, in bytes.
    Memory,
}

/// A control group, of version 2 or 1, whichever the machine has. Dropping it removes it, once all that runs
/// in it has ended.
#[derive(Debug)]
pub struct ControlGroup {
    directory: PathBuf,
    /// The file with the limit.
    limit: &'static str,
}

impl Controller {
    /// Its name, and the files with the limit in version 1 and 2.
    fn names(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Controller::Pids => ("pids", ["pids.max"; 2]),
            Controller::Memory => ("memory", ["memory.limit_in_bytes", "memory.max"]),
        }
    }
}

impl ControlGroup {
    /// A new group without a limit.
    ///
    /// # Errors
    /// Why there can be none here, as a text for [`skip`](crate::skip).
    pub fn new(controller: Controller) -> Result<Self, String> {
        let (name, files) = controller.names();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let (root, limit) = mounts
            .lines()
            .find_map(|line| root(line, name, files))
            .ok_or_else(|| format!("no hierarchy of control groups here counts {name}"))?;
        // Only uniqueness matters, nothing is published by it.
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        let directory = root.join(format!("wirecap-{}-{counter}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|cause| format!("no control group in {}: {cause}", root.display()))?;
        let group = Self { directory, limit };
        // In version 2 it is there only if the group above hands the controller on.
        match group.directory.join(limit).exists() {
            true => Ok(group),
            false => Err(format!("control groups in {} cannot limit {name}", root.display())),
        }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Limits it.
    ///
    /// # Panics
    /// If the kernel does not take the number.
    pub fn limit(&self, limit: u64) {
        self.write(self.limit, limit);
    }

    /// Moves a process into it, with all its threads.
    ///
    /// # Panics
    /// If the kernel does not move it.
    pub fn take(&self, pid: u32) {
        self.write("cgroup.procs", pid.into());
    }

    /// A command that will run in it, and inside a network namespace. Other than with [`Namespace::command`],
    /// it sees the files of control groups, and `/sys/class/net` of the machine.
    pub fn command(&self, namespace: &Namespace, program: &str) -> Command {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.directory.display());
        let mut command = Command::new("sh");
        command.args(["-c", &enter, "nsenter"]);
        command.args([&format!("--net={}/{}", sweep::NAMESPACES, namespace.name()), program]);
        command
    }

    fn write(&self, file: &str, value: u64) {
        let path = self.directory.join(file);
        fs::write(&path, value.to_string()).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // It stays behind if something still runs in it; then the test has failed.
        let _ = (0..ATTEMPTS).find(|_| {
            let removed = fs::remove_dir(&self.directory).is_ok();
            if !removed {
                thread::sleep(Duration::from_millis(10));
            }
            removed
        });
    }
}

/// Where groups can be made that have this controller, if this line of /proc/self/mountinfo is such a place;
/// and the file with the limit.
fn root(line: &str, controller: &str, [first, second]: [&'static str; 2]) -> Option<(PathBuf, &'static str)> {
    let (before, after) = line.split_once(" - ")?;
    let mount = PathBuf::from(before.split(' ').nth(4)?);
    let (kind, options) = (after.split(' ').next()?, after.split(' ').nth(2)?);
    match kind {
        "cgroup" if options.split(',').any(|option| option == controller) => Some((mount, first)),
        "cgroup2" => {
            let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
            controllers.split_whitespace().find(|&name| name == controller)?;
            // Handed on already where services are limited; elsewhere it may be refused, which the missing
            // file shows.
            let _ = fs::write(mount.join("cgroup.subtree_control"), format!("+{controller}"));
            Some((mount, second))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_of_version_1_is_found_by_its_controller() {
        let line = "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let files = Controller::Memory.names().1;
        let expected = Some((PathBuf::from("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"));
        assert_eq!(root(line, "memory", files), expected);
        assert_eq!(root(line, "pids", files), None);
        assert_eq!(root("25 1 0:23 / / rw - ext4 /dev/sda1 rw", "memory", files), None);
    }
}
