//! The sending side of a port, as all threads see it: whether it can send.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use wirecap_sys::netdev::longest_frame;

use crate::Refusal;

/// The link of a port. Written by the thread that follows the kernel's link events, read by every
/// transmitter.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    up: AtomicBool,
    gone: AtomicBool,
    /// The kernel refused to send as the link was down, and no event has confirmed that.
    doubtful: AtomicBool,
    /// In bytes; 0 while it is unknown.
    mtu: AtomicU32,
}

impl Outlet {
    /// Notes the state of the link; an MTU of 0 is unknown. Returns whether the link was up before.
    pub(crate) fn note(&self, up: bool, mtu: u32) -> bool {
        if mtu > 0 {
            self.mtu.store(mtu, Ordering::Relaxed);
        }
        self.up.swap(up, Ordering::Relaxed)
    }

    /// Whether the link has to be looked at: the kernel's refusal to send may be older than the last event.
    pub(crate) fn take_doubt(&self) -> bool {
        self.doubtful.load(Ordering::Relaxed) && self.doubtful.swap(false, Ordering::Relaxed)
    }

    /// The MTU of the link; 0 while it is unknown.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Why it takes no frame now, however short.
    pub(crate) fn fault(&self) -> Option<Refusal> {
        self.refuses(0)
    }

    /// The interface was deleted.
    pub(crate) fn note_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Why a frame of this length cannot be sent, if it cannot.
    #[inline]
    pub(crate) fn refuses(&self, len: usize) -> Option<Refusal> {
        if self.gone.load(Ordering::Relaxed) {
            Some(Refusal::Gone)
        } else if !self.up.load(Ordering::Relaxed) {
            Some(Refusal::LinkDown)
        } else {
            (len > longest_frame(self.mtu()) as usize).then_some(Refusal::TooLong)
        }
    }

    /// The kernel refused to send because the interface is down; its event may still be to come.
    pub(crate) fn note_down(&self) {
        self.up.store(false, Ordering::Relaxed);
        self.doubtful.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_what_its_mtu_and_one_tag_allow_while_it_is_up() {
        let outlet = Outlet::default();
        assert_eq!((outlet.refuses(60), outlet.mtu()), (Some(Refusal::LinkDown), 0));
        outlet.note(true, 1500);
        assert_eq!((outlet.refuses(1518), outlet.refuses(1519)), (None, Some(Refusal::TooLong)));
        outlet.note(true, 9000);
        assert_eq!((outlet.refuses(9018), outlet.mtu()), (None, 9000));
        // The kernel refused to send at an unknown time: the outlet sends nothing until the link is checked.
        assert!(!outlet.take_doubt());
        outlet.note_down();
        assert_eq!((outlet.refuses(60), outlet.take_doubt()), (Some(Refusal::LinkDown), true));
        assert!(!outlet.take_doubt(), "one check is enough");
        outlet.note(true, 0);
        assert_eq!((outlet.refuses(60), outlet.mtu()), (None, 9000));
        outlet.note(false, 0);
        assert_eq!(outlet.refuses(60), Some(Refusal::LinkDown));
        outlet.note(true, 64);
        assert_eq!((outlet.refuses(9000), outlet.fault()), (Some(Refusal::TooLong), None));
        outlet.note_gone();
        assert_eq!((outlet.refuses(60), outlet.fault()), (Some(Refusal::Gone), Some(Refusal::Gone)));
    }
}
