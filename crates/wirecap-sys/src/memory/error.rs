//! What can go wrong with packet memory.

use std::io;

use thiserror::Error;

use super::memory_bound::MemoryBound;

/// Why there is no packet memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Refused before trying, since the kernel would end a process to make room.
    #[error("packet memory of {} MiB does not fit: {}", needed.div_ceil(1 << 20), room(*available, *rest, bound))]
    TooLarge {
        /// Bytes asked for, with what the kernel needs besides.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// Bytes that are left to the rest of the process, which are not among those.
        rest: u64,
        /// What bounds that.
        bound: MemoryBound,
    },
    /// The kernel refused the mapping.
    #[error(
        "mapping {} MiB of packet memory failed: {source}{}",
        needed >> 20,
        if self.is_lack() { "; raise the limit (ulimit -v, or that of the container)" } else { "" }
    )]
    Map {
        /// Bytes asked for.
        needed: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// The pools do not fit in what was allocated.
    #[error("the packet memory has no room for one more pool of {0} bytes")]
    Exhausted(u64),
    /// The cells are of another size than the memory was made for.
    #[error("a pool with cells of {given} bytes does not fit a packet memory of cells of {memory} bytes")]
    CellBytes {
        /// That of the pool.
        given: u32,
        /// That of the memory.
        memory: u32,
    },
}

/// How much there is, and the limit that bounds it.
fn room(available: u64, rest: u64, bound: &MemoryBound) -> String {
    let (available, rest) = (available >> 20, rest >> 20);
    match bound {
        MemoryBound::Machine => {
            format!("{available} MiB of memory are available")
        }
        MemoryBound::Group { directory, setting, limit } => format!(
            "{available} MiB are left of the {} MiB that the control group {} may have ({setting}), beside {rest} MiB for the rest \
             of the process; raise that limit",
            limit >> 20,
            directory.display()
        ),
    }
}

impl MemoryError {
    /// Whether there may be enough in a moment: memory of a process that has ended counts against its control
    /// group until the kernel has freed it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::TooLarge { needed, rest, bound: MemoryBound::Group { limit, .. }, .. } => {
                needed.saturating_add(*rest) <= *limit
            }
            _ => false,
        }
    }

    /// Whether the kernel refused a mapping for lack of memory, or at a limit.
    pub fn is_lack(&self) -> bool {
        // EFAULT is what populating answers where a control group's limit is reached.
        let lacks = |source: &io::Error| {
            matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EFAULT | libc::EAGAIN))
        };
        matches!(self, Self::Map { source, .. } if lacks(source))
    }
}
