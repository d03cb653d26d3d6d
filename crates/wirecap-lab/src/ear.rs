//! An ear: the frames that come into a namespace, one after the other.
//!
//! ```text
//!   Earshot:  end(), which sends ════ veth ════ ear
//! ```

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::{
    socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt},
    time::TimeVal,
};

use crate::{Error, Interface, Namespace, VethOptions, VethPair};

/// Room for frames that wait to be heard, in bytes, with what the kernel keeps beside them.
const BUFFER_BYTES: usize = 64 << 20;
/// How long the next frame is waited for.
const PATIENCE: TimeVal = TimeVal::new(10, 0);
/// Longer than any frame, put together from segments or not.
const LONGEST: usize = 70_000;

/// Hears every frame of a namespace, on all of its interfaces, from when it is made on.
#[derive(Debug)]
pub struct Ear(OwnedFd);

impl Ear {
    /// Listens in a namespace.
    ///
    /// # Errors
    /// [`Error::Setting`] without root.
    pub fn new(namespace: &Namespace) -> Result<Self, Error> {
        let open = || {
            let ear =
                socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
            setsockopt(&ear, sockopt::RcvBufForce, &BUFFER_BYTES)?;
            setsockopt(&ear, sockopt::ReceiveTimeout, &PATIENCE)?;
            nix::Result::Ok(ear)
        };
        let failed = |errno: nix::errno::Errno| Error::Setting {
            action: format!("listen in namespace {}", namespace.name()),
            cause: errno.into(),
        };
        namespace.enter(open).map(Self).map_err(failed)
    }

    /// The next frame, from its Ethernet header on, without FCS.
    ///
    /// # Panics
    /// If none comes for ten seconds.
    pub fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; LONGEST];
        let len =
            recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()).expect("a frame within ten seconds");
        bytes.truncate(len);
        bytes
    }
}

/// A wire with an ear at its far end.
#[derive(Debug)]
pub struct Earshot {
    wire: VethPair,
    ear: Ear,
}

impl Earshot {
    /// Makes a wire between two namespaces of its own. The near end is `l0`.
    ///
    /// # Errors
    /// As [`Namespace::new`], [`VethPair::new`] and [`Ear::new`].
    pub fn new(label: &str, options: VethOptions) -> Result<Self, Error> {
        let left = Namespace::new(&format!("{label}_l"))?;
        let right = Namespace::new(&format!("{label}_r"))?;
        let wire = VethPair::new(&left, "l0", &right, "r0", options)?;
        Ok(Self { wire, ear: Ear::new(&right)? })
    }

    /// The near end, to send from.
    pub fn end(&self) -> &Interface {
        self.wire.a()
    }

    /// Does something in the near end's namespace, as [`Namespace::enter`].
    ///
    /// # Panics
    /// As that.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.end().namespace().enter(work)
    }

    /// The next frame at the far end, as [`Ear::hear`].
    ///
    /// # Panics
    /// As that.
    pub fn hear(&self) -> Vec<u8> {
        self.ear.hear()
    }
}
