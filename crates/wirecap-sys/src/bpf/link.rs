//! Links: a program attached to an interface for as long as the link is held.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::attr::{Command, GetId, LinkCreate, LinkDetach, LinkInfo, LinkUpdate};
use super::error::Error;
use super::map::Map;
use super::program::{ATTACH_TYPE_XDP, Program};
use super::syscall::{bpf, bpf_fd, object_info, open_by_id};
use super::xdp_mode::XdpMode;
use crate::interface_name::interface_name;
use crate::process::{self, Process};

/// `BPF_LINK_TYPE_XDP` and `BPF_LINK_TYPE_TCX`.
const LINK_TYPE_XDP: u32 = 6;
const LINK_TYPE_TCX: u32 = 11;

/// A program attached to an interface. Dropping it, or the end of the process in whatever way, detaches the
/// program.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    /// A link that was just made.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Attaches `program` to the interface `ifindex` of the calling thread's network namespace. Linux 5.9.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is another program, [`Error::Unsupported`] if the driver has no XDP in
    /// `mode`, [`Error::NotPermitted`], and [`Error::Attach`] with a hint for all else.
    pub fn attach_xdp(program: &Program, ifindex: u32, mode: XdpMode) -> Result<Self, Error> {
        let mut attr = LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: ATTACH_TYPE_XDP,
            flags: mode as u32,
        };
        // SAFETY: there are no addresses in it, and it returns a new file descriptor.
        let fd = unsafe { bpf_fd(Command::LinkCreate, &mut attr) }
            .map_err(|cause| refused(cause, ifindex, mode))?;
        Ok(Self::new(fd))
    }

    /// The link by which an XDP or TCX program is attached, of any process: from now on the program stays
    /// attached as long as this value lives, too. `None` if no link keeps the program attached.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without CAP_SYS_ADMIN, [`Error::Call`].
    pub fn of_program(prog_id: u32) -> Result<Option<Self>, Error> {
        let is_of_program = |link: &XdpLink| link.prog_id == prog_id && link.ifindex != 0;
        let links = links_of(&[LINK_TYPE_XDP, LINK_TYPE_TCX])?;
        let Some(XdpLink { id, .. }) = links.into_iter().find(is_of_program) else {
            return Ok(None);
        };
        match open(id) {
            Ok(fd) => Ok(Some(Self { fd })),
            Err(cause) if is_gone(&cause) => Ok(None),
            Err(cause) => Err(Error::call(format!("open the BPF link with id {id}"), cause)),
        }
    }

    /// This link, such that it is closed before `map` also when the process is killed: the kernel closes what
    /// a process has left behind from its highest file descriptor down.
    ///
    /// # Errors
    /// [`Error::Call`] when the process has no file descriptor left.
    pub fn closed_before(self, map: &Map) -> Result<Self, Error> {
        let above = map.raw_fd() + 1;
        if self.fd.as_raw_fd() >= above {
            return Ok(self);
        }
        // SAFETY: fcntl() with F_DUPFD_CLOEXEC takes no pointers.
        let fd = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above) };
        if fd < 0 {
            return Err(Error::call("copy the file descriptor of a BPF link", io::Error::last_os_error()));
        }
        // SAFETY: `fd` was just made and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The kernel's number of this link.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn id(&self) -> Result<u32, Error> {
        self.info().map(|info| info.id)
    }

    /// The interface the program is attached to; `None` once it was detached or the interface is gone.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn ifindex(&self) -> Result<Option<u32>, Error> {
        self.info().map(|info| Some(info.xdp_ifindex).filter(|&ifindex| ifindex != 0))
    }

    /// The number of the program that this link keeps attached; `None` once it was detached or the interface
    /// is gone.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn attached_program(&self) -> Result<Option<u32>, Error> {
        self.info().map(|info| Some(info.prog_id).filter(|_| info.xdp_ifindex != 0))
    }

    /// Has the link keep `program` attached instead of the one it has.
    ///
    /// # Errors
    /// [`Error::Call`]: once it was detached there is no way back.
    pub fn update(&self, program: &Program) -> Result<(), Error> {
        let mut attr = LinkUpdate {
            link_fd: self.fd.as_raw_fd() as u32,
            new_prog_fd: program.as_fd().as_raw_fd() as u32,
            ..LinkUpdate::default()
        };
        // SAFETY: there are no addresses in it.
        unsafe { bpf(Command::LinkUpdate, &mut attr) }
            .map(drop)
            .map_err(|cause| Error::call("put another program into a BPF link", cause))
    }

    /// Detaches now, also when other processes hold the same link, and says if that failed.
    ///
    /// # Errors
    /// [`Error::Call`]. The link is closed in any case.
    pub fn detach(self) -> Result<(), Error> {
        let mut attr = LinkDetach { link_fd: self.fd.as_raw_fd() as u32, pad: 0 };
        // SAFETY: there are no addresses in it.
        unsafe { bpf(Command::LinkDetach, &mut attr) }
            .map(drop)
            .map_err(|cause| Error::call("detach a program from its interface", cause))
    }

    fn info(&self) -> Result<LinkInfo, Error> {
        link_info(self.fd.as_fd()).map_err(|cause| Error::call("ask about a BPF link", cause))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An XDP link of this machine, of any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpLink {
    /// Number of the link.
    pub id: u32,
    /// Number of its program; see [`Program::name_by_id`].
    pub prog_id: u32,
    /// Index of its interface, in *that interface's* network namespace: equal numbers in two namespaces are
    /// two interfaces, and the kernel does not say which namespace it is. 0 if it was detached.
    pub ifindex: u32,
}

/// All XDP links of the machine. Programs attached the old way, by netlink (`ip link set … xdp`), have none.
///
/// # Errors
/// [`Error::NotPermitted`] without CAP_SYS_ADMIN, [`Error::Call`].
pub fn links() -> Result<Vec<XdpLink>, Error> {
    links_of(&[LINK_TYPE_XDP])
}

/// The links of these types, of which the kernel tells the interface in the same way.
fn links_of(types: &[u32]) -> Result<Vec<XdpLink>, Error> {
    let failed = |cause| Error::call("list the BPF links of this machine", cause);
    let mut found = Vec::new();
    let mut attr = GetId::default();
    loop {
        // SAFETY: there are no addresses in it.
        match unsafe { bpf(Command::LinkGetNextId, &mut attr) } {
            Ok(_) => attr.id = attr.next_id,
            Err(cause) if cause.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(cause) => return Err(failed(cause)),
        }
        match info_by_id(attr.id) {
            Ok(info) if types.contains(&info.link_type) => {
                found.push(XdpLink { id: info.id, prog_id: info.prog_id, ifindex: info.xdp_ifindex });
            }
            Ok(_) => {}
            // It went away since we learned of it; one that is being torn down answers EAGAIN.
            Err(cause) if is_gone(&cause) => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
}

/// Whether this is the answer for a link that is gone, or just going.
fn is_gone(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN))
}

/// The processes that hold link `link_id`, by reading `/proc/*/fdinfo`; those we may not look into are left
/// out.
///
/// Costs a read of every open file's information on the machine: for messages, not for loops. A pinned link
/// has no holder.
pub fn link_holders(link_id: u32) -> Vec<Process> {
    holders("link_id:", &[link_id]).remove(&link_id).unwrap_or_default()
}

/// For each of these numbers the processes with a file whose fdinfo has this `field` with it, if there are
/// any.
pub(super) fn holders(field: &str, numbers: &[u32]) -> BTreeMap<u32, Vec<Process>> {
    process::holders(numbers, |pid| held(pid, field))
}

/// The numbers that the open files of a process have in this field.
fn held(pid: u32, field: &str) -> BTreeSet<u32> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let infos = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    infos.filter_map(|info| value(&info, field)).collect()
}

