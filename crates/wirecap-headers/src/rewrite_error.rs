//! Why a packet with rewritten headers is not sent on.

/// Why a packet is not sent on. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RewriteError {
    /// Its TTL is at its end.
    #[error("its TTL is at its end; a router would drop it")]
    Expired,
    /// A VLAN tag does not fit in front of it.
    #[error("no room for a VLAN tag in front of it; give the packet memory more head room")]
    NoRoom,
}
