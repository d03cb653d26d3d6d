//! The mapping under packet memories: which pages it is on, brought in before the first packet.
//!
//! ```text
//!   Mapping   ┌─ part 0 ─┬─ part 1 ─┬─ … ─┐     each part is a PacketMemory, and becomes a UMEM by itself
//!             0          each begins at a page
//! ```
//!
//! Rule: no packet waits for a page fault, and no page of packets goes into a core dump; into a child process
//! only if the capture is to be read there.

use std::{io, ops::Range, path::PathBuf, ptr};

use wirecap_core::choices;

use super::{MemoryError, Need, available_memory};
use crate::mmap::Mmap;

pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

choices! {
    /// Which pages hold the packet memory.
    pub enum Pages = Normal {
        /// Pages of 2 MiB that were reserved beforehand (`vm.nr_hugepages`).
        Huge = "huge",
        /// Pages of the usual size; the kernel was asked to use huge ones where it can.
        Normal = "normal",
    }
}

/// What processes that are forked have of the packet memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Children {
    /// Nothing.
    #[default]
    Without,
    /// All of it, shared with their parent.
    With,
}

/// How the packet memory differs from what was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryFallback {
    /// Huge pages are reserved, and too few of them are free.
    HugePagesShort {
        /// How many are needed.
        needed: u64,
        /// How many are reserved (`vm.nr_hugepages`).
        reserved: u64,
        /// How many of these are free.
        free: u64,
    },
    /// Whether this control group limits memory cannot be seen: the files of control groups are not mounted
    /// here.
    ControlGroupUnseen(PathBuf),
    /// The kernel does not take advice about it.
    AdviceRefused {
        /// The advice.
        advice: Advice,
        /// What madvise(2) failed with.
        errno: i32,
    },
}

choices! {
    /// Advice for the kernel about the packet memory.
    pub enum Advice {
        /// Use huge pages where they are available.
        HugePages = "huge_pages",
        /// Keep it out of child processes.
        NotInChildren = "not_in_children",
        /// Keep it out of core dumps.
        NotInCoreDumps = "not_in_core_dumps",
    }
}

impl Advice {
    /// As madvise(2) has it.
    fn number(self) -> libc::c_int {
        match self {
            Self::HugePages => libc::MADV_HUGEPAGE,
            Self::NotInChildren => libc::MADV_DONTFORK,
            Self::NotInCoreDumps => libc::MADV_DONTDUMP,
        }
    }
}

/// Anonymous memory.
#[derive(Debug)]
pub(super) struct Mapping {
    memory: Mmap,
    pub(super) pages: Pages,
    pub(super) fallbacks: Vec<MemoryFallback>,
}

impl Mapping {
    /// Maps `len` bytes, a multiple of a page: on reserved huge pages if enough are free, else on normal
    /// ones. Touches no page. `beside` is other memory that the caller will need.
    pub(super) fn new(len: usize, children: Children, beside: Need) -> Result<Self, MemoryError> {
        let failed = |source| MemoryError::Map { needed: len as u64, source };
        let map = |len, flags| match children {
            Children::Without => Mmap::anonymous(len, flags),
            Children::With => Mmap::inherited(len, flags),
        };
        let over = |memory, pages, fallbacks| Self::over(memory, children, pages, fallbacks);
        // Which has no huge pages, and is slow to read what the machine has.
        if cfg!(miri) {
            return Ok(over(map(len, 0).map_err(failed)?, Pages::Normal, Vec::new()));
        }
        let huge_len = len.next_multiple_of(HUGE_PAGE_BYTES);
        let huge = libc::MAP_HUGETLB | (21 << libc::MAP_HUGE_SHIFT);
        if let Ok(memory) = map(huge_len, huge) {
            let mapping = over(memory, Pages::Huge, Vec::new());
            // Reserved pages are not among those that are available.
            available_memory::check(beside)?;
            return Ok(mapping);
        }
        available_memory::check(Need { process: beside.process + len as u64, ..beside })?;
        let memory = map(len, 0).map_err(failed)?;
        let needed = huge_len / HUGE_PAGE_BYTES;
        let short =
            reserved_pages().and_then(|(reserved, free)| too_few_reserved(needed as u64, reserved, free));
        let mut fallbacks = Vec::from_iter(short);
        fallbacks.extend(available_memory::unseen_group().map(MemoryFallback::ControlGroupUnseen));
        fallbacks.extend(follow(Advice::HugePages, &memory));
        Ok(over(memory, Pages::Normal, fallbacks))
    }

    fn over(memory: Mmap, children: Children, pages: Pages, mut fallbacks: Vec<MemoryFallback>) -> Self {
        if children == Children::Without {
            // Pinned pages of private memory would be copied for a child.
            fallbacks.extend(follow(Advice::NotInChildren, &memory));
        }
        fallbacks.extend(follow(Advice::NotInCoreDumps, &memory));
        Self { memory, pages, fallbacks }
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Where byte `offset` lies.
    ///
    /// # Panics
    /// When the mapping ends before it.
    pub(super) fn at(&self, offset: usize) -> ptr::NonNull<u8> {
        assert!(offset < self.len(), "byte {offset} of {}", self.len());
        // SAFETY: within the mapping, by the assertion.
        unsafe { self.memory.start().add(offset) }
    }

    /// Brings in the pages of a range of the part that begins at `start`, as long as `goes_on`.
    ///
    /// It goes page by page: while the kernel is at it, it lets no other thread map anything, end, or let the
    /// process end, and on a busy machine gigabytes take many seconds.
    pub(super) fn populate(
        &self,
        start: ptr::NonNull<u8>,
        range: Range<usize>,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let first = start.addr().get() - self.memory.start().addr().get();
        let (begin, end) = (first + range.start, self.len().min(first + range.end));
        (begin..end).step_by(HUGE_PAGE_BYTES).try_for_each(|offset| {
            if !goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            advise(self.at(offset), HUGE_PAGE_BYTES.min(end - offset), libc::MADV_POPULATE_WRITE)
        })
    }
}

/// Huge pages of 2 MiB that are reserved, and those of them that are free.
fn reserved_pages() -> Option<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some((read("nr_hugepages")?, read("free_hugepages")?))
}

/// Why reserved huge pages are not used. `None` if none are reserved.
pub(super) fn too_few_reserved(needed: u64, reserved: u64, free: u64) -> Option<MemoryFallback> {
    (reserved > 0).then_some(MemoryFallback::HugePagesShort { needed, reserved, free })
}

/// Gives the kernel an advice about a mapping of ours that it may refuse.
fn follow(advice: Advice, memory: &Mmap) -> Option<MemoryFallback> {
    let refused = advise(memory.start(), memory.len(), advice.number()).err()?;
    Some(MemoryFallback::AdviceRefused { advice, errno: refused.raw_os_error().unwrap_or(libc::EINVAL) })
}

/// Gives advice about a mapping of ours.
fn advise(start: ptr::NonNull<u8>, len: usize, advice: libc::c_int) -> io::Result<()> {
    if cfg!(miri) {
        return Ok(());
    }
    // SAFETY: called for mappings made just now, with advice that changes no contents.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), len, advice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
