//! Watches the link while it is sent to.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::Arc,
    thread,
    time::Duration,
};

use wirecap_sys::{
    netdev::{self, Interface, LinkChanges, LinkFault},
    xsk::PollSet,
};

use crate::{Control, Error};

/// How long is waited for news at once: whoever wakes up takes the core from the sender if both have the
/// same.
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

/// A link that is watched. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Watched {
    _sending: UnixStream,
}

/// News of a link, as long as it is [`Watched`].
#[derive(Debug)]
pub(crate) struct Watch {
    ifindex: u32,
    changes: LinkChanges,
    /// The news, and the end of sending.
    readable: PollSet,
    end: UnixStream,
}

impl Watch {
    /// From now on, in the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn begin(interface: &Interface) -> io::Result<(Self, Watched)> {
        let changes = netdev::changes().map_err(io::Error::other)?;
        let (end, sending) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let readable =
            PollSet::new(vec![changes.as_fd().try_clone_to_owned()?, end.as_fd().try_clone_to_owned()?]);
        Ok((Self { ifindex: interface.ifindex, changes, readable, end }, Watched { _sending: sending }))
    }

    /// Tells `control` of the first thing that goes wrong, by a thread of its own.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub(crate) fn start(self, control: &Arc<Control>) -> Result<(), Error> {
        let control = Arc::clone(control);
        let started = thread::Builder::new().name("wirecap-link".into()).spawn(move || self.run(&control));
        started.map(drop).map_err(|cause| Error::Thread { what: "watches the link", cause })
    }

    fn run(mut self, control: &Control) {
        loop {
            self.readable.wait(LONG);
            // An error of reading is no news of the link.
            while let Ok(Some(event)) = self.changes.next_event() {
                if let Some(fault) = LinkFault::told_by(&event, self.ifindex) {
                    control.fail(fault);
                }
            }
            if matches!(io::Read::read(&mut self.end, &mut [0]), Ok(0)) {
                return;
            }
        }
    }
}
