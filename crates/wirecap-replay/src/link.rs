//! Watches the link while it is sent to.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use wirecap_sys::{
    netdev::{self, Interface, LinkChanges, LinkFault},
    xsk::PollSet,
};

use crate::{Control, Error};

/// How long is waited for news at once: whoever wakes up takes the core from the sender if both have the same.
const LONG: Duration = Duration::from_secs(60);

/// Whether an interface can send now.
///
/// # Errors
/// [`Error::Link`].
pub(crate) fn check(interface: &Interface) -> Result<(), Error> {
    match interface.fault() {
        None => Ok(()),
        Some(fault) => Err(Error::Link { interface: interface.name.clone(), fault }),
    }
}

/// News of the links, as long as somebody sends.
#[derive(Debug)]
pub(crate) struct Watch {
    changes: LinkChanges,
    /// The news, and the end of sending.
    readable: PollSet,
    end: UnixStream,
}

impl Watch {
    /// From now on, in the calling thread's network namespace, until what it is returned with is dropped.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn begin() -> io::Result<(Self, OwnedFd)> {
        let changes = netdev::changes().map_err(io::Error::other)?;
        let (end, sending) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let readable =
            PollSet::new(vec![changes.as_fd().try_clone_to_owned()?, end.as_fd().try_clone_to_owned()?]);
        Ok((Self { changes, readable, end }, sending.into()))
    }

    /// Tells `control` of the first thing that goes wrong, until nobody sends any more.
    pub(crate) fn run(mut self, interface: &Interface, control: &Control) {
        loop {
            self.readable.wait(LONG);
            // An error of reading is no news of the link.
            while let Ok(Some(event)) = self.changes.next_event() {
                if let Some(fault) = LinkFault::told_by(&event, interface.ifindex) {
                    control.fail(fault);
                }
            }
            if matches!(io::Read::read(&mut self.end, &mut [0]), Ok(0)) {
                return;
            }
        }
    }
}
