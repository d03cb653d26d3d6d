//! An ear: receives the frames that arrive in a namespace, one after the other.
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

/// Buffer for frames not yet read, in bytes, with the kernel's overhead.
const BUFFER_BYTES: usize = 64 << 20;
/// How long to wait for the next frame.
const TIMEOUT: TimeVal = TimeVal::new(10, 0);
/// Longer than any frame, even one reassembled from segments.
const MAX_FRAME_LEN: usize = 70_000;

/// Receives every frame of a namespace, on all of its interfaces, from its creation on.
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
            setsockopt(&ear, sockopt::ReceiveTimeout, &TIMEOUT)?;
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
    /// If none arrives for ten seconds.
    pub fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; MAX_FRAME_LEN];
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
    /// Makes two namespaces and a wire between them. The near end is `l0`.
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

    /// Runs `work` in the near end's namespace, as [`Namespace::enter`].
    ///
    /// # Panics
    /// As [`Namespace::enter`].
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.end().namespace().enter(work)
    }

    /// The next frame at the far end, as [`Ear::hear`].
    ///
    /// # Panics
    /// As [`Ear::hear`].
    pub fn hear(&self) -> Vec<u8> {
        self.ear.hear()
    }
}
