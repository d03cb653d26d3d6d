//! A client that is connected: its buffers, and how long it may stall.

use std::{
    io::{ErrorKind, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nix::poll::PollFlags;

use super::endpoint::{Dialogue, Step, Stream};

/// The longest request, in bytes.
pub(super) const MAX_REQUEST: usize = 8 << 10;
/// How long a client may take to send a request, or the rest of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may read nothing of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const PIECE: usize = 4 << 10;

/// A client.
pub(super) struct Client {
    stream: Stream,
    dialogue: Box<dyn Dialogue>,
    /// Bytes received and not yet parsed as a request.
    input: Vec<u8>,
    /// Bytes that the client has not taken.
    output: Vec<u8>,
    step: Step,
    /// When it last sent or took something.
    active: Instant,
    /// The client has closed its sending side.
    has_ended: bool,
    /// Whether input remains after a request: it may contain another one.
    has_more: bool,
    /// Whether it has sent a complete request.
    pub(super) has_asked: bool,
}

impl Client {
    pub(super) fn new(stream: Stream, dialogue: Box<dyn Dialogue>, now: Instant) -> Self {
        Self {
            stream,
            dialogue,
            input: Vec::new(),
            output: Vec::new(),
            step: Step::Listen,
            active: now,
            has_ended: false,
            has_more: false,
            has_asked: false,
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::POLLIN, !self.has_ended && self.input.len() < MAX_REQUEST);
        interest.set(PollFlags::POLLOUT, !self.output.is_empty());
        interest
    }

    /// When to serve it even without an event.
    pub(super) fn deadline(&self) -> Instant {
        match (self.output.is_empty(), self.step) {
            (false, Step::Wait(at)) => at.min(self.active + ANSWER_TIMEOUT),
            (false, _) => self.active + ANSWER_TIMEOUT,
            (true, Step::Wait(at)) => at,
            (true, _) => self.active + REQUEST_TIMEOUT,
        }
    }

    /// Since when it has sent and taken nothing.
    pub(super) fn active(&self) -> Instant {
        self.active
    }

    /// Whether all output is sent, and no answer is pending.
    pub(super) fn is_done(&self) -> bool {
        self.output.is_empty() && !matches!(self.step, Step::Wait(_))
    }

    /// Reads, answers and writes as much as is possible now. `woken`: the capture may have an answer. Returns
    /// whether the client stays.
    pub(super) fn serve(&mut self, ready: PollFlags, woken: bool, now: Instant) -> bool {
        let is_gone = ready.contains(PollFlags::POLLHUP) && !ready.contains(PollFlags::POLLIN);
        if is_gone || ready.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return false;
        }
        if ready.contains(PollFlags::POLLIN) && !self.read(now) {
            return false;
        }
        self.answer(woken, now);
        if !self.output.is_empty() && !self.write(now) {
            return false;
        }
        let is_over = match self.step {
            Step::Wait(_) => false,
            Step::Listen => self.has_ended,
            Step::Close => true,
        };
        let is_over = is_over && self.output.is_empty();
        !is_over && !self.has_stalled(now)
    }

    fn has_stalled(&self, now: Instant) -> bool {
        let silence = now.saturating_duration_since(self.active);
        match (self.output.is_empty(), self.step) {
            (false, _) => silence >= ANSWER_TIMEOUT,
            (true, Step::Wait(_)) => false,
            (true, _) => silence >= REQUEST_TIMEOUT,
        }
    }

    fn read(&mut self, now: Instant) -> bool {
        let mut piece = [0; PIECE];
        let room = PIECE.min(MAX_REQUEST - self.input.len());
        match self.stream.read(&mut piece[..room]) {
            Ok(0) => self.has_ended = true,
            Ok(len) => {
                // Requests count from their first byte: a client that sends one slowly is not active.
                if self.input.is_empty() {
                    self.active = now;
                }
                self.input.extend_from_slice(&piece[..len]);
            }
            Err(error) if is_for_now(error.kind()) => {}
            Err(_) => return false,
        }
        true
    }

    /// Takes a request, or proceeds with the last one.
    fn answer(&mut self, woken: bool, now: Instant) {
        if let Step::Wait(at) = self.step {
            if !woken && now < at {
                return;
            }
            self.step = self.dialogue.proceed(&mut self.output);
        }
        // One at a time, so that no client monopolises the thread; the next one follows in the next round.
        let before = self.input.len();
        if !self.output.is_empty() {
            // A client that does not read its answers gets no more of them.
            self.has_more |= before > 0;
        } else if self.step == Step::Listen && before > 0 {
            self.step = self.dialogue.receive(&mut self.input, &mut self.output);
            let has_asked = self.input.len() < before || self.step != Step::Listen;
            self.has_asked |= has_asked;
            self.has_more = has_asked && !self.input.is_empty();
            if has_asked {
                self.active = now;
            } else if before >= MAX_REQUEST {
                self.dialogue.refuse_length(&mut self.output);
                self.step = Step::Close;
            }
        }
    }

    /// Whether input waits that may have another request.
    pub(super) fn may_continue(&self) -> bool {
        self.step == Step::Listen && self.has_more && self.output.is_empty()
    }

    fn write(&mut self, now: Instant) -> bool {
        match self.stream.write(&self.output) {
            Ok(0) => return false,
            Ok(written) => {
                self.output.drain(..written);
                self.active = now;
            }
            Err(error) if is_for_now(error.kind()) => {}
            Err(_) => return false,
        }
        true
    }
}

fn is_for_now(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
