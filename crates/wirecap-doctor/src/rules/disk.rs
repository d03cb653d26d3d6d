//! Where packets are written, against what the links bring.

use super::of_machine;
use crate::{
    finding::{Evidence, Finding, Severity},
    snapshot::{Disk, FileSystem, Snapshot},
};

/// A capture that fills the disk within this time is hardly wanted.
const SHORT_SECONDS: u64 = 60;

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let Some(disk) = &snapshot.disk else { return Vec::new() };
    let needed = snapshot.link_bytes_per_second().unwrap_or(0);
    [file_system(disk), direct_io(disk), space(disk, needed), speed(disk, needed)]
        .into_iter()
        .flatten()
        .collect()
}

fn file_system(disk: &Disk) -> Option<Finding> {
    let severity = match disk.kind {
        FileSystem::Local => return None,
        FileSystem::Network | FileSystem::Overlay => Severity::Hint,
        FileSystem::Memory => Severity::Warning,
    };
    let (path, type_name, kind) = (disk.path.clone(), disk.type_name.clone(), disk.kind);
    Some(of_machine(severity, Evidence::DiskFileSystem { path, type_name, kind }, Vec::new()))
}

fn direct_io(disk: &Disk) -> Option<Finding> {
    let (path, type_name) = (disk.path.clone(), disk.type_name.clone());
    (disk.takes_direct_io == Some(false))
        .then(|| of_machine(Severity::Hint, Evidence::DiskDirectIo { path, type_name }, Vec::new()))
}

fn space(disk: &Disk, needed: u64) -> Option<Finding> {
    let seconds = disk.free_bytes.checked_div(needed)?;
    (seconds < SHORT_SECONDS).then(|| {
        let (path, free_bytes) = (disk.path.clone(), disk.free_bytes);
        of_machine(Severity::Hint, Evidence::DiskSpace { path, free_bytes, seconds }, Vec::new())
    })
}

fn speed(disk: &Disk, needed: u64) -> Option<Finding> {
    let measured = disk.bytes_per_second.filter(|speed| *speed < needed)?;
    let path = disk.path.clone();
    Some(of_machine(Severity::Warning, Evidence::DiskSpeed { path, measured, needed }, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{finding::Rule, rules::tuned_tests::found_in};

    fn with(change: impl Fn(&mut Disk)) -> Vec<Rule> {
        found_in(|snapshot| change(snapshot.disk.as_mut().unwrap()))
    }

    #[test]
    fn each_property_of_a_disk_is_found() {
        assert_eq!(with(|disk| disk.kind = FileSystem::Memory), [Rule::DiskFileSystem]);
        assert_eq!(with(|disk| disk.takes_direct_io = Some(false)), [Rule::DiskDirectIo]);
        // 10 Gbit/s are 1.25 GB a second.
        assert_eq!(with(|disk| disk.free_bytes = 74_999_999_999), [Rule::DiskSpace]);
        assert_eq!(with(|disk| disk.free_bytes = 75_000_000_000), []);
        assert_eq!(with(|disk| disk.bytes_per_second = Some(1_249_999_999)), [Rule::DiskSpeed]);
        assert_eq!(with(|disk| disk.bytes_per_second = Some(1_250_000_000)), []);
        assert_eq!(with(|disk| (disk.bytes_per_second, disk.takes_direct_io) = (None, None)), []);
    }

    #[test]
    fn without_a_link_of_known_speed_nothing_is_too_slow() {
        let findings = found_in(|snapshot| {
            snapshot.interfaces[0].speed_mbps = None;
            (snapshot.interfaces[0].mtu, snapshot.disk.as_mut().unwrap().free_bytes) = (1500, 0);
        });
        assert_eq!(findings, []);
    }

    #[test]
    fn kinds_of_file_systems_are_known_by_their_types() {
        for (name, kind) in [
            ("ext4", FileSystem::Local),
            ("xfs", FileSystem::Local),
            ("nfs4", FileSystem::Network),
            ("fuse.sshfs", FileSystem::Network),
            ("tmpfs", FileSystem::Memory),
            ("overlay", FileSystem::Overlay),
        ] {
            assert_eq!(FileSystem::of_type(name), kind, "{name}");
        }
    }
}
