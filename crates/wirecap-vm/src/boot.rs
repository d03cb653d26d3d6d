//! Boots the guest: mounts file systems, loads drivers, reads the plan; and switches it off again.

use std::{
    ffi::CString,
    fs::{self, File},
    thread,
    time::Duration,
};

use nix::{
    kmod::{ModuleInitFlags, finit_module},
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};

/// Kernel modules, numbered in loading order by `vm/image.sh`.
const MODULES: &str = "/modules";

/// What the kernel's command line asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// `wirecap.queues`: receive queues of each NIC.
    pub(crate) queues: u32,
    /// `wirecap.zero_copy`: whether the driver has zero-copy on this kernel.
    pub(crate) zero_copy: bool,
    /// `wirecap.large_frames`: what happens to frames larger than a cell.
    pub(crate) large_frames: LargeFrames,
    /// `wirecap.end_to_end`: whether to run the library's end-to-end tests, which are then in the image.
    pub(crate) end_to_end: bool,
    /// `wirecap.cases`: parts of the names of the cases to run; if empty, all run.
    pub(crate) cases: Vec<String>,
}

/// What happens to frames larger than a cell at an MTU of 9,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargeFrames {
    /// The mode of each queue.
    pub(crate) mode: &'static str,
    /// Whether such frames arrive in several cells; otherwise they count as too long.
    pub(crate) several_cells: bool,
}

impl LargeFrames {
    fn named(name: &str) -> Self {
        let (mode, several_cells) = match name {
            "copy" => ("copy", true),
            "generic" => ("generic", true),
            "lost" => ("generic", false),
            _ => panic!("the command line lacks wirecap.large_frames=copy, generic or lost"),
        };
        Self { mode, several_cells }
    }
}

impl Plan {
    /// Reads the plan from `/proc/cmdline`.
    pub(crate) fn of_kernel_command_line() -> Self {
        let line = fs::read_to_string("/proc/cmdline").expect("/proc is mounted");
        let value = |name: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or("")
        };
        Self {
            queues: value("wirecap.queues").parse().expect("the command line has wirecap.queues=NUMBER"),
            zero_copy: value("wirecap.zero_copy") == "yes",
            large_frames: LargeFrames::named(value("wirecap.large_frames")),
            end_to_end: value("wirecap.end_to_end") == "yes",
            cases: value("wirecap.cases")
                .split(',')
                .filter(|part| !part.is_empty())
                .map(Into::into)
                .collect(),
        }
    }
}

/// Mounts the file systems that programs expect.
pub(crate) fn mount_all() {
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"), ("tmpfs", "/run")]
    {
        fs::create_dir_all(target).expect("the root is writable");
        let none = None::<&str>;
        let mounted = mount(Some(kind), target, Some(kind), MsFlags::empty(), none);
        mounted.unwrap_or_else(|errno| panic!("cannot mount {target}: {errno}"));
    }
}

/// Loads the drivers.
pub(crate) fn load_modules() {
    let mut files: Vec<_> =
        fs::read_dir(MODULES).expect("the image has modules").flatten().map(|file| file.path()).collect();
    files.sort();
    for path in files {
        let file = File::open(&path).expect("the directory lists it");
        let loaded = finit_module(&file, &CString::default(), ModuleInitFlags::empty());
        loaded.unwrap_or_else(|errno| panic!("cannot load {}: {errno}", path.display()));
    }
}

/// Switches the machine off, after a pause in which the console drains.
pub(crate) fn power_off() -> ! {
    thread::sleep(Duration::from_millis(200));
    let error = reboot(RebootMode::RB_POWER_OFF).expect_err("a successful reboot does not return");
    panic!("cannot switch off: {error}");
}
