//! Makes calls for live frames cheap.
//!
//! A test run of more than one frame enters its program into the kernel's XDP dispatcher and takes it out at
//! the end, and waits for an RCU grace period each time: 20 to 35 ms per call, however few the frames. A
//! program that is attached somewhere is already in the dispatcher. So the program is attached where no
//! packet ever arrives: to the loopback device, which is down, of a network namespace that no other process
//! knows.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use wirecap_sys::bpf::{Link, Program, XdpMode};

use crate::error::Error;

/// Index of the loopback device, in every namespace.
const LOOPBACK: u32 = 1;

/// Keeps a program in the dispatcher. Dropping it releases the program and the private namespace.
#[derive(Debug)]
pub(crate) struct Anchor {
    /// Before `_namespace`, so that it is detached while the device exists.
    _link: Link,
    /// Keeps the namespace alive; nothing else does.
    _namespace: File,
}

impl Anchor {
    /// Attaches `program` in a new namespace; the calling thread stays in its own.
    pub(crate) fn new(program: &Program) -> Result<Self, Error> {
        let attach = || {
            let namespace = new_namespace().map_err(Error::Anchor)?;
            let link = Link::attach_xdp(program, LOOPBACK, XdpMode::Generic)?;
            Ok(Self { _link: link, _namespace: namespace })
        };
        thread::scope(|scope| {
            let attaching = thread::Builder::new().spawn_scoped(scope, attach);
            let attaching = attaching.map_err(Error::Thread)?;
            attaching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Moves the calling thread into a new namespace, and returns the file that keeps the namespace alive.
fn new_namespace() -> io::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    File::open("/proc/thread-self/ns/net")
}
