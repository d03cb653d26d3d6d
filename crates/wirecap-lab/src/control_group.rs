//! Control groups, to run processes short of threads or memory.

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

/// The resource that a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The number of threads.
    Pids,
    /// Memory, in bytes.
    Memory,
}

/// A control group, of version 2 or 1, whichever the machine has. Dropping it waits up to a second for its
/// processes to end, and removes it.
#[derive(Debug)]
pub struct ControlGroup {
    directory: PathBuf,
    /// The file with the limit.
    limit: &'static str,
}

impl Controller {
    /// The controller's name, and the files with its limit in version 1 and 2.
    fn names(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Controller::Pids => ("pids", ["pids.max"; 2]),
            Controller::Memory => ("memory", ["memory.limit_in_bytes", "memory.max"]),
        }
    }
}

impl ControlGroup {
    /// Makes a group without a limit.
    ///
    /// # Errors
    /// Why this machine has no such groups, as a reason for [`skip`](crate::skip).
    pub fn new(controller: Controller) -> Result<Self, String> {
        let (name, files) = controller.names();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let (root, limit) = mounts
            .lines()
            .find_map(|line| root(line, name, files))
            .ok_or_else(|| format!("no hierarchy of control groups here counts {name}"))?;
        // Relaxed: the counter only has to be unique.
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        let directory = root.join(format!("wirecap-{}-{counter}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|cause| format!("no control group in {}: {cause}", root.display()))?;
        let group = Self { directory, limit };
        // In version 2 the file exists only if the parent group delegates the controller.
        match group.directory.join(limit).exists() {
            true => Ok(group),
            false => Err(format!("control groups in {} cannot limit {name}", root.display())),
        }
    }

    /// The group's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets the limit.
    ///
    /// # Panics
    /// If the kernel refuses the number.
    pub fn limit(&self, limit: u64) {
        self.write(self.limit, limit);
    }

    /// Moves a process with all its threads into the group.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn take(&self, pid: u32) {
        self.write("cgroup.procs", pid.into());
    }

    /// A command that will run in the group and inside a network namespace. Unlike one of
    /// [`Namespace::command`], it sees the files of control groups, and the machine's `/sys/class/net`.
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
        // If a process still runs in the group, the group stays; the test has failed in that case.
        let _ = (0..ATTEMPTS).find(|_| {
            let removed = fs::remove_dir(&self.directory).is_ok();
            if !removed {
                thread::sleep(Duration::from_millis(10));
            }
            removed
        });
    }
}

/// The directory and the file with the limit, if a line of /proc/self/mountinfo mounts a hierarchy with this
/// controller.
fn root(line: &str, controller: &str, [first, second]: [&'static str; 2]) -> Option<(PathBuf, &'static str)> {
    let (before, after) = line.split_once(" - ")?;
    let mount = PathBuf::from(before.split(' ').nth(4)?);
    let (kind, options) = (after.split(' ').next()?, after.split(' ').nth(2)?);
    match kind {
        "cgroup" if options.split(',').any(|option| option == controller) => Some((mount, first)),
        "cgroup2" => {
            let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
            controllers.split_whitespace().find(|&name| name == controller)?;
            // Delegates the controller, unless systemd has done so. The kernel may refuse; then the file with
            // the limit is missing, which the caller checks.
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
