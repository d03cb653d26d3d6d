//! The two rings by which a socket sends, and the system call that drives them.
//!
//! ```text
//!   stage ─► tx ring ──flush──► the driver, or a copy by the kernel
//!                                          │
//!   complete ◄── completion ring ◄─────────┘
//! ```
//!
//! Rule: no more is under way than the completion ring takes. What is sent, and who may touch it while it is
//! under way, is known by the owner of the outlet: [`Sender`](super::Sender) and
//! [`TransmitQueue`](super::TransmitQueue).

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::Arc,
};

use super::{
    BindMode, Socket,
    abi::RingDescriptor,
    ring::{ConsumerRing, ProducerRing},
};

/// After this number of calls that moved nothing, the kernel is not asked again: the driver's queue is full,
/// or the socket's share of memory is used up until something has been sent.
const VAIN_KICKS: u32 = 2;

#[derive(Debug)]
pub(super) struct Outlet {
    fd: Arc<OwnedFd>,
    tx: ProducerRing<RingDescriptor>,
    completion: ConsumerRing<u64>,
    /// INVARIANT: entries that were staged and did not come back, no more than the completion ring takes.
    flying: u32,
    /// Whether the kernel copies each packet.
    copies: bool,
    /// Packets that the kernel has taken and the driver has dropped.
    dropped: u64,
    /// System calls by which the kernel was asked to send.
    kicks: u64,
}

/// What became of asking the kernel to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KickOutcome {
    /// It did, as far as it wants to with one call.
    Went,
    /// One packet was dropped by the driver; those behind it wait.
    Dropped,
    /// It cannot now.
    Busy,
}

impl Outlet {
    /// How many entries can be under way at the same time.
    pub(super) fn capacity(&self) -> u32 {
        self.tx.entries().min(self.completion.entries())
    }

    /// How many more entries could be staged.
    pub(super) fn room(&mut self) -> u32 {
        self.tx.room().min(self.completion.entries() - self.flying)
    }

    /// Whether this number of entries could be staged. Loads the kernel's index only if it has to.
    #[inline]
    pub(super) fn has_room(&mut self, entries: u32) -> bool {
        entries <= self.completion.entries() - self.flying && self.tx.has_room(entries)
    }

    /// Writes an entry that the kernel sees with the next [`Outlet::flush`]. There has to be room.
    #[inline]
    pub(super) fn stage(&mut self, descriptor: RingDescriptor) {
        let staged = self.tx.stage(descriptor);
        debug_assert!(staged, "there was room");
        self.flying += 1;
    }

    /// Has the kernel send what was staged: one publication, and a system call if the kernel wants one; in
    /// copy mode on older kernels one for every 32 packets. Never waits for room in the driver: what is left
    /// in the ring goes with a later flush.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN when the interface is down, for instance. What is in the ring stays
    /// there, and is sent when it is up again.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.tx.publish();
        let (mut taken, mut vain) = (self.tx.taken(), 0);
        // Each drop takes a packet out of the ring, though the kernel may report it late.
        let mut drops = self.tx.entries();
        while vain < VAIN_KICKS && drops > 0 && self.tx.needs_wakeup() && !self.tx.is_drained() {
            self.kicks += 1;
            match self.kick()? {
                KickOutcome::Went => {}
                KickOutcome::Dropped => {
                    self.dropped += 1;
                    drops -= 1;
                    continue;
                }
                KickOutcome::Busy => break,
            }
            let now = self.tx.taken();
            vain = if now == taken { vain + 1 } else { 0 };
            taken = now;
        }
        Ok(())
    }

    /// Asks the kernel once, whatever is in the ring: whether it would send.
    pub(super) fn try_kick(&self) -> io::Result<()> {
        self.kick().map(drop)
    }

    /// Asks the kernel to go on.
    fn kick(&self) -> io::Result<KickOutcome> {
        // SAFETY: a send without a buffer reads none of our memory.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        if sent >= 0 {
            return Ok(KickOutcome::Went);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // It has sent as many as it does with one call, or the driver's queue is full.
            Some(libc::EAGAIN) => Ok(KickOutcome::Went),
            // In copy mode the driver has dropped a packet, as veth does when the other end takes no more: it
            // is completed and not sent (`NET_XMIT_DROP` in __xsk_generic_xmit()). In zero-copy the driver is
            // being set up anew.
            Some(libc::EBUSY) if self.copies => Ok(KickOutcome::Dropped),
            Some(libc::EBUSY | libc::ENOBUFS) => Ok(KickOutcome::Busy),
            _ => Err(error),
        }
    }

    /// Packets that the kernel has taken and the driver has dropped, as far as it reports them: in copy mode.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// System calls of [`Outlet::flush`].
    pub(super) fn kicks(&self) -> u64 {
        self.kicks
    }

    /// Takes back the addresses of what was sent. `take` says whether it is one that was under way. Returns
    /// how many were.
    #[inline]
    pub(super) fn complete(&mut self, mut take: impl FnMut(u64) -> bool) -> u32 {
        let mut sent = 0;
        self.completion.drain(u32::MAX).for_each(|address| sent += u32::from(take(address)));
        self.flying -= sent;
        sent
    }

    /// Entries that did not come back yet.
    pub(super) fn flying(&self) -> u32 {
        self.flying
    }
}

impl Socket {
    /// Takes the sending half out of a socket that has a transmit ring; once.
    ///
    /// # Errors
    /// The kernel's error when it is asked for the mode.
    pub(super) fn take_outlet(&mut self) -> io::Result<Option<Outlet>> {
        let fd = Arc::clone(&self.fd);
        let Some(tx) = self.tx.take() else { return Ok(None) };
        let completion = self.completion.take().expect("both are taken together");
        let copies = self.mode()? == BindMode::Copy;
        Ok(Some(Outlet { fd, tx, completion, flying: 0, copies, dropped: 0, kicks: 0 }))
    }
}
