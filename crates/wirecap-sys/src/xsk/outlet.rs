//! The two rings by which a socket sends, and the system call that drives them.
//!
//! ```text
//!   stage ─► tx ring ──flush──► the driver, or a copy by the kernel
//!                                          │
//!   complete ◄── completion ring ◄─────────┘
//! ```
//!
//! Rule: no more is under way than the completion ring takes. What it is that is sent, and who may touch it meanwhile, is
//! known by whoever has the outlet: [`Sender`](super::Sender) and [`TransmitQueue`](super::TransmitQueue).

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use super::{
    Socket,
    abi::RingDescriptor,
    ring::{ConsumerRing, ProducerRing},
};

/// Times that the kernel is asked for one batch at most, in copy mode, where it takes a few packets each time.
const KICKS: u32 = 4096;

#[derive(Debug)]
pub(super) struct Outlet {
    fd: OwnedFd,
    tx: ProducerRing<RingDescriptor>,
    completion: ConsumerRing<u64>,
    /// INVARIANT: entries that were staged and did not come back, no more than the completion ring takes.
    flying: u32,
    /// Entries that were written and not published.
    staged: u32,
}

impl Outlet {
    /// How many more entries could be staged.
    pub(super) fn room(&mut self) -> u32 {
        self.tx.room().min(self.completion.entries() - self.flying)
    }

    /// Whether so many more entries could be staged. Looks at the kernel's index only if it has to.
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
        self.staged += 1;
    }

    /// Has the kernel send what was staged: one publication, and a system call if the kernel wants one.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN when the interface is down, for instance. What is in the ring stays there, and is
    /// sent when it is up again.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.staged > 0 {
            self.tx.publish();
            self.staged = 0;
        }
        let mut attempts = KICKS;
        while self.tx.needs_wakeup() && !self.tx.is_drained() && attempts > 0 {
            if !self.kick()? {
                break;
            }
            attempts -= 1;
        }
        Ok(())
    }

    /// Asks the kernel once, whatever is in the ring: whether it would send.
    pub(super) fn try_kick(&self) -> io::Result<()> {
        self.kick().map(drop)
    }

    /// Asks the kernel to go on. Returns whether to ask again: in copy mode it takes a few packets each time.
    fn kick(&self) -> io::Result<bool> {
        // SAFETY: a send without a buffer reads none of our memory.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        if sent >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(true),
            // The driver's queue is full, or somebody else is sending: what is in the ring stays there.
            Some(libc::EBUSY | libc::ENOBUFS) => Ok(false),
            _ => Err(error),
        }
    }

    /// Takes back the addresses of what was sent. `take` says whether it is one that was under way. Returns how many
    /// were.
    #[inline]
    pub(super) fn complete(&mut self, mut take: impl FnMut(u64) -> bool) -> u32 {
        let mut sent = 0;
        self.completion.consume(u32::MAX, |address| sent += u32::from(take(address)));
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
    /// What the kernel said to copying the descriptor.
    pub(super) fn take_outlet(&mut self) -> io::Result<Option<Outlet>> {
        let fd = self.try_clone_fd()?;
        let Some(tx) = self.tx.take() else { return Ok(None) };
        let completion = self.completion.take().expect("both are taken together");
        Ok(Some(Outlet { fd, tx, completion, flying: 0, staged: 0 }))
    }
}
