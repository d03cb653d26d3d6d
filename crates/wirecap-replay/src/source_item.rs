//! What a source has for the thread that sends.

/// A frame in cells of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextFrame {
    /// Time since the start.
    pub(crate) due_ns: u64,
    /// The first of its cells.
    pub(crate) cell: u32,
    pub(crate) len: u32,
    pub(crate) lane: u16,
}

/// What a source has next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceItem {
    Frame(NextFrame),
    /// Nothing yet.
    Wait(WaitReason),
    End,
}

/// What a source waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Cells that are with the kernel.
    Cells,
    /// Frames that are not read yet.
    File,
}
