//! Two NICs that forward to each other over one bus: Figure 14.
//!
//! ```text
//!   NIC 1 ─► ring ─► handlers ─► NIC 2        each arrow to or from a NIC is transactions on the same bus
//!   NIC 2 ─► ring ─► handlers ─► NIC 1
//! ```
//!
//! Rule: the bus is a budget. What it does not carry is lost at the NIC, evenly over the queues; the engine
//! gets the rest.

use wirecap_core::GeometryError;
use wirecap_lab::table::{grouped, mib};

use super::{findings::Findings, simulation::Simulation};
use crate::{
    CELL_BYTES,
    engines::{
        Engine,
        ring::Release,
        wirecap::{Transmit, WirecapEngine},
    },
    link_pps,
    losses::Losses,
    parameters::Parameters,
    traffic::Traffic,
};

/// Transactions for a packet that is forwarded, assumed: the frame is written, its descriptor is written
/// back, the transmit descriptor is read, the frame is read.
const PER_PACKET: f64 = 4.0;
/// Transactions for a chunk, assumed: captured, recycled, and the metadata of both.
const PER_CHUNK: f64 = 4.0;
/// Packets that are simulated for each NIC; the paper sends 1,000 million. The shares are steady from the
/// first on, since the handlers keep up with what the bus carries.
const PACKETS: f64 = 1e6;

/// The share of packets that the bus carries.
fn carried(bus_per_s: f64, offered_pps: f64, per_packet: f64) -> f64 {
    (bus_per_s / (offered_pps * per_packet)).min(1.0)
}

/// An engine of the figure, and the transactions that it makes for a packet.
fn engines(simulation: &Simulation, wire_pps: f64) -> [(String, Engine, f64); 3] {
    let Parameters { m, r, t, free_pace_pps, ring, .. } = simulation.parameters;
    let transmit = Some(Transmit { ring, wire_pps });
    let advanced =
        |r| Engine::Wirecap(WirecapEngine { transmit, ..simulation.advanced((m, r), t, free_pace_pps) });
    let per_packet = PER_PACKET + PER_CHUNK / f64::from(m);
    [
        ("DNA".into(), simulation.ring(Release::Each, free_pace_pps.min(wire_pps)), PER_PACKET),
        (format!("A-({m}, {r}, {t} %)"), advanced(r), per_packet),
        (format!("A-({m}, {}, {t} %)", 5 * r), advanced(5 * r), per_packet),
    ]
}

/// Losses with frames of this length.
///
/// # Errors
/// M or R is not possible.
pub fn losses(simulation: &Simulation, frame_bytes: u32) -> Result<Losses, GeometryError> {
    let wire_pps = link_pps(10, frame_bytes);
    let queues = simulation.parameters.queues;
    let row = |(name, engine, per_packet): (String, Engine, f64)| {
        let carried = carried(simulation.parameters.bus_per_s, 2.0 * wire_pps, per_packet);
        let lost = (1..=queues).map(|queues| {
            let rate = wire_pps * carried / queues as f64;
            let traffic = Traffic::steady(&vec![rate; queues], PACKETS / (wire_pps * carried));
            let passed = 1.0 - simulation.run(&engine, &traffic)?.total().lost_percent() / 100.0;
            Ok(100.0 * (1.0 - carried * passed))
        });
        Ok((name, lost.collect::<Result<_, GeometryError>>()?))
    };
    let rows = engines(simulation, wire_pps).into_iter().map(row).collect::<Result<_, GeometryError>>()?;
    let title = format!("Figure 14: packets lost with frames of {frame_bytes} bytes, by queues per NIC");
    Ok(Losses { title, row: "engine", columns: (1..=queues as u64).collect(), rows })
}

/// Figure 14: frames of 64 and of 100 bytes.
///
/// # Errors
/// M or R is not possible.
pub fn figure_14(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let Parameters { m, r, queues, bus_per_s, .. } = simulation.parameters;
    let mut findings = Findings::default();
    let budget = bus_per_s / PER_PACKET / 1e6;
    let memory = |r: u32| mib(2.0 * queues as f64 * f64::from(m) * f64::from(r) * f64::from(CELL_BYTES));
    findings.paragraphs.push(format!(
        "Assumed: a bus of {} million transactions/s, {PER_PACKET} for a forwarded packet and {PER_CHUNK} for a \
         chunk, so {budget:.1} million packets/s of DNA. The text only brackets it: 20.8 million packets/s of 100 \
         bytes are carried, 29.8 million of 64 bytes are not. A packet that is lost costs the bus nothing; queues \
         are even. What page tables of large pools cost is not simulated: {} MiB with R = {r}, {} MiB with R = {}.",
        grouped((bus_per_s / 1e6).round() as u64),
        memory(r),
        memory(5 * r),
        5 * r,
    ));
    for frame_bytes in [64, 100] {
        let losses = losses(simulation, frame_bytes)?;
        findings.tables.push(losses.table());
        if frame_bytes == 64 {
            findings.charts.push(losses.bars("queues", "A bar for each engine, by number of queues."));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_carries_its_budget_and_no_more() {
        assert_eq!(carried(100.0, 20.0, 4.0), 1.0);
        assert_eq!(carried(100.0, 50.0, 4.0), 0.5);
        let simulation = Simulation::new(Parameters { queues: 2, ..Parameters::default() });
        let short = losses(&simulation, 64).unwrap();
        let expected = 100.0 * (1.0 - 25e6 / (2.0 * link_pps(10, 64)));
        assert!((short.rows[0].1[0] - expected).abs() < 0.01, "{short:?} {expected}");
        // WireCAP makes more transactions.
        assert!(short.rows[1].1[0] > short.rows[0].1[0] + 0.1, "{short:?}");
        assert!(
            losses(&simulation, 100)
                .unwrap()
                .rows
                .iter()
                .all(|(_, lost)| lost.iter().all(|&lost| lost == 0.0))
        );
    }

    #[test]
    fn rates_of_the_text() {
        assert!(
            (2.0 * link_pps(10, 64) - 29.76e6).abs() < 1e4 && (2.0 * link_pps(10, 100) - 20.83e6).abs() < 1e4
        );
    }
}
