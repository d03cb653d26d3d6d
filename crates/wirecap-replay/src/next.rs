//! What a source has for the thread that sends.

/// A frame that lies in cells of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextFrame {
    /// Since the start.
    pub(crate) due_ns: u64,
    /// The first of its cells.
    pub(crate) cell: u32,
    pub(crate) len: u32,
    pub(crate) lane: u16,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(NextFrame),
    /// Nothing yet.
    Wait(WaitReason),
    End,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Cells that the kernel has.
    Cells,
    /// What is read of the file.
    File,
}
