//! The engines that are compared.

use wirecap_core::GeometryError;

use crate::{outcome::Outcome, traffic::Traffic};

pub mod balancer;
pub mod copy;
pub mod ring;
pub mod wirecap;

/// An engine with its sizes.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    /// PF_RING.
    Copy(copy::CopyEngine),
    /// DNA and NETMAP.
    Ring(ring::RingEngine),
    /// WireCAP.
    Wirecap(wirecap::WirecapEngine),
    /// DPDK.
    Balancer(balancer::BalancerEngine),
}

impl Engine {
    /// Runs it.
    ///
    /// # Errors
    /// M or R is not possible.
    pub fn run(&self, traffic: &Traffic) -> Result<Outcome, GeometryError> {
        Ok(match self {
            Engine::Copy(engine) => engine.run(traffic),
            Engine::Ring(engine) => engine.run(traffic),
            Engine::Wirecap(engine) => engine.run(traffic)?,
            Engine::Balancer(engine) => engine.run(traffic),
        })
    }
}
