//! A transmit queue of one worker: packets go out from the cells they lie in, or are refused for a reason.
//!
//! ```text
//!   packet ── send ──► transmit ring        no room: waits, unless no packet moved since another one waited
//! ```
//!
//! Rule: a ring that does not move delays one packet, not each.

use std::time::Duration;

use wirecap::{Drain, ForwardCounts, OwnedPacket, Refusal, Transmitter};

/// How long a packet waits for room before it is dropped: a ring that does not move for so long is stuck.
const ROOM_TIMEOUT: Duration = Duration::from_millis(20);
/// How long to wait at the end until staged packets have left.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// How often an idle worker takes back sent cells: each millisecond at first, less often while none comes
/// back.
#[derive(Debug)]
pub(crate) struct ReclaimSchedule(Duration);

impl ReclaimSchedule {
    /// The shortest time.
    pub(crate) const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(100);
    /// How long a worker waits for packets while no cell is to come back.
    const NOTHING_SENT: Duration = Duration::from_secs(1);

    /// Begins anew: packets were sent.
    pub(crate) fn restart(&mut self) {
        self.0 = Self::SHORTEST;
    }

    /// Notes a look, and whether cells came back.
    pub(crate) fn looked(&mut self, moved: bool) {
        self.0 = if moved { Self::SHORTEST } else { (self.0 * 2).min(Self::LONGEST) };
    }

    /// How long to wait for packets before the next look.
    pub(crate) fn timeout(&self, is_sending: bool) -> Duration {
        if is_sending { self.0 } else { Self::NOTHING_SENT }
    }
}

impl Default for ReclaimSchedule {
    fn default() -> Self {
        Self(Self::SHORTEST)
    }
}

/// A transmit queue of a worker.
pub(crate) struct Output {
    pub(super) transmitter: Transmitter,
    /// It took no packet, although one waited for room. Another queue of the same port may still move.
    is_stuck: bool,
}

impl Output {
    /// An output that may hold its share of each pool, as one of `sharers`.
    pub(crate) fn new(mut transmitter: Transmitter, sharers: usize) -> Self {
        transmitter.share_pools(sharers);
        Self { transmitter, is_stuck: false }
    }

    /// Sends a packet, or drops it for a reason. With `waits`, it waits for room.
    pub(crate) fn send(&mut self, packet: OwnedPacket<'_>, waits: bool) -> Result<(), Refusal> {
        let Self { transmitter, is_stuck } = self;
        let sent = match packet.forward(transmitter) {
            Err(refused) if refused.reason.is_for_room() && waits && !*is_stuck => {
                refused.wait(transmitter, ROOM_TIMEOUT)
            }
            sent => sent,
        };
        match sent {
            Ok(()) => {
                *is_stuck = false;
                Ok(())
            }
            Err(refused) => {
                let reason = refused.reason;
                *is_stuck |= reason.is_for_room() && waits;
                refused.give_up(transmitter);
                Err(reason)
            }
        }
    }

    /// Sends packets from the front as long as each is in one cell and taken: see [`Drain::forward`].
    pub(crate) fn send_run(&mut self, drain: &mut Drain<'_>, change: impl FnMut(&mut [u8])) -> ForwardCounts {
        let run = drain.forward(&mut self.transmitter, change);
        if run.packets > 0 {
            self.is_stuck = false;
        }
        run
    }

    /// Whether the kernel has packets that it has not sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.transmitter.in_flight() > 0
    }

    /// Has the kernel send staged packets, and takes back sent cells. Returns whether anything moved.
    pub(crate) fn flush(&mut self) -> bool {
        let before = self.transmitter.in_flight();
        if before == 0 {
            return false;
        }
        // Events and later refusals report faults of the link.
        let _ = self.transmitter.flush();
        self.transmitter.in_flight() != before
    }

    /// Waits a moment for staged packets to leave. Those in a ring whose link is down are not sent; the
    /// account counts them as in flight.
    pub(crate) fn finish(&mut self) {
        let _ = self.transmitter.finish(LAST_TIMEOUT);
    }
}
