//! What happens to the ports of a running capture.

use std::sync::PoisonError;

use wirecap_sys::netdev::LinkEvent;

use super::Capture;
use crate::{
    PortEvent,
    nic::link::LinkWatch,
    port::open_port::{OpenPort, link_event},
};

impl Capture {
    /// What happened to the ports since the last call.
    pub fn events(&mut self) -> Vec<PortEvent> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let of_queues = ports.iter_mut().filter_map(|port| {
            let warning = port.link.as_mut()?.news()?;
            Some(PortEvent::Warning { port: port.report.name.clone(), warning })
        });
        let mut events: Vec<_> = of_queues.collect();
        let doubtful = ports.iter_mut().filter(|port| port.outlet.take_doubt());
        events.extend(doubtful.filter_map(OpenPort::look_at_link));
        events.extend(ports.iter_mut().flat_map(OpenPort::look_after));
        let Some(changes) = &mut self.changes else { return events };
        while let Ok(Some(event)) = changes.next_event() {
            match event {
                LinkEvent::Removed { ifindex, .. } => remove(&mut ports, ifindex, &mut events),
                LinkEvent::State { ifindex, up, carrier, mtu, .. } => {
                    let of_link = ports.iter().filter(|port| port.ifindex == Some(ifindex));
                    let event = link_event(up, carrier);
                    events.extend(of_link.map(|port| {
                        port.outlet.note(up && carrier, mtu);
                        event(port.report.name.clone())
                    }));
                }
                // The kernel dropped events: any link may have changed, any interface may be gone.
                _ => {
                    ports.iter_mut().for_each(|port| events.extend(port.look_at_link()));
                    let gone = |port: &mut OpenPort| {
                        port.ifindex.filter(|_| port.link.as_mut().is_some_and(LinkWatch::is_gone))
                    };
                    let gone: Vec<_> = ports.iter_mut().filter_map(gone).collect();
                    gone.into_iter().for_each(|ifindex| remove(&mut ports, ifindex, &mut events));
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
        ports.iter().all(|port| port.report.removed || port.is_read)
            && ports.iter().any(|port| port.report.removed)
    }

    /// The ports whose interfaces are gone, as far as [`Capture::events`] has reported.
    pub fn removed_ports(&self) -> Vec<String> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().filter(|port| port.report.removed).map(|port| port.report.name.clone()).collect()
    }
}

fn remove(ports: &mut [OpenPort], ifindex: u32, events: &mut Vec<PortEvent>) {
    for port in ports.iter_mut().filter(|port| port.ifindex == Some(ifindex) && !port.report.removed) {
        port.report.removed = true;
        port.outlet.note_gone();
        events.push(PortEvent::Removed(port.report.name.clone()));
    }
}
