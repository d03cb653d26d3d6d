//! What an experiment runs engines with: the parameters, and a count of the packets.

use std::cell::Cell;

use wirecap_core::{GeometryError, Mode};

use crate::{
    engines::{
        Engine,
        balancer::BalancerEngine,
        copy::CopyEngine,
        ring::{Release, RingEngine},
        wirecap::WirecapEngine,
    },
    outcome::Outcome,
    parameters::Parameters,
    sizing::Demand,
    traffic::Traffic,
};

/// Engines run with these parameters.
#[derive(Debug)]
pub struct Simulation {
    /// The parameters.
    pub parameters: Parameters,
    packets: Cell<u64>,
}

impl Simulation {
    /// Without any packet yet.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, packets: Cell::new(0) }
    }

    /// Packets simulated so far.
    pub fn packets(&self) -> u64 {
        self.packets.get()
    }

    /// Runs an engine.
    ///
    /// # Errors
    /// M or R is not possible.
    pub fn run(&self, engine: &Engine, traffic: &Traffic) -> Result<Outcome, GeometryError> {
        let outcome = engine.run(traffic)?;
        self.packets.set(self.packets.get() + outcome.total().offered);
        Ok(outcome)
    }

    /// See [`Demand::least_chunks`].
    ///
    /// # Errors
    /// M is not possible.
    pub fn least_chunks(&self, demand: &Demand, m: u32, mode: Mode) -> Result<Option<u32>, GeometryError> {
        let mut packets = 0;
        let chunks = demand.least_chunks_counted(m, mode, &mut packets);
        self.packets.set(self.packets.get() + packets);
        chunks
    }

    /// DNA or NETMAP.
    pub fn ring(&self, release: Release, pace_pps: f64) -> Engine {
        Engine::Ring(RingEngine { ring: self.parameters.ring.into(), release, pace_pps })
    }

    /// PF_RING.
    pub fn pf_ring(&self, pace_pps: f64) -> Engine {
        let Parameters { ring, pf_ring, copy_ns, .. } = self.parameters;
        Engine::Copy(CopyEngine { ring: ring.into(), buffer: pf_ring, copy_ns, pace_pps })
    }

    /// WireCAP-B-(M, R).
    pub fn basic(&self, (m, r): (u32, u32), pace_pps: f64) -> WirecapEngine {
        WirecapEngine { ring: self.parameters.ring, ..WirecapEngine::basic(m, r, pace_pps) }
    }

    /// WireCAP-A-(M, R, T).
    pub fn advanced(&self, (m, r): (u32, u32), t: u8, pace_pps: f64) -> WirecapEngine {
        WirecapEngine { ring: self.parameters.ring, ..WirecapEngine::advanced(m, r, t, pace_pps) }
    }

    /// DPDK with a balancer, and as many buffers as the pools of WireCAP have.
    pub fn balancer(&self, queues: usize, handlers: usize) -> Engine {
        let Parameters { ring, m, r, balancer_pps, pace_pps, .. } = self.parameters;
        let buffers = queues * (m * r) as usize;
        Engine::Balancer(BalancerEngine { ring: ring as usize, buffers, handlers, balancer_pps, pace_pps })
    }
}
