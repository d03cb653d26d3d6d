//! Removes the namespaces that dead processes left behind; defines the names that identify them.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run::ip;

/// The directory in which ip(8) keeps named namespaces.
pub(crate) const NAMESPACES: &str = "/run/netns";
/// Start of the names of our namespaces: `wirecap-PID-COUNTER-LABEL`.
const PREFIX: &str = "wirecap-";

/// The name of the `counter`-th namespace of process `pid`.
pub(crate) fn name(pid: u32, counter: usize, label: &str) -> String {
    format!("{PREFIX}{pid}-{counter}-{label}")
}

/// The process that owns one of our namespaces; `None` for other namespaces.
fn owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let (counter, label) = rest.split_once('-')?;
    let _: usize = counter.parse().ok()?;
    pid.parse().ok().filter(|_| !label.is_empty())
}

/// Deletes the laboratory's namespaces whose process is dead, with everything in them; returns their names.
///
/// Never touches namespaces with other names. Two processes may sweep at once.
pub fn sweep() -> Vec<String> {
    let Ok(entries) = fs::read_dir(NAMESPACES) else { return Vec::new() };
    let stale = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_stale(name));
    // Deleting fails if another process was faster; the namespace is gone either way.
    stale.filter(|name| remove(name)).collect()
}

fn is_stale(name: &str) -> bool {
    owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Kills the processes in namespace `name` and deletes it. Returns whether the namespace was deleted.
pub(crate) fn remove(name: &str) -> bool {
    let inside = ip(&["netns", "pids", name]).unwrap_or_default();
    for pid in inside.lines().filter_map(|line| line.trim().parse().ok()) {
        // Our own process is inside if its main thread called setns(2).
        if pid != std::process::id() as i32 {
            // The process may have ended since.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    ip(&["netns", "del", name]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_an_owner() {
        assert_eq!(owner(&name(4711, 3, "left")), Some(4711));
        for foreign in
            ["left", "wirecap-", "wirecap-4711", "wirecap-x-1-left", "wirecap-1-left", "mywirecap-1-2-left"]
        {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn namespaces_of_living_processes_are_not_stale() {
        assert!(!is_stale(&name(std::process::id(), 0, "x")));
        assert!(is_stale(&name(u32::MAX, 0, "x")));
        assert!(!is_stale("default"));
    }
}
