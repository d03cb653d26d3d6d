//! Asks the engine about future packets of each queue, and pauses trace files that are ahead of the others.
//!
//! Rule: reading of a trace file pauses while much of it is held back, because its packets are safe in the
//! file. A file that the others wait for never pauses, as nothing of it is held. So what is held back of
//! files is bounded, whatever their times.

use std::sync::Arc;

use wirecap::{Horizon, Horizons};

use super::{
    merge::Merger,
    queues::{Place, Queues},
};

/// Bytes that may be held back of all trace files together before they pause.
const MAX_HELD_OF_FILES: usize = 16 << 20;

/// Asks the engine for horizons, and pauses files.
#[derive(Debug)]
pub(crate) struct Lookout {
    horizons: Horizons,
    queues: Arc<Queues>,
    files: Vec<File>,
}

/// A queue that can pause.
#[derive(Debug)]
struct File {
    queue: usize,
    on_hold: bool,
}

impl Lookout {
    pub(crate) fn new(horizons: Horizons, queues: Arc<Queues>) -> Self {
        let mut lookout = Self { horizons, queues, files: Vec::new() };
        let files = (0..lookout.queues.count()).filter(|&queue| lookout.hold(queue, false));
        lookout.files = files.map(|queue| File { queue, on_hold: false }).collect();
        lookout
    }

    /// Whether all queues can pause for any time.
    pub(crate) fn all_can_wait(&self) -> bool {
        self.files.len() == self.queues.count()
    }

    /// The horizon of a queue, if it has one now.
    pub(crate) fn horizon(&self, queue: usize) -> Option<Horizon> {
        let Place { port, queue } = self.queues.place(queue);
        self.horizons.of(port, queue)
    }

    /// Pauses files of which enough is held back, and resumes the others.
    pub(crate) fn hold_back(&mut self, merger: &Merger) {
        let share = MAX_HELD_OF_FILES / self.files.len().max(1);
        for at in 0..self.files.len() {
            let File { queue, on_hold } = self.files[at];
            let held = merger.held_of(queue);
            // Resumes only when half is written, so that it is not woken for each block.
            let enough = held > if on_hold { share / 2 } else { share };
            if enough != on_hold {
                self.hold(queue, enough);
                self.files[at].on_hold = enough;
            }
        }
    }

    fn hold(&self, queue: usize, on_hold: bool) -> bool {
        let Place { port, queue } = self.queues.place(queue);
        self.horizons.hold(port, queue, on_hold)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, fs, path::Path, time::Duration};

    use wirecap::{Capture, PortSpec, WaitOutcome, Worker, port::null::NullPort};
    use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};

    use super::{
        super::{block::Block, buffers::Buffers, records::Records},
        *,
    };

    /// Packets per trace.
    const PACKETS: usize = 1_000;

    fn trace(directory: &Path, name: &str) -> PortSpec {
        let (path, mut bytes) = (directory.join(name), Vec::new());
        pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
        for _ in 0..PACKETS {
            pcap::packet(&mut bytes, &PacketHeader::default(), 0, [[0; 60].as_slice()]);
        }
        fs::write(&path, bytes).unwrap();
        PortSpec::Trace { path }
    }

    fn lookout(capture: &Capture) -> Lookout {
        Lookout::new(capture.horizons(), Arc::new(Queues::of(&capture.report())))
    }

    /// Counts the packets that each port delivers now.
    fn delivered(worker: &mut Worker) -> [usize; 2] {
        let mut delivered = [0; 2];
        while let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(50)) {
            delivered[batch.port()] += batch.len();
        }
        delivered
    }

    #[test]
    fn a_file_with_too_much_held_back_pauses_until_half_of_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = Capture::builder().chunks_per_pool(8).workers(1);
        for name in ["a.pcap", "b.pcap"] {
            builder = builder.port(trace(directory.path(), name));
        }
        let mut capture = builder.open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let mut lookout = lookout(&capture);
        assert!(lookout.all_can_wait());

        let mut merger = Merger::new(2);
        let mut accept = |queue, first_number, time_ns| {
            let mut records = Records::of_times(&[time_ns]);
            records.reserve(0, MAX_HELD_OF_FILES / 8);
            merger.accept(Block { queue, numbers: first_number..first_number + records.packets(), records });
        };
        (0..5).for_each(|number| accept(1, number, number));
        accept(0, 0, 3);
        lookout.hold_back(&merger);
        assert_eq!(delivered(&mut worker), [PACKETS, 0]);

        let (mut out, mut buffers) = (VecDeque::new(), Buffers::new(Vec::new()));
        merger.force(MAX_HELD_OF_FILES / 2, &mut out, &mut buffers);
        lookout.hold_back(&merger);
        assert_eq!(delivered(&mut worker), [0, 0], "more than half is left");
        merger.force(0, &mut out, &mut buffers);
        lookout.hold_back(&merger);
        assert_eq!(delivered(&mut worker), [0, PACKETS]);
        assert!(capture.is_at_end());
    }

    #[test]
    fn a_port_that_is_no_file_is_not_paused() {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 10 };
        let capture = Capture::builder().port(port).chunks_per_pool(4).open().unwrap();
        let lookout = lookout(&capture);
        assert!(lookout.files.is_empty() && !lookout.all_can_wait());
    }
}