/// The number that a field of a file's fdinfo has (`link_id:\t7`).
fn value(fdinfo: &str, field: &str) -> Option<u32> {
    fdinfo.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}

/// The error for the kernel's refusal to attach.
fn refused(cause: io::Error, ifindex: u32, mode: XdpMode) -> Error {
    let (interface, exists) = match interface_name(ifindex) {
        Some(name) => (name, true),
        None => (format!("interface number {ifindex}"), false),
    };
    let hint = match cause.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => return Error::Busy { interface, holder: holder(ifindex) },
        Some(libc::EOPNOTSUPP) => return Error::Unsupported { interface, mode, cause },
        Some(libc::EPERM | libc::EACCES) => {
            return Error::call(format!("attach an XDP program to {interface} in {mode} mode"), cause);
        }
        // Kernels answer EINVAL for an unknown index, too.
        _ if !exists => "there is no such interface in this network namespace; see `ip link`",
        Some(libc::ERANGE | libc::E2BIG) => {
            "its MTU, or its veth peer's, is too large for a packet in one buffer; lower the MTU or load the program \
             with multi-buffer (frags) support"
        }
        Some(libc::ENOSPC) => {
            "it has fewer receive queues than its veth peer has transmit queues; make them equal with `ethtool -L`"
        }
        Some(libc::EINVAL) => {
            "its MTU or offloads may not allow it (try a lower MTU, or LRO off with `ethtool -K`), or this kernel has no \
             XDP links (Linux 5.9 and newer do)"
        }
        Some(libc::ENOMEM) => "the driver found no memory for its rings; shorten them with `ethtool -G`",
        _ => {
            "the driver gives its reason to the tracepoint xdp:bpf_xdp_link_attach_failed (Linux 6.6), or in `dmesg`"
        }
    };
    Error::Attach { interface, mode, cause, hint }
}

