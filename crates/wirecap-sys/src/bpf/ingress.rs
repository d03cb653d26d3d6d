//! TCX programs: what traffic control runs on packets that come in by an interface, attached by links (Linux
//! 6.6).
//!
//! The older filters of traffic control, BPF ones among them, are asked for by netlink:
//! [`ingress_filters`](crate::netdev::ingress_filters).

use super::attr::{Command, ProgQuery};
use super::error::Error;
use super::syscall::{address_mut, bpf};

/// `BPF_TCX_INGRESS`.
const ATTACH_TYPE_TCX_INGRESS: u32 = 46;
/// Most programs that are looked at; the kernel attaches 63 at most.
const MAX_PROGRAMS: usize = 64;

/// The numbers of the TCX programs on what comes in by the interface `ifindex` of the calling thread's
/// network namespace; see [`Program::name_by_id`](super::Program::name_by_id). None before Linux 6.6.
///
/// # Errors
/// [`Error::NotPermitted`] without CAP_NET_ADMIN, [`Error::Call`].
pub fn ingress_programs(ifindex: u32) -> Result<Vec<u32>, Error> {
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
        Ok(_) => Ok(ids.into_iter().take(attr.count as usize).collect()),
        // A kernel that does not know TCX, or was built without it.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => Ok(Vec::new()),
        Err(cause) => {
            Err(Error::call(format!("ask for the TCX programs of interface number {ifindex}"), cause))
        }
    }
}
