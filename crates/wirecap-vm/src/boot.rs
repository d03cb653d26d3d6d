//! From a kernel that has just started to one with file systems and drivers; and off again.

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

/// Kernel modules in the order in which they are to be loaded; `vm/image.sh` has put them there.
const MODULES: &str = "/modules";

/// What the kernel's command line asks of the suite.
#[derive(Debug)]
pub(crate) struct Plan {
    /// `wirecap.queues`: receive queues that each NIC shall have.
    pub(crate) queues: u32,
    /// `wirecap.zero_copy`: whether the driver has zero-copy on this kernel.
    pub(crate) zero_copy: bool,
    /// `wirecap.large_frames`: what becomes of frames that are larger than a cell.
    pub(crate) large_frames: LargeFrames,
    /// `wirecap.end_to_end`: whether the image has the library's end-to-end tests, which then are run.
    pub(crate) end_to_end: bool,
    /// `wirecap.cases`: which cases are run, by parts of their names; none means all.
    pub(crate) cases: Vec<String>,
}

/// What becomes of frames that are larger than a cell, where the driver is asked for an MTU of 9,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargeFrames {
    /// The mode of each queue.
    pub(crate) mode: &'static str,
    /// Whether they come in several cells; else they are counted as too long.
    pub(crate) several_cells: bool,
}

impl LargeFrames {
    fn named(name: &str) -> Self {
        let (mode, several_cells) = match name {
            "copy" => ("copy", true),
            "generic" => ("generic", true),
            "lost" => ("generic", false),
            _ => panic!("wirecap.large_frames=copy, generic or lost on the command line"),
        };
        Self { mode, several_cells }
    }
}

impl Plan {
    /// Reads it.
    pub(crate) fn of_kernel_command_line() -> Self {
        let line = fs::read_to_string("/proc/cmdline").expect("/proc is mounted");
        let value = |name: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or("")
        };
        Self {
            queues: value("wirecap.queues").parse().expect("wirecap.queues=NUMBER on the command line"),
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

/// The file systems that programs expect.
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
        fs::read_dir(MODULES).expect("a folder").flatten().map(|file| file.path()).collect();
    files.sort();
    for path in files {
        let file = File::open(&path).expect("it was listed");
        let loaded = finit_module(&file, &CString::default(), ModuleInitFlags::empty());
        loaded.unwrap_or_else(|errno| panic!("cannot load {}: {errno}", path.display()));
    }
}

/// Switches the machine off, once the console has told everything.
pub(crate) fn power_off() -> ! {
    thread::sleep(Duration::from_millis(200));
    let error = reboot(RebootMode::RB_POWER_OFF).expect_err("it does not return");
    panic!("cannot switch off: {error}");
}
