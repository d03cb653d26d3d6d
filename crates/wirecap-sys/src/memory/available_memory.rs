//! How much memory there is: of the machine, and of the control groups that this process is in.
//!
//! ```text
//!   MemAvailable of /proc/meminfo ──────────────────────────────┐
//!   memory.max, memory.high of a group and of all above it (v2) ├─► the least: `AvailableMemory`
//!   memory.limit_in_bytes of the same (v1) ─────────────────────┘
//! ```
//!
//! Rule: ask before taking memory. At a group's limit the kernel ends a process; it refuses nothing.
//! Pages of files count as free in part, as in MemAvailable: the kernel gives them up first.

use std::{
    fs,
    iter::Sum,
    path::{Path, PathBuf},
};

use super::{MemoryError, memory_bound::MemoryBound};

/// Memory that something takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Memory of this process: it counts against its control groups, too.
    pub process: u64,
    /// Memory of the kernel that counts against the control groups of this process: BPF arrays, page tables.
    pub charged: u64,
    /// Memory of the kernel that counts against no control group.
    pub kernel: u64,
    /// What the rest of this process will take. Control groups have to have room for it: at their limits the
    /// kernel ends a process.
    pub rest: u64,
}

impl Need {
    /// What counts against the control groups of this process.
    fn of_groups(&self) -> u64 {
        self.process + self.charged
    }

    /// Everything, without the rest of the process.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.of_groups() + self.kernel
    }
}

impl Sum for Need {
    fn sum<I: Iterator<Item = Self>>(needs: I) -> Self {
        needs.fold(Self::default(), |sum, need| Self {
            process: sum.process + need.process,
            charged: sum.charged + need.charged,
            kernel: sum.kernel + need.kernel,
            rest: sum.rest + need.rest,
        })
    }
}

/// Memory that can be taken without swapping, and without the kernel ending a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableMemory {
    /// How much, in bytes.
    pub bytes: u64,
    /// What bounds it.
    pub bound: MemoryBound,
}

/// What the machine has left; `None` where there is no /proc.
fn of_machine() -> Option<AvailableMemory> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = value(&meminfo, "MemAvailable:")?.checked_mul(1024)?;
    Some(AvailableMemory { bytes, bound: MemoryBound::Machine })
}

/// What the control groups of this process leave it, the least of all.
fn of_groups() -> Option<AvailableMemory> {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    hierarchies(&groups, &mounts).iter().flat_map(Hierarchy::rooms).min_by_key(|room| room.bytes)
}

/// The control group of this process, if it is not the root group and the files of no group are mounted, so
/// that its limits are unknown. `ip netns exec` does that: it mounts a /sys of its own.
pub(super) fn unseen_group() -> Option<PathBuf> {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    unseen(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

fn unseen(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = |version| groups.lines().find_map(|line| path_in(line, version));
    // Version 1, where it counts memory, leaves version 2 nothing to count.
    let path = path(Version::V1).or_else(|| path(Version::V2)).filter(|&path| path != "/")?;
    hierarchies(groups, mounts).is_empty().then(|| path.into())
}

/// The least of what the machine and the control groups of this process leave it; `None` where there is no
/// /proc.
pub fn available() -> Option<AvailableMemory> {
    of_machine().into_iter().chain(of_groups()).min_by_key(|available| available.bytes)
}

/// Checks that there is enough memory.
///
/// # Errors
/// [`MemoryError::TooLarge`].
pub fn check(need: Need) -> Result<(), MemoryError> {
    for (needed, rest, there) in [(need.all(), 0, of_machine()), (need.of_groups(), need.rest, of_groups())] {
        let Some(AvailableMemory { bytes, bound }) = there else { continue };
        let available = bytes.saturating_sub(rest);
        if needed > available {
            return Err(MemoryError::TooLarge { needed, available, rest, bound });
        }
    }
    Ok(())
}

/// A hierarchy of control groups that counts memory.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// Where it is mounted: the highest group that can be seen.
    mount: PathBuf,
    /// The group of this process.
    group: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The files with limits, and the one with what is in use.
    fn files(self) -> (&'static [&'static str], &'static str) {
        match self {
            Version::V1 => (&["memory.limit_in_bytes"], "memory.usage_in_bytes"),
            // Above `memory.high` the kernel slows a group down more and more.
            Version::V2 => (&["memory.max", "memory.high"], "memory.current"),
        }
    }

    /// Bytes of the memory in use that the kernel gives up when it needs room: as MemAvailable has it, all
    /// pages of files that were not used lately, and half of the others.
    fn reclaimable(self, statistics: &str) -> u64 {
        let (inactive, active) = match self {
            Version::V1 => ("total_inactive_file", "total_active_file"),
            Version::V2 => ("inactive_file", "active_file"),
        };
        let bytes = |name| value(statistics, name).unwrap_or(0);
        bytes(inactive) + bytes(active) / 2
    }
}

impl Hierarchy {
    /// What is left in the group and in each above it, as far as they have a limit.
    fn rooms(&self) -> Vec<AvailableMemory> {
        let visible = |group: &&Path| group.starts_with(&self.mount);
        self.group.ancestors().take_while(visible).flat_map(|group| self.room(group)).collect()
    }

    fn room(&self, group: &Path) -> Option<AvailableMemory> {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        let (limits, usage) = self.version.files();
        // "max" is no number, and version 1 has a very large one for it.
        let limit = |&setting: &&'static str| Some((read(setting)?.trim().parse::<u64>().ok()?, setting));
        let (limit, setting) = limits.iter().filter_map(limit).min()?;
        let used = read(usage)?.trim().parse::<u64>().ok()?;
        let reclaimable = self.version.reclaimable(&read("memory.stat").unwrap_or_default());
        let bytes = limit.saturating_sub(used.saturating_sub(reclaimable));
        let bound = MemoryBound::Group { directory: group.to_owned(), setting, limit };
        Some(AvailableMemory { bytes, bound })
    }
}

/// The hierarchies that count memory, from the contents of /proc/self/cgroup and /proc/self/mountinfo.
fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mounts = mounts.lines().filter_map(mount);
    let found = mounts.filter_map(|(version, root, mount)| {
        let group = groups.lines().find_map(|line| path_in(line, version))?;
        // One that is not below what is mounted cannot be seen, as outside of a container.
        let below = Path::new(group).strip_prefix(&root).ok()?;
        let is_hidden = below.components().any(|part| part == std::path::Component::ParentDir);
        (!is_hidden).then(|| Hierarchy { version, group: mount.join(below), mount })
    });
    found.collect()
}

/// The path in a line of /proc/self/cgroup, `NUMBER:CONTROLLERS:PATH`, if it is of the hierarchy that counts
/// memory.
fn path_in(line: &str, version: Version) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let counts = match version {
        Version::V1 => controllers.split(',').any(|name| name == "memory"),
        Version::V2 => number == "0" && controllers.is_empty(),
    };
    counts.then_some(path)
}

/// A line of /proc/self/mountinfo, if control groups are mounted there: which version, from which group on,
/// where.
fn mount(line: &str) -> Option<(Version, PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let version = match kind {
        "cgroup2" => Version::V2,
        "cgroup" if options.split(',').any(|option| option == "memory") => Version::V1,
        _ => return None,
    };
    let mut before = before.split(' ').skip(3);
    Some((version, unescaped(before.next()?), unescaped(before.next()?)))
}

/// A path of /proc/self/mountinfo, which writes a space as `\040`.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (escape, byte)| path.replace(escape, byte)).into()
}

/// The number behind a name at the beginning of a line.
fn value(text: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests;
