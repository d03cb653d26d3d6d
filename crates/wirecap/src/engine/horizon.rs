//! Lower bounds on the times of future packets, for callers that merge queues by time.
//!
//! ```text
//!   queue 0   ── 3 ── 7 ── 9 ─►                        9 may be given on only when it is certain
//!   queue 1   ── 5 ──────────────── (nothing waits)    that nothing before 9 comes from queue 1
//!                       horizon { number: 1, time: 12 } ─┘
//! ```
//!
//! Rule: a horizon is computed under the queue's lock, so no batch is taken at the same time. A merger asks
//! when a queue holds it up, not for each packet.

use std::sync::Weak;

use super::{
    EngineState,
    queue::{Queue, QueueOwner},
};
use crate::port::queue::Outlook;

/// A promise about one receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The packets that the promise is about: from this number on ([`crate::Packet::number`]). Those before
    /// it were handed over; a worker may have them still.
    pub number: u64,
    /// Their times are later than this, in nanoseconds since 1970 (UTC). `u64::MAX`: no packet will come. 0:
    /// nothing is known, see [`Horizon::is_pause`].
    pub time_ns: u64,
}

impl Horizon {
    /// Whether nothing waits and nothing is known of later packets: a pipe without data for 0.1 s. No clock
    /// says when such a pipe goes on, so a merger should not wait for it, but ask again the next time.
    pub fn is_pause(&self) -> bool {
        self.time_ns == 0
    }
}

/// Gives the [`Horizon`] of each receive queue while the capture runs. Made by [`Capture::horizons`]; any
/// thread may use it. Holds only weak references.
///
/// [`Capture::horizons`]: crate::Capture::horizons
#[derive(Debug, Clone)]
pub struct Horizons {
    pub(crate) shared: Weak<EngineState>,
}

impl Horizons {
    /// The horizon of a receive queue of a port. `None` while packets wait that have their times already, if
    /// there is no such queue, and once the capture is gone. After a stop, the horizon is the end only once
    /// nothing waits. Costs a lock and a clock reading: ask when nothing comes, a thousand times a second at
    /// most.
    ///
    /// Times of batches keep to the promise. No promise holds when the system clock is set back: times go
    /// back with it, and [`TimestampReport::set_back_ns`](crate::TimestampReport::set_back_ns) says by how
    /// much. Nor does one when it is set forward, or the machine was suspended, for packets whose times a
    /// program wrote before the next look at the clock. Packets that are stamped one by one take some time to
    /// reach the ring, so their horizon lies that far in the past, and holds for packets that take no longer:
    /// 10 ms with stamps of the kernel, 110 ms with those of the NIC, whose clock may be off; 50 ms on
    /// passive ports.
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let horizons = capture.horizons();
    /// let batch = worker.next_batch().expect("ten packets");
    /// let last = batch.packets().last().expect("a batch is not empty");
    /// let horizon = horizons.of(0, 0).expect("nothing waits");
    /// assert_eq!(horizon.number, last.number() + 1);
    /// assert!(horizon.time_ns > last.timestamp_ns());
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn of(&self, port: usize, queue: u16) -> Option<Horizon> {
        let shared = self.shared.upgrade()?;
        // Read before the ring, so that packets on their way into it at the stop are there.
        let stopped = shared.stopping.is_stopping();
        find(&shared, port, queue)?.lock().horizon(stopped)
    }

    /// Makes a trace file wait: with `on_hold` the port reads no more until a call without it, or until the
    /// capture stops. For mergers that hold enough packets of a file whose times are later. Returns whether
    /// the port can wait; interfaces and pipes cannot and go on.
    ///
    /// Batches that were read before still come: up to as many as the pool has chunks.
    pub fn hold(&self, port: usize, queue: u16, on_hold: bool) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let can_wait = find(&shared, port, queue).is_some_and(|queue| queue.lock().hold(on_hold));
        if can_wait && !on_hold {
            shared.sleepers.wake_all();
        }
        can_wait
    }
}

