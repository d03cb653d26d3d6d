//! The `fault` port: another port with trouble injected, for tests of what must hold all the same.

use wirecap_sys::{clock::StampClock, memory::LivePool, wake::Waker};

pub use crate::config::Faults;

use super::{Intake, Outlook, QueueCounts, ReceiveQueue, Waiting};

#[derive(Debug)]
pub(crate) struct FaultQueue<Q> {
    inner: Q,
    faults: Faults,
    random: u64,
    /// Foreign cells reported so far, which the inner port has not seen.
    pub(crate) foreign: u64,
}

impl<Q> FaultQueue<Q> {
    /// What is in trouble.
    pub(crate) fn inner(&self) -> &Q {
        &self.inner
    }

    /// The same, to be changed.
    pub(crate) fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }

    pub(crate) fn new(inner: Q, faults: Faults, queue: u16) -> Self {
        let random = (faults.seed ^ u64::from(queue)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { inner, faults, random, foreign: 0 }
    }

    /// True once in `one_in` calls on average (xorshift; never for 0).
    fn strikes(&mut self, one_in: u32) -> bool {
        if one_in == 0 {
            return false;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % u64::from(one_in) == 0
    }
}

impl<Q: ReceiveQueue> ReceiveQueue for FaultQueue<Q> {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        if self.strikes(self.faults.stall) {
            return;
        }
        if max > 0 && self.strikes(self.faults.foreign_cell) {
            self.foreign += 1;
            intake.take_nowhere();
        }
        let max = if self.strikes(self.faults.short_batch) { max.min(1) } else { max };
        self.inner.receive(max, intake);
    }

    fn attach(&mut self, pool: &mut LivePool) {
        if !self.strikes(self.faults.starve) {
            self.inner.attach(pool);
        }
    }

    fn tidy(&mut self, gives: bool) {
        self.inner.tidy(gives);
    }

    fn backlog(&self) -> u32 {
        self.inner.backlog()
    }

    fn unreceived(&self) -> u32 {
        self.inner.unreceived()
    }

    fn waiting(&self) -> Option<Waiting> {
        self.inner.waiting()
    }

    fn counts(&mut self) -> QueueCounts {
        self.inner.counts()
    }

    fn waker(&self) -> Option<Waker> {
        self.inner.waker()
    }

    fn outlook(&self, now_ns: u64) -> Outlook {
        self.inner.outlook(now_ns)
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.inner.stamp_clock()
    }

    fn can_wait(&self) -> bool {
        self.inner.can_wait()
    }

    fn is_at_end(&self) -> bool {
        self.inner.is_at_end()
    }
}
