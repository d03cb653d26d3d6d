//! The `fault` port: another port with faults injected, for tests of what must hold nevertheless.

use wirecap_sys::{clock::StampClock, memory::LivePool};

pub use crate::config::Faults;

use super::{
    contract::{OpenRequest, Port, PortFacts, PortPools},
    intake::Intake,
    open_port::OpenPort,
    queue::{Look, OpenQueue, QueueCounts, ReceiveQueue},
};
use crate::{Config, Error};

/// A port whose queues suffer faults.
#[derive(Debug)]
pub(super) struct FaultPort {
    pub(super) inner: Box<dyn Port>,
    pub(super) faults: Faults,
}

impl Port for FaultPort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        self.inner.check(facts, config)
    }

    fn open(self: Box<Self>, pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let Self { inner, faults } = *self;
        let mut open = inner.open(pools, request)?;
        let with_faults = |queue: OpenQueue| {
            let seed = faults.seed ^ u64::from(queue.pool.id().ring_id);
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            OpenQueue { queue: Box::new(FaultQueue { inner: queue.queue, faults, random }), ..queue }
        };
        open.queues = open.queues.into_iter().map(with_faults).collect();
        Ok(open)
    }
}

#[derive(Debug)]
struct FaultQueue {
    inner: Box<dyn ReceiveQueue>,
    faults: Faults,
    random: u64,
}

impl FaultQueue {
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

impl ReceiveQueue for FaultQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        if self.strikes(self.faults.stall) {
            return;
        }
        if max > 0 && self.strikes(self.faults.foreign_cell) {
            intake.take_nowhere();
        }
        let max = if self.strikes(self.faults.short_batch) { max.min(1) } else { max };
        self.inner.receive(max, intake);
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        // Giving no more cells at the end is no fault.
        if pool.is_none() || !self.strikes(self.faults.starve) {
            self.inner.attach(pool);
        }
    }

    fn backlog(&self) -> u32 {
        self.inner.backlog()
    }

    fn look(&self) -> Look {
        self.inner.look()
    }

    fn counts(&mut self) -> QueueCounts {
        self.inner.counts()
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.inner.stamp_clock()
    }
}
