//! What a capture did: modes, the account of every queue, the load of every worker; and what happened to it.
//!
//! | to read about | open |
//! |---|---|
//! | a port, a receive queue, a transmit queue | `port.rs`, `queue.rs`, `transmit.rs` |
//! | the times of packets | `timestamp.rs` |
//! | symmetric RSS | `rss.rs` |
//! | the end of a trace file | `trace.rs` |
//! | the memory | `memory.rs` |
//! | what is not as asked for | [`diagnostic`] |
//! | what happens while it runs | `event.rs` |
//! | how the host uses an interface | `host_use.rs` |
//!
//! Rule: everything here is plain data, with names and codes that are stable. The rooms above fill it in;
//! none of them is needed here.

pub mod diagnostic;
mod event;
mod host_use;
mod memory;
mod port;
mod queue;
mod queue_counts;
mod rss;
mod timestamp;
mod trace;
mod transmit;

use serde::{Serialize, Serializer};
use wirecap_core::QueueAccount;

pub use self::{
    event::{PortEvent, QueueWait},
    host_use::{HostUse, PassiveReason, Sight},
    memory::{BoundedMemory, MemoryReport, Pages},
    port::{FilterPlace, FilterReport, PortReport},
    queue::{LengthLimit, LengthLimitPolicy, QueueMode, QueueReport},
    rss::{RssReport, RssState},
    timestamp::{Clock, ClockScale, CounterRefusal, TimestampReport, Uncertainty},
    trace::TraceFailure,
    transmit::{Refusal, TransmitDrops, TransmitReport},
};
pub(crate) use self::{port::has_numbers, queue_counts::QueueCounts};

fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

fn as_text_or_null<S: Serializer>(value: &Option<impl ToString>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

/// One worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Packets it was given.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Packets it took over from buddies.
    pub offloaded_in: u64,
    /// Packets of its own queues that buddies took over.
    pub offloaded_out: u64,
    /// Core it is bound to, if any.
    pub core: Option<usize>,
}

/// Packets of one worker's receive queues that a buddy took over: [`Capture::offloads`].
///
/// [`Capture::offloads`]: crate::Capture::offloads
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offload {
    /// The worker whose queues they came in by.
    pub home: usize,
    /// The worker that got them.
    pub helper: usize,
    /// How many, since the start.
    pub packets: u64,
}

/// Everything there is to say about a capture.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Seconds since the capture was opened.
    pub seconds: f64,
    /// T as it is now, in percent: how full a worker's pools are when its buddies begin to help; `None` in
    /// basic mode.
    pub threshold_percent: Option<u8>,
    /// The ports: interfaces and trace files.
    pub ports: Vec<PortReport>,
    /// The workers.
    pub workers: Vec<WorkerReport>,
    /// The memory of the capture.
    pub memory: MemoryReport,
}

impl Report {
    /// The accounts of all queues added up.
    pub fn total(&self) -> QueueAccount {
        self.ports.iter().map(PortReport::total).sum()
    }

    /// The account of a process that stops reading while the capture may go on in another one: packets that
    /// wait count as left at the stop.
    ///
    /// ```
    /// # let port = wirecap::port::null::NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    /// # let mut capture = wirecap::Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// let account = capture.report().of_last_reading().total();
    /// assert_eq!(account.unexplained(), 0);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn of_last_reading(mut self) -> Self {
        for queue in self.ports.iter_mut().flat_map(|port| &mut port.queues) {
            queue.account.lost.left_at_stop += u64::try_from(queue.unexplained).unwrap_or(0);
            queue.unexplained = queue.unexplained.min(0);
        }
        self
    }

    /// The fullest pool, in percent.
    pub fn pool_used_percent(&self) -> f64 {
        self.fullest(|queue| queue.pool_used_percent)
    }

    /// The fullest that any pool was since the start, in percent.
    pub fn pool_peak_percent(&self) -> f64 {
        self.fullest(|queue| queue.pool_peak_percent)
    }

    fn fullest(&self, percent: fn(&QueueReport) -> f64) -> f64 {
        self.ports.iter().flat_map(|port| &port.queues).map(percent).fold(0.0, f64::max)
    }
}
