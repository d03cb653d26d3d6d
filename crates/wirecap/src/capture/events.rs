//! What happens to the ports of a running capture.

use std::sync::PoisonError;

use wirecap_sys::netdev::{self, LinkEvent, LinkStatistics};

use super::Capture;
use crate::{Diagnostic, PortEvent, port::open_port::OpenPort};

impl Capture {
    /// What happened to the ports since the last call.
    pub fn events(&mut self) -> Vec<PortEvent> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = queues_changed(&mut ports);
        let doubtful = ports.iter_mut().filter(|port| port.outlet.take_doubt());
        events.extend(doubtful.filter_map(OpenPort::look_at_link));
        events.extend(ports.iter_mut().flat_map(OpenPort::look_after));
        let Some(changes) = &mut self.changes else { return events };
        while let Ok(Some(event)) = changes.next_event() {
            match event {
                LinkEvent::Removed { ifindex, .. } => remove(&mut ports, ifindex, &mut events),
                LinkEvent::State { ifindex, up, carrier, mtu, .. } => {
                    let of_link = ports.iter().filter(|port| port.ifindex == Some(ifindex));
                    let event = if up && carrier { PortEvent::Up } else { PortEvent::Down };
                    events.extend(of_link.map(|port| {
                        port.outlet.note(up && carrier, mtu);
                        event(port.name.clone())
                    }));
                }
                // Some events are lost: that one is gone, or what it can send now.
                _ => {
                    ports.iter_mut().for_each(|port| events.extend(port.look_at_link()));
                    let indexes: Vec<_> = ports.iter().filter_map(|port| port.ifindex).collect();
                    let gone = indexes.into_iter().filter(|&ifindex| {
                        matches!(LinkStatistics::of_index(ifindex), Err(netdev::Error::NoSuchIndex(_)))
                    });
                    gone.for_each(|ifindex| remove(&mut ports, ifindex, &mut events));
                }
            }
        }
        events.dedup();
        events
    }

    /// Whether every interface is gone and every trace file is read, so that no more packets can come, as far
    /// as [`Capture::events`] has reported.
    pub fn all_ports_gone(&self) -> bool {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().all(|port| port.removed || port.is_read) && ports.iter().any(|port| port.removed)
    }

    /// The ports whose interfaces are gone, as far as [`Capture::events`] has reported.
    pub fn removed_ports(&self) -> Vec<String> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().filter(|port| port.removed).map(|port| port.name.clone()).collect()
    }
}

fn queues_changed(ports: &mut [OpenPort]) -> Vec<PortEvent> {
    let added = ports.iter_mut().filter_map(|port| {
        let link = port.link.as_mut()?;
        let removed = link.taken_away().map(|queues| Diagnostic::QueuesGone { queues });
        let added = || {
            let queues = link.added()?;
            Some(Diagnostic::QueuesNotCaptured { captured: link.captured(), queues })
        };
        let warning = removed.or_else(added)?;
        Some(PortEvent::Warning { port: port.name.clone(), warning })
    });
    added.collect()
}

fn remove(ports: &mut [OpenPort], ifindex: u32, events: &mut Vec<PortEvent>) {
    for port in ports.iter_mut().filter(|port| port.ifindex == Some(ifindex) && !port.removed) {
        port.removed = true;
        port.outlet.note_gone();
        events.push(PortEvent::Removed(port.name.clone()));
    }
}
