//! The capabilities of a thread: capabilities(7).
//!
//! Rule: a thread cannot regain what it gives up here, and neither can programs that it starts, unless
//! they run as root.

use std::{fmt, io};

use nix::sys::prctl;
use serde::{Serialize, Serializer};

/// `_LINUX_CAPABILITY_VERSION_3` of <linux/capability.h>: two words for each set.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`: 32 capabilities in each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const _: () = assert!(size_of::<Header>() == 8 && size_of::<[Words; 2]>() == 24);

/// A capability that wirecap uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Capability {
    /// Giving files away.
    Chown = 0,
    /// Files of any user.
    DacOverride = 1,
    /// Names in directories with the sticky bit.
    Fowner = 3,
    /// Signals to processes of any user.
    Kill = 5,
    /// Any group.
    Setgid = 6,
    /// Any user.
    Setuid = 7,
    /// Interfaces, and their neighbours.
    NetAdmin = 12,
    /// Raw sockets.
    NetRaw = 13,
    /// Locked memory.
    IpcLock = 14,
    /// What other processes have open.
    SysPtrace = 19,
    /// BPF objects of other processes, by their numbers.
    SysAdmin = 21,
    /// Arithmetic on packet addresses in BPF programs.
    Perfmon = 38,
    /// BPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Chown,
        Self::DacOverride,
        Self::Fowner,
        Self::Kill,
        Self::Setgid,
        Self::Setuid,
        Self::NetAdmin,
        Self::NetRaw,
        Self::IpcLock,
        Self::SysPtrace,
        Self::SysAdmin,
        Self::Perfmon,
        Self::Bpf,
    ];

    /// Its name in the kernel: `CAP_NET_ADMIN`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Chown => "CAP_CHOWN",
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::Fowner => "CAP_FOWNER",
            Capability::Kill => "CAP_KILL",
            Capability::Setgid => "CAP_SETGID",
            Capability::Setuid => "CAP_SETUID",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Capability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    /// Whether it has this one.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }

    /// Whether it has none, of those that wirecap does not know either.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().fold(0, |set, capability| set | 1 << capability as u8))
    }
}

/// The capabilities that the calling thread may use.
///
/// # Errors
/// The kernel's error.
pub fn effective() -> io::Result<CapabilitySet> {
    get().map(|words| set_of(words.map(|word| word.effective)))
}

/// Gives up all capabilities of the calling thread but these, and has programs that it starts inherit none.
/// Returns those that it has then: it cannot keep what it did not have.
///
/// # Errors
/// The kernel's error.
pub fn keep_only(wanted: CapabilitySet) -> io::Result<CapabilitySet> {
    let kept = wanted.and(set_of(get()?.map(|word| word.permitted)));
    let word = |index: u32| (kept.0 >> (32 * index)) as u32;
    // Ambient capabilities are inheritable ones, so they end with these.
    let words = [0, 1].map(|index| Words { effective: word(index), permitted: word(index), inheritable: 0 });
    set(&words)?;
    Ok(kept)
}

/// Has programs that the calling thread starts inherit no capabilities. Root gets them all the same.
///
/// # Errors
/// The kernel's error.
pub fn pass_on_none() -> io::Result<()> {
    let words = get()?.map(|word| Words { inheritable: 0, ..word });
    set(&words)
}

/// Whether the capabilities of the calling thread stay permitted when it becomes another user.
///
/// # Errors
/// The kernel's error.
pub fn survive_user_change(survive: bool) -> io::Result<()> {
    Ok(prctl::set_keepcaps(survive)?)
}

/// Gives the calling thread no new privileges, whatever programs it starts. Filters of system calls and rules
/// for files need this.
///
/// # Errors
/// The kernel's error.
pub fn gain_none() -> io::Result<()> {
    Ok(prctl::set_no_new_privs()?)
}

fn set_of([low, high]: [u32; 2]) -> CapabilitySet {
    CapabilitySet(u64::from(low) | u64::from(high) << 32)
}

fn get() -> io::Result<[Words; 2]> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut words = [Words::default(); 2];
    // SAFETY: capget(2) gets a header and, for this version, two words of each set, both ours; the kernel
    // writes within them.
    let result = unsafe { libc::syscall(libc::SYS_capget, &mut header, &mut words) };
    if result == 0 { Ok(words) } else { Err(io::Error::last_os_error()) }
}

fn set(words: &[Words; 2]) -> io::Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    // SAFETY: capset(2) gets a header and, for this version, two words of each set, which it only reads.
    let result = unsafe { libc::syscall(libc::SYS_capset, &mut header, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, thread};

    use super::*;

    /// A set of the calling thread, as /proc shows it.
    fn shown(set: &str) -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{set}:"))).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_keeps_what_it_asks_for_and_had() {
        let before = effective().unwrap();
        assert_eq!(before.0, shown("CapEff"));
        let wanted: CapabilitySet = [Capability::NetAdmin, Capability::Bpf].into_iter().collect();
        let (kept, of_thread, inheritable) = thread::spawn(move || {
            let kept = keep_only(wanted).unwrap();
            (kept, [shown("CapEff"), shown("CapPrm")], shown("CapInh"))
        })
        .join()
        .unwrap();
        assert_eq!(kept, before.and(wanted));
        assert_eq!((of_thread, inheritable), ([kept.0; 2], 0));
        assert_eq!(effective().unwrap(), before, "other threads keep theirs");
    }

    #[test]
    fn each_has_its_own_name_and_number() {
        let names: BTreeSet<_> = Capability::ALL.iter().map(|capability| capability.name()).collect();
        let all: CapabilitySet = Capability::ALL.into_iter().collect();
        assert_eq!((names.len(), all.0.count_ones()), (Capability::ALL.len(), Capability::ALL.len() as u32));
        assert!(Capability::ALL.is_sorted() && !all.is_empty() && CapabilitySet::default().is_empty());
    }
}
