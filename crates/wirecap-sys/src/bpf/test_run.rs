//! Runs of a program on a frame, without any interface.

use std::time::Duration;

use super::{
    Program,
    attr::{Command, ProgTestRun},
    error::Error,
    syscall::{address_mut, bpf},
};

/// What a program did with a test packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// What it returned; for XDP one of `XDP_ABORTED` to `XDP_REDIRECT`.
    pub action: u32,
    /// The packet as the program left it.
    pub frame: Vec<u8>,
    /// Mean duration of one run.
    pub duration: Duration,
}

impl Program {
    /// Runs the program `repeat` times on a copy of `frame` (14 bytes at least), without any interface.
    ///
    /// Changes the program makes carry over from one run to the next. A redirect is only reported.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]; [`Error::Call`] with `EINVAL` for a frame too short or too long (about 3,500
    /// bytes without multi-buffer support), `EINTR` on a signal.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> Result<TestRun, Error> {
        // A program may grow the packet by what is free in its page.
        let mut out = vec![0; frame.len() + 4096];
        let mut attr = ProgTestRun {
            data_size_out: out.len() as u32,
            data_out: address_mut(&mut out),
            repeat,
            ..self.test_attr(frame)
        };
        // SAFETY: `frame` and `out` are live, of the lengths given, and `out` is ours alone.
        unsafe { bpf(Command::ProgTestRun, &mut attr) }.map_err(|cause| self.failed("test", cause))?;
        out.truncate(attr.data_size_out as usize);
        Ok(TestRun { action: attr.retval, frame: out, duration: Duration::from_nanos(attr.duration.into()) })
    }
}