impl QueueOwner {
    /// The horizon of the packets that are not handed over yet; `None` while some have their times already.
    /// With `stopped`, no packet is on its way into the ring, but some may wait in it.
    fn horizon(&mut self, stopped: bool) -> Option<Horizon> {
        if self.pool.filled_cells() > 0 || self.pool.has_begun() {
            return None;
        }
        let now_ns = self.clock.now_ns();
        let time_ns = match self.source.look().outlook {
            Outlook::Open => return None,
            Outlook::Ended => u64::MAX,
            _ if stopped && self.source.backlog() == 0 => u64::MAX,
            Outlook::Pause => 0,
            Outlook::NotOlderThan(age_ns) => now_ns.saturating_sub(age_ns),
            Outlook::OnReceipt => self.arrivals.promise(now_ns),
        };
        Some(Horizon { number: self.pool.captured_packets(), time_ns })
    }
}

fn find(shared: &EngineState, port: usize, queue: u16) -> Option<&Queue> {
    let mut queues = shared.queues[shared.ports.get(port)?.clone()].iter();
    queues.find(|candidate| candidate.ring_id == queue)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wirecap_file::{LINK_TYPE_ETHERNET, pcap};

    use crate::{
        Capture, Horizon, PortSpec,
        port::{fault::Faults, null::NullPort},
    };

    /// A trace file can be held, so the same file with faults injected can be held, too.
    #[test]
    fn a_trace_file_waits_with_faults_as_without() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut bytes) = (directory.path().join("trace.pcap"), Vec::new());
        pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
        fs::write(&path, bytes).unwrap();
        let trace = PortSpec::Trace { path };
        let faulty = PortSpec::Fault { inner: Box::new(trace.clone()), faults: Faults::default() };
        for port in [trace, faulty] {
            let name = port.name();
            let capture = Capture::builder().port(port).chunks_per_pool(4).open().unwrap();
            assert!(capture.horizons().hold(0, 0, true), "{name}");
        }
    }

    #[test]
    fn after_a_stop_the_end_is_not_promised_before_the_ring_is_empty() {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 20 };
        let builder = Capture::builder().port(port).cells_per_chunk(16).chunks_per_pool(4).workers(1);
        let mut capture = builder.open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let horizons = capture.horizons();
        let first = worker.next_batch().unwrap();
        capture.stopper().stop();
        let horizon = horizons.of(0, 0).unwrap();
        assert_eq!((first.len(), horizon.number), (16, 16));
        assert!(horizon.time_ns < u64::MAX, "4 packets wait in the ring");
        let last = worker.next_batch().unwrap();
        assert!(last.packets().all(|packet| packet.timestamp_ns() > horizon.time_ns));
        assert_eq!(horizons.of(0, 0).unwrap(), Horizon { number: 20, time_ns: u64::MAX });
    }

    #[test]
    fn times_of_a_queue_keep_every_promise_and_the_end_is_promised_only_after_a_stop() {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 20 };
        let builder = Capture::builder().port(port).cells_per_chunk(16).chunks_per_pool(4).workers(1);
        let mut capture = builder.open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let horizons = capture.horizons();
        assert_eq!(
            horizons.of(0, 0).unwrap().number,
            0,
            "the port in memory makes no packet before a worker asks"
        );
        let mut later = [0, 0];
        let mut given = [0, 0];
        while let crate::WaitOutcome::Batch(batch) = worker.next_batch_within(std::time::Duration::ZERO) {
            let queue = usize::from(batch.queue());
            given[queue] += batch.len() as u64;
            let horizon =
                horizons.of(0, batch.queue()).expect("waiting packets get their time when they are received");
            assert_eq!(horizon.number, given[queue]);
            assert!(
                batch.packets().all(|packet| packet.timestamp_ns() > later[queue]),
                "the promise was kept"
            );
            later[queue] = horizon.time_ns;
        }
        assert!(given == [20, 20] && later.iter().all(|&time_ns| time_ns < u64::MAX));
        assert_eq!((horizons.of(0, 2), horizons.of(1, 0)), (None, None), "there are no such queues");
        assert!(!horizons.hold(0, 0, true) && !horizons.hold(1, 0, true), "only a file can be held");

        capture.stopper().stop();
        let horizon = horizons.of(0, 1).unwrap();
        assert_eq!((horizon.number, horizon.time_ns), (20, u64::MAX));
        drop((worker, capture));
        // Batches of the worker may still be on their way to the merging thread.
        assert_eq!(horizons.of(0, 1), None, "the capture is gone");
    }
}
