//! Where an interface is, also for threads of another network namespace.

use wirecap_sys::netdev::{self, Namespace};

use crate::diagnostic::Cause;

/// An interface in its network namespace.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) ifindex: u32,
    /// `None` if it cannot be known.
    namespace: Option<Namespace>,
}

impl Place {
    /// An interface of the calling thread's network namespace.
    pub(crate) fn new(ifindex: u32) -> Self {
        Self { ifindex, namespace: Namespace::current().ok() }
    }

    /// Does `work` in the namespace of the interface, if the interface is still there.
    pub(crate) fn enter<T: Send>(
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
}