/// Who seems to hold XDP on `ifindex`, as ` (…)`, or nothing. Indices repeat over namespaces, hence "seems".
fn holder(ifindex: u32) -> String {
    let candidates: Vec<String> = links()
        .unwrap_or_default()
        .into_iter()
        .filter(|link| link.ifindex == ifindex)
        .map(|link| {
            let program = Program::name_by_id(link.prog_id).unwrap_or_default();
            let processes: Vec<String> = link_holders(link.id).iter().map(Process::to_string).collect();
            format!("program {program}, id {}, of {}", link.prog_id, or_pinned(&processes))
        })
        .collect();
    if candidates.is_empty() { String::new() } else { format!(" (it seems: {})", candidates.join("; or ")) }
}

fn or_pinned(processes: &[String]) -> String {
    if processes.is_empty() { "no process, a pinned link".into() } else { processes.join(", ") }
}

fn open(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the command goes from a number to a descriptor.
    unsafe { open_by_id(Command::LinkGetFdById, id) }
}

fn info_by_id(id: u32) -> io::Result<LinkInfo> {
    link_info(open(id)?.as_fd())
}

fn link_info(fd: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    // SAFETY: there are no addresses or lengths of strings in it.
    unsafe { object_info(fd, LinkInfo::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdinfo_names_its_link() {
        let info = "pos:\t0\nflags:\t02\nlink_type:\txdp\nlink_id:\t17\nprog_id:\t4\nifindex:\t2\n";
        assert_eq!((value(info, "link_id:"), value(info, "prog_id:")), (Some(17), Some(4)));
        assert_eq!((value("pos:\t0\n", "link_id:"), value("link_id:\tx\n", "link_id:")), (None, None));
    }

    #[test]
    fn refusals_name_the_interface_and_a_remedy() {
        let refuse = |errno| refused(io::Error::from_raw_os_error(errno), 1, XdpMode::Native);
        assert!(matches!(refuse(libc::EBUSY), Error::Busy { .. }));
        assert!(matches!(refuse(libc::EEXIST), Error::Busy { .. }));
        assert!(matches!(refuse(libc::EOPNOTSUPP), Error::Unsupported { .. }));
        assert!(matches!(refuse(libc::EPERM), Error::NotPermitted { .. }));
        let nowhere =
            refused(io::Error::from_raw_os_error(libc::EINVAL), 999_999, XdpMode::Native).to_string();
        assert!(nowhere.contains("number 999999") && nowhere.contains("ip link"), "{nowhere}");
        let text = refuse(libc::EBUSY).to_string();
        assert!(text.contains("lo") && text.contains("bpftool net"), "{text}");
    }
}
