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
    /// `wirecap.cases`: which cases are run, by parts of their names; none means all.
    pub(crate) cases: Vec<String>,
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
