//! TCX programs: what traffic control runs on packets that come in by an interface or leave by it, attached
//! by links (Linux 6.6).
//!
//! The older filters of traffic control, BPF ones among them, are asked for by netlink:
//! [`ingress_filters`](crate::netdev::ingress_filters).

use std::os::fd::{AsFd, AsRawFd};

use wirecap_core::Direction;

use super::{
    attr::{Command, LinkCreate, ProgQuery},
    error::Error,
    link::Link,
    program::Program,
    syscall::{address_mut, bpf, bpf_fd},
};
use crate::interface_name::interface_name;

/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`.
const ATTACH_TYPE_TCX_INGRESS: u32 = 46;
const ATTACH_TYPE_TCX_EGRESS: u32 = 47;
/// `BPF_F_BEFORE` and `BPF_F_AFTER`: in front of all other programs, or behind them.
const BEFORE_ALL: u32 = 1 << 3;
const AFTER_ALL: u32 = 1 << 4;
/// Most programs that are looked at; the kernel attaches 63 at most.
const MAX_PROGRAMS: usize = 64;

/// The numbers of the TCX programs on what comes in by the interface `ifindex` of the calling thread's
/// network namespace; see [`Program::name_by_id`](super::Program::name_by_id). None before Linux 6.6.
///
/// # Errors
/// [`Error::NotPermitted`] without CAP_NET_ADMIN, [`Error::Call`].
pub fn ingress_programs(ifindex: u32) -> Result<Vec<u32>, Error> {
    Ok(programs(ifindex)?.unwrap_or_default())
}

/// Whether the kernel has TCX: Linux 6.6, unless it was built without.
///
/// # Errors
/// As [`ingress_programs`].
pub fn has_tcx(ifindex: u32) -> Result<bool, Error> {
    Ok(programs(ifindex)?.is_some())
}

/// The numbers of the TCX programs on what comes in; `None` from a kernel without TCX.
fn programs(ifindex: u32) -> Result<Option<Vec<u32>>, Error> {
    let mut ids = [0_u32; MAX_PROGRAMS];
    let mut attr = ProgQuery {
        target_ifindex: ifindex,
        attach_type: ATTACH_TYPE_TCX_INGRESS,
        prog_ids: address_mut(&mut ids),
        count: MAX_PROGRAMS as u32,
        ..ProgQuery::default()
    };
    // SAFETY: the kernel writes at most `count` numbers, as many as `ids` has, which is live and ours alone;
    // what else it answers is in `attr`, which is as long as the kernel's. The other addresses are zero,
    // where it writes nothing.
    match unsafe { bpf(Command::ProgQuery, &mut attr) } {
        Ok(_) => Ok(Some(ids.into_iter().take(attr.count as usize).collect())),
        // A kernel that does not know TCX, or was built without it.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => Ok(None),
        Err(cause) => {
            Err(Error::call(format!("ask for the TCX programs of interface number {ifindex}"), cause))
        }
    }
}

impl Link {
    /// Has `program`, a classifier, see the packets of the interface `ifindex` of the calling thread's
    /// network namespace that go in this direction: those that come in before all other programs of traffic
    /// control, those that leave after them, so that it sees what is on the wire. Linux 6.6.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Call`].
    pub fn attach_tcx(program: &Program, ifindex: u32, direction: Direction) -> Result<Self, Error> {
        let (attach_type, flags) = match direction {
            Direction::In => (ATTACH_TYPE_TCX_INGRESS, BEFORE_ALL),
            Direction::Out => (ATTACH_TYPE_TCX_EGRESS, AFTER_ALL),
        };
        let prog_fd = program.as_fd().as_raw_fd() as u32;
        let mut attr = LinkCreate { prog_fd, target_ifindex: ifindex, attach_type, flags };
        // SAFETY: there are no addresses in it, and it returns a new file descriptor. The kernel takes what
        // is missing, the program to be next to, as 0: none.
        let fd = unsafe { bpf_fd(Command::LinkCreate, &mut attr) }.map_err(|cause| {
            let interface = interface_name(ifindex).unwrap_or_else(|| format!("interface number {ifindex}"));
            Error::call(format!("attach a TCX program to {interface}"), cause)
        })?;
        Ok(Self::new(fd))
    }
}
