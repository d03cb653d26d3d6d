//! Tests of the available memory: what /proc and the files of control groups mean.

use super::*;

/// A directory that removes itself.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wirecap-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A group in this directory, with these files.
    fn group(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        files.iter().for_each(|(name, text)| fs::write(path.join(name), text).unwrap());
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn the_hierarchies_of_both_versions_are_found() {
    let groups = "12:pids:/p\n4:cpu,memory:/docker/a b\n0::/user.slice/one.scope\n";
    let mounts = "\
25 1 0:23 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 25 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate
31 25 0:27 /docker/a\\040b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory,cpu
32 25 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";
    let unified = Hierarchy {
        version: Version::V2,
        mount: "/sys/fs/cgroup/unified".into(),
        group: "/sys/fs/cgroup/unified/user.slice/one.scope".into(),
    };
    let memory = Hierarchy {
        version: Version::V1,
        mount: "/sys/fs/cgroup/memory".into(),
        group: "/sys/fs/cgroup/memory".into(),
    };
    assert_eq!(hierarchies(groups, mounts), [unified, memory]);
}

#[test]
fn a_group_outside_the_mount_is_left_out() {
    let mounts = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    assert_eq!(hierarchies("0::/../outside", mounts), []);
    let below = "30 25 0:26 /container /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    assert_eq!(hierarchies("0::/elsewhere", below), []);
    assert_eq!(hierarchies("", mounts), [], "no groups at all");
}

#[test]
fn a_group_without_mounted_files_is_reported_as_unseen() {
    let mounts = "25 1 0:23 / / rw - ext4 /dev/sda1 rw\n26 25 0:24 / /sys rw - sysfs sysfs rw";
    assert_eq!(unseen("0::/user.slice/one.scope", mounts), Some("/user.slice/one.scope".into()));
    assert_eq!(unseen("4:memory:/one\n0::/", mounts), Some("/one".into()));
    assert_eq!(unseen("4:memory:/\n0::/user.slice", mounts), None, "no group above the root");
    let seen = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    assert_eq!(unseen("0::/user.slice", seen), None);
}

#[test]
fn the_tightest_of_all_groups_above_counts() {
    let directory = Directory::new("least");
    directory.group("", &[("memory.max", "1000000000\n"), ("memory.current", "0\n")]);
    let slice = directory.group(
        "slice",
        &[("memory.max", "209715200\n"), ("memory.high", "max\n"), ("memory.current", "52428800\n")],
    );
    let group = directory.group("slice/one", &[("memory.max", "max\n"), ("memory.current", "0\n")]);
    let hierarchy = Hierarchy { version: Version::V2, mount: directory.0.clone(), group };
    let least = hierarchy.rooms().into_iter().min_by_key(|room| room.bytes).unwrap();
    let bound = MemoryBound::Group { directory: slice, setting: "memory.max", limit: 200 * MIB };
    assert_eq!(least, AvailableMemory { bytes: 150 * MIB, bound });
}

#[test]
fn pages_of_files_count_as_available() {
    let directory = Directory::new("files");
    let statistics = "anon 1048576\nfile 62914560\ninactive_file 41943040\nactive_file 20971520\n";
    let group = directory.group(
        "g",
        &[("memory.max", "104857600"), ("memory.current", "94371840"), ("memory.stat", statistics)],
    );
    let hierarchy = Hierarchy { version: Version::V2, mount: directory.0.clone(), group };
    assert_eq!(hierarchy.rooms()[0].bytes, (100 - 90 + 40 + 10) * MIB);
}

#[test]
fn a_limit_that_slows_a_group_counts_like_one_that_kills_it() {
    let directory = Directory::new("high");
    let files = [("memory.max", "209715200"), ("memory.high", "104857600"), ("memory.current", "0")];
    let group = directory.group("g", &files);
    let hierarchy = Hierarchy { version: Version::V2, mount: directory.0.clone(), group: group.clone() };
    let bound = MemoryBound::Group { directory: group, setting: "memory.high", limit: 100 * MIB };
    assert_eq!(hierarchy.rooms(), [AvailableMemory { bytes: 100 * MIB, bound }]);
}

#[test]
fn a_large_number_means_no_limit_in_version_1() {
    let directory = Directory::new("v1");
    let unlimited = [("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "4096\n")];
    directory.group("", &unlimited);
    let statistics = "cache 8388608\ntotal_inactive_file 4194304\ntotal_active_file 4194304\n";
    let group = directory.group(
        "g",
        &[
            ("memory.limit_in_bytes", "104857600\n"),
            ("memory.usage_in_bytes", "20971520\n"),
            ("memory.stat", statistics),
        ],
    );
    let hierarchy = Hierarchy { version: Version::V1, mount: directory.0.clone(), group };
    let rooms: Vec<_> = hierarchy.rooms().into_iter().map(|room| room.bytes >> 20).collect();
    assert_eq!(rooms[0], 100 - 20 + 4 + 2);
    assert!(rooms[1] > 1 << 40);
}

#[test]
fn an_excessive_need_is_refused() {
    assert!(available().unwrap().bytes > MIB);
    assert!(check(Need { process: MIB, charged: MIB, kernel: MIB, rest: MIB }).is_ok());
    for need in [
        Need { process: 1 << 50, ..Need::default() },
        Need { charged: 1 << 50, ..Need::default() },
        Need { kernel: 1 << 50, ..Need::default() },
    ] {
        let refused = check(need).unwrap_err().to_string();
        assert!(refused.contains("packet memory of 1073741824 MiB does not fit"), "{refused}");
    }
}

#[test]
fn what_a_group_could_have_may_be_there_in_a_moment() {
    let error = |needed, rest, limit| {
        let bound = MemoryBound::Group { directory: "/g".into(), setting: "memory.max", limit };
        MemoryError::TooLarge { needed, available: 10 * MIB, rest, bound }
    };
    assert!(error(80 * MIB, 20 * MIB, 100 * MIB).may_pass());
    assert!(!error(80 * MIB, 21 * MIB, 100 * MIB).may_pass(), "more than the limit");
    let (needed, available, rest) = (80 * MIB, 10 * MIB, 0);
    assert!(!MemoryError::TooLarge { needed, available, rest, bound: MemoryBound::Machine }.may_pass());
    let text = error(80 * MIB - 1, 20 * MIB, 100 * MIB).to_string();
    assert!(
        text.starts_with("packet memory of 80 MiB does not fit: 10 MiB are left of the 100 MiB"),
        "{text}"
    );
    assert!(text.ends_with("beside 20 MiB for the rest of the process; raise that limit"), "{text}");
}
