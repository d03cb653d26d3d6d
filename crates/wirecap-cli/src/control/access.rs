//! Who may ask a capture, and who may change it.
//!
//! | who | may ask | may change |
//! |---|---|---|
//! | root, and the user of the capture | yes | yes |
//! | members of the group of the socket | yes, as the socket has mode 0660 | yes |
//! | others | only if the socket was opened to them (chmod o+rw) | no |
//!
//! Rule: the kernel identifies the peer (SO_PEERCRED), and the mode of the socket decides who may connect.
//! What clients claim about themselves does not count.

use wirecap_sys::peer::Peer;

/// To whom a socket belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketOwner {
    /// The effective user of the capture.
    pub(super) uid: u32,
    /// The group that the socket is open to, if it was given to one.
    pub(super) gid: Option<u32>,
}

impl SocketOwner {
    /// Whether a peer may change the capture.
    pub(super) fn may_change(self, peer: &Peer) -> bool {
        peer.uid == 0 || peer.uid == self.uid || self.gid.is_some_and(|gid| peer.groups.contains(&gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_the_own_user_and_the_group_may_change_a_capture_and_others_may_not() {
        let owner = SocketOwner { uid: 100, gid: Some(7) };
        let may = |owner: SocketOwner, uid, groups: &[u32]| {
            owner.may_change(&Peer { pid: 1, uid, groups: groups.to_vec() })
        };
        assert!(may(owner, 0, &[0]) && may(owner, 100, &[5]) && may(owner, 101, &[5, 7]));
        assert!(!may(owner, 101, &[5, 0, 100]));
        // The user's own group does not count: on some systems it is the group of all users.
        assert!(!may(SocketOwner { gid: None, ..owner }, 101, &[7]));
    }
}
