//! Ports: where packets come from.
//!
//! ```text
//!   PortSpec ── look_up ──► PreparedPort ── open ──► OpenPort ──► queues: ReceiveQueue, driven by the engine
//!   the enum of kinds        contract.rs             open_port.rs └► backend: PortBackend, looked after, closed, reported
//! ```
//!
//! | port | packets come from | folder |
//! |---|---|---|
//! | `xdp` | an interface, over AF_XDP, or packed by its XDP program | `xdp/` |
//! | | some of its receive queues, shared with other processes | `xdp/shared/` |
//! | `packet` | an interface, over AF_PACKET: passive, the host keeps them | `packet/` |
//! | `tap` | an interface, packed by programs of traffic control: passive as well | `tap/` |
//! | `trace` | a trace file, or a pipe | [`trace`] |
//! | `null` | nowhere: memory only, to measure the engine by itself | [`null`] |
//! | `fault` | another port, with faults injected | [`fault`] |
//!
//! Rule: this file alone names the folders of the kinds, and `look_up` alone matches on them.

pub(crate) mod contract;
mod detachment;
#[cfg(test)]
pub(crate) mod example;
pub mod fault;
pub(crate) mod intake;
#[cfg(test)]
pub(crate) mod lab;
pub mod null;
pub(crate) mod open_port;
pub(crate) mod opening;
pub(crate) mod packed_queue;
mod packet;
pub(crate) mod pool_memory;
pub(crate) mod queue;
pub(crate) mod stamp_reader;
mod tap;
pub mod trace;
mod vlan_tags;
pub(crate) mod xdp;

use wirecap_sys::netdev::{self, Interface};

pub use self::packed_queue::LONGEST_HOLD;
use self::{contract::PreparedPort, fault::FaultPort, packet::PacketReasons};
use crate::{Access, Config, Error, HostUse, HostView, PortSpec, QueueSet, Sight, nic::tapping};

/// Finds out what a port is, and changes nothing. An interface among the `known` ones was looked up already.
///
/// # Errors
/// When there is no such port, or it cannot be captured with these settings.
pub(crate) fn look_up(spec: &PortSpec, config: &Config, known: &[Interface]) -> Result<PreparedPort, Error> {
    match spec {
        PortSpec::Interface { name, access, queues } => {
            let known = known.iter().find(|interface| interface.is_called(name)).cloned();
            let interface = known.map_or_else(|| netdev::interface(name), Ok)?;
            look_up_interface(interface, *access, queues.as_ref(), config)
        }
        PortSpec::Trace { path } => trace::look_up(spec.name(), path),
        PortSpec::Null(port) => Ok(null::look_up(spec.name(), port.clone())),
        #[cfg(test)]
        PortSpec::Example(port) => Ok(example::look_up(spec.name(), port.clone())),
        PortSpec::Fault { inner, faults } => {
            let wrap = |inner| FaultPort { inner, faults: *faults };
            Ok(look_up(inner, config, known)?.wrapped(wrap))
        }
    }
}

/// Decides whether an interface is taken or captured passively.
fn look_up_interface(
    interface: Interface,
    access: Access,
    queues: Option<&QueueSet>,
    config: &Config,
) -> Result<PreparedPort, Error> {
    let (reason, host_use) = match access {
        Access::Auto => {
            let choice = HostView::read()?.choose_for(&interface)?;
            (choice.left_to_host, choice.uses)
        }
        Access::Xdp => (None, uses_of(&interface)),
        Access::Packet | Access::Tap => (None, Vec::new()),
    };
    let passive = reason.is_some() || matches!(access, Access::Packet | Access::Tap);
    match queues {
        Some(queues) if passive => {
            Err(Error::PassiveQueues { name: interface.name, access, queues: queues.clone(), reason })
        }
        None if access == Access::Tap => tap::look_up(interface, reason, host_use),
        None if access == Access::Packet => {
            packet::look_up(interface, PacketReasons::default(), host_use, config)
        }
        None if passive => {
            match tap::refuses(&interface, config).or_else(|| tapping::sees_less(&interface)) {
                None => tap::look_up(interface, reason, host_use),
                not_tapped => {
                    packet::look_up(interface, PacketReasons { reason, not_tapped }, host_use, config)
                }
            }
        }
        queues => xdp::look_up(interface, queues, host_use, config),
    }
}

/// The uses of an interface that is taken in any case.
fn uses_of(interface: &Interface) -> Vec<HostUse> {
    let uses = HostView::read().and_then(|host| host.uses(interface));
    uses.unwrap_or_else(|error| vec![HostUse::Unknown { what: Sight::Addresses, reason: error.to_string() }])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wirecap_core::Geometry;
    use wirecap_sys::memory::PacketMemory;

    use super::{
        contract::{PortFacts, PortPools},
        null::NullPort,
        *,
    };
    use crate::Diagnostic;

    #[test]
    fn an_interface_that_the_caller_has_looked_up_is_not_looked_up_again() {
        let known = [Interface { name: "none0".into(), ..netdev::interface("lo").unwrap() }];
        let config = Config { workers: Some(1), ..Config::default() };
        let look_up = |known: &[Interface]| look_up(&"packet:none0".into(), &config, known);
        assert!(look_up(&[]).is_err(), "the kernel knows no such interface");
        assert_eq!(look_up(&known).unwrap().facts.name, "none0");
    }

    #[test]
    fn pools_on_another_node_than_the_nic_are_reported() {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 };
        let mut facts = look_up(&port.into(), &Config::default(), &[]).unwrap().facts;
        let geometry = Geometry::new(1, 2, 4096).unwrap();
        let memory = Arc::new(PacketMemory::allocate(4 * geometry.pool_bytes(), 4096).unwrap());
        let carve = |facts: &PortFacts, nic_id| {
            PortPools::carve(facts, nic_id, [&memory; 2].into_iter(), geometry).unwrap()
        };
        assert_eq!(carve(&facts, 0).far, None);
        facts.numa_node = Some(63);
        let carved = carve(&facts, 1);
        assert_eq!(carved.pools.len(), 2, "the node is only a preference");
        assert!(matches!(carved.far, Some(Diagnostic::FarMemory { node: 63, .. })));
    }
}
