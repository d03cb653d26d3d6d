//! Where a program is attached, also for threads of another network namespace.

use wirecap_sys::{
    bpf::{self, Link, Program, XdpMode},
    netdev::{self, Namespace},
};

use crate::{HostUse, diagnostic::Cause, nic::host_use::watch::HostWatch};

/// Where a program is attached.
#[derive(Debug)]
pub(crate) struct Site {
    pub(super) ifindex: u32,
    pub(super) mode: XdpMode,
    /// `None` if it cannot be known.
    namespace: Option<Namespace>,
}

impl Site {
    /// On an interface of the calling thread's network namespace.
    pub(super) fn new(ifindex: u32, mode: XdpMode) -> Self {
        Self { ifindex, mode, namespace: Namespace::current().ok() }
    }

    /// Does `work` in the namespace of the interface, if the interface is still there.
    pub(super) fn enter<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Cause> + Send,
    ) -> Result<Option<T>, Cause> {
        let namespace = self
            .namespace
            .as_ref()
            .ok_or_else(|| Cause::words("its network namespace is not known: /proc is missing"))?;
        let ifindex = self.ifindex;
        let inside = move || match netdev::xdp_programs(ifindex) {
            Err(netdev::Error::NoSuchIndex(_)) => Ok(None),
            _ => work().map(Some),
        };
        namespace
            .enter(inside)
            .map_err(|cause| Cause::words(format!("its network namespace cannot be entered: {cause}")))?
    }

    /// Uses that have begun of the interface, which is taken.
    pub(super) fn new_uses(&self, watch: &mut HostWatch) -> Vec<HostUse> {
        self.enter(|| Ok(watch.look(self.ifindex))).ok().flatten().unwrap_or_default()
    }

    pub(super) fn attach(&self, program: &Program) -> Result<Link, bpf::Error> {
        Link::attach_xdp(program, self.ifindex, self.mode)
    }
}
