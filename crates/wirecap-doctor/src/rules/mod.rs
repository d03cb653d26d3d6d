//! The rules.
//!
//! ```text
//!   Snapshot ─┬─ each interface ── queues, offloads, polling, xdp, interrupts ──┐
//!             └─ the machine ───── processors, memory, kernel, disk, account ───┴─► findings, the worst first
//! ```
//!
//! Rule: a rule has a finding only on evidence, and the evidence is in the finding. `tuned_tests.rs` has
//! snapshots of machines that are set up well; no rule may have a finding there.

mod account;
mod disk;
mod interrupts;
mod kernel;
mod loss;
mod memory;
mod offloads;
mod polling;
mod processors;
mod queues;
mod xdp;

#[cfg(test)]
mod tuned_tests;

use crate::{
    finding::{Evidence, Finding, Severity},
    setting::Change,
    snapshot::{Interface, Snapshot},
};

pub use loss::LossCause;

/// What the rules find, the worst first; of one severity in the order of the rules.
pub fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    for interface in &snapshot.interfaces {
        let of_interface = [
            queues::examine,
            offloads::examine,
            polling::examine,
            xdp::examine,
            interrupts::examine,
            memory::of_interface,
            account::of_interface,
        ];
        found.extend(of_interface.iter().flat_map(|examine| examine(snapshot, interface)));
    }
    let of_machine = [
        processors::examine,
        interrupts::of_machine,
        memory::examine,
        kernel::examine,
        disk::examine,
        account::examine,
    ];
    found.extend(of_machine.iter().flat_map(|examine| examine(snapshot)));
    found.sort_by_key(|finding| finding.severity);
    found
}

/// A finding about an interface.
fn of(interface: &Interface, severity: Severity, evidence: Evidence, changes: Vec<Change>) -> Finding {
    Finding { interface: Some(interface.name.clone()), severity, evidence, changes }
}

/// Whether it is one end of a veth pair: its native XDP needs as many receive queues as the other end has
/// transmit queues.
fn is_veth(interface: &Interface) -> bool {
    interface.driver.as_deref() == Some("veth")
}

/// A finding about the machine.
fn of_machine(severity: Severity, evidence: Evidence, changes: Vec<Change>) -> Finding {
    Finding { interface: None, severity, evidence, changes }
}
