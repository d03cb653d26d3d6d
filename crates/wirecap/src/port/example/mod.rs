//! The `example` port: numbered packets, made in this process. CONTRIBUTING.md quotes it step by step, and a
//! test holds it to that.

use wirecap_sys::{
    clock::StampClock,
    memory::{CellWriter, FilledCell, LivePool, Note},
};

use super::{
    contract::{OpenRequest, Port, PortFacts, PortPools, PreparedPort},
    intake::Intake,
    open_port::OpenPort,
    queue::{Look, OpenQueue, Outlook, QueueCounts, ReceiveQueue, WaitingCells},
};
use crate::{
    Config, Error,
    filter::Expressions,
    packet::{ChunkReader, Front},
    report::QueueMode,
};

/// Makes packets that bear their number, then ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExamplePort {
    pub packets: u64,
}

pub(super) fn look_up(name: String, port: ExamplePort) -> PreparedPort {
    PreparedPort::new(PortFacts::without_interface(name, vec![0]), port)
}

impl Port for ExamplePort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        match Expressions::of(config) {
            Some(_) => Err(Error::NoFilter(facts.name.clone())),
            None => Ok(()),
        }
    }

    fn open(self: Box<Self>, pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let PortFacts { name, link_type, .. } = request.facts;
        let mut port = OpenPort::new(name, QueueMode::Memory, *link_type);
        for pool in pools.pools {
            let writer = CellWriter::new(&pool).expect("a new pool");
            let reader = ChunkReader::Cells(pool.reader(), Front::Note);
            let queue = ExampleQueue { writer, made: 0, packets: self.packets };
            port.queues.push(OpenQueue { can_wait: true, ..OpenQueue::new(queue, pool, reader) });
        }
        Ok(port)
    }
}

#[derive(Debug)]
struct ExampleQueue {
    writer: CellWriter,
    made: u64,
    packets: u64,
}

impl ExampleQueue {
    fn next_packet(&mut self) -> Option<FilledCell> {
        let note = Note { original_len: 0, direction: None };
        let packet = self.writer.write(note, &self.made.to_be_bytes())?;
        self.made += 1;
        Some(packet)
    }
}

impl ReceiveQueue for ExampleQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        intake.take((0..max.min(self.backlog())).map_while(|_| self.next_packet()));
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        if let Some(pool) = pool {
            self.writer.attach(pool);
        }
    }

    fn backlog(&self) -> u32 {
        u64::from(self.writer.attached()).min(self.packets - self.made) as u32
    }

    fn look(&self) -> Look {
        let cells = self.made..self.made + u64::from(self.backlog());
        let outlook = if self.made == self.packets { Outlook::Ended } else { Outlook::OnReceipt };
        Look { waiting: Some(WaitingCells { cells, may_refuse: false }), unreceived: 0, outlook }
    }

    fn counts(&mut self) -> QueueCounts {
        QueueCounts { seen: self.made, ..QueueCounts::default() }
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, PortSpec, port::fault::Faults};

    const PACKETS: u64 = 10_000;

    /// Captures all packets, and checks their numbers and the account.
    fn capture(port: PortSpec, foreign: bool) {
        let name = port.name();
        let mut capture = Capture::builder().port(port).chunks_per_pool(4).open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let mut next: u64 = 0;
        while let Some(batch) = worker.next_batch() {
            for packet in &batch {
                assert_eq!(packet.data(), next.to_be_bytes(), "{name}");
                next += 1;
            }
        }
        assert!(capture.is_at_end(), "{name}: the port ends by itself");
        drop(worker);
        let report = capture.finish();
        let account = report.total();
        assert_eq!((next, account.seen, account.delivered), (PACKETS, PACKETS, PACKETS), "{name}");
        assert_eq!((account.unexplained(), account.lost.total()), (0, 0), "{name}");
        assert_eq!(report.ports[0].queues[0].foreign > 0, foreign, "{name}");
    }

    #[test]
    fn a_capture_of_the_example_delivers_every_packet_even_under_faults() {
        let port = PortSpec::Example(ExamplePort { packets: PACKETS });
        let faults = Faults { seed: 7, stall: 5, short_batch: 5, starve: 5, foreign_cell: 9 };
        capture(port.clone(), false);
        capture(PortSpec::Fault { inner: Box::new(port), faults }, true);
    }

    #[test]
    fn settings_that_the_example_does_not_support_are_refused() {
        let port = PortSpec::Example(ExamplePort { packets: 1 });
        let error = Capture::builder().port(port).filter("tcp").open().unwrap_err();
        assert!(matches!(error, Error::NoFilter { .. }), "{error}");
    }

    /// Each code example in CONTRIBUTING.md is compiled here, or in the other ports.
    #[test]
    fn code_in_contributing_is_compiled() {
        let sources = [
            include_str!("mod.rs"),
            include_str!("../mod.rs"),
            include_str!("../queue.rs"),
            include_str!("../../config/port_spec.rs"),
        ];
        let text = include_str!("../../../../../CONTRIBUTING.md");
        let quotes: Vec<_> =
            text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(quotes.len() >= 5, "{} quotes", quotes.len());
        for quote in quotes {
            let lines: Vec<_> = quote.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let is_in = |source: &&str| {
                let code: Vec<_> = source.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                code.windows(lines.len()).any(|window| window == lines)
            };
            assert!(sources.iter().any(is_in), "not in the example: {quote}");
        }
    }
}
