//! What can go wrong with an AF_XDP socket, and what to do about it.

use std::io;

use thiserror::Error;

/// Why an AF_XDP socket could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XskError {
    /// The process may not open AF_XDP sockets.
    #[error("opening an AF_XDP socket is not permitted: it needs CAP_NET_RAW")]
    NotPermitted,
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)")]
    NotSupported,
    /// The packet memory may not be locked in RAM: the size of the packet memory in bytes.
    #[error(
        "locking {} MiB of packet memory exceeds the memlock limit: raise it (ulimit -l unlimited, or \
         LimitMEMLOCK= in a service), or grant CAP_IPC_LOCK",
        .0 >> 20
    )]
    MemoryLockLimit(u64),
    /// The kernel has no memory for a ring.
    #[error(
        "the kernel has no memory for {step} of {entries} entries (before Linux 6.3 it must be contiguous)"
    )]
    RingMemory {
        /// Which ring.
        step: &'static str,
        /// Entries asked for.
        entries: u32,
    },
    /// A ring size is not a power of two.
    #[error("a ring of {0} entries cannot be used: it must be a power of two")]
    RingSize(u32),
    /// Another program has an AF_XDP socket on this queue, and kept it while we waited.
    #[error(
        "queue {queue_id} (ifindex {ifindex}) is taken by another AF_XDP socket; after {waited_ms} ms of \
         retries it is still busy. End that program, or use other queues"
    )]
    Busy {
        /// Interface.
        ifindex: u32,
        /// Queue.
        queue_id: u32,
        /// How long was tried, in milliseconds.
        waited_ms: u128,
    },
    /// Binding failed for another reason; the mode is not available, for instance.
    #[error("binding an AF_XDP socket to queue {queue_id} (ifindex {ifindex}) failed: {source}")]
    Bind {
        /// Interface.
        ifindex: u32,
        /// Queue.
        queue_id: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another step of the set-up failed.
    #[error("setting up an AF_XDP socket failed at {step}: {source}")]
    SetUp {
        /// Which step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl XskError {
    /// Whether the driver does not have the mode that was asked for.
    pub fn is_unsupported(&self) -> bool {
        // The kernel's own, which user space has no name for.
        const ENOTSUPP: i32 = 524;
        let XskError::Bind { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EOPNOTSUPP | ENOTSUPP))
    }
}
