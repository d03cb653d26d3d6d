//! A system call of a list, and conditions on its arguments.

/// A system call, and the arguments with which it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    /// One of these; any arguments if it is empty.
    pub(crate) only: Vec<Argument>,
}

/// A condition on one argument, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    /// It has this value, as an integer of 32 bits.
    Is(u8, u32),
    /// It is a null pointer.
    IsNull(u8),
    /// Of its lower 32 bits, all of these are clear.
    Lacks(u8, u32),
}

/// Calls with any arguments.
pub(super) fn any(numbers: &[libc::c_long]) -> impl Iterator<Item = Call> + '_ {
    numbers.iter().map(|&number| Call { number, only: Vec::new() })
}

/// A call with one of these arguments.
pub(super) fn only(number: libc::c_long, only: impl Into<Vec<Argument>>) -> Call {
    Call { number, only: only.into() }
}

/// What a kind of thread may do.
#[derive(Debug)]
pub(crate) struct Calls {
    /// These succeed or fail as ever.
    pub(crate) allowed: Vec<Call>,
    /// These fail with EACCES and are not reported: their callers only probe, or have blocked the signal by
    /// which the call would be reported.
    pub(crate) denied: Vec<Call>,
}
