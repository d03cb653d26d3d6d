//! Which rules may explain a loss.

use wirecap_core::choices;

use crate::finding::Rule;

choices! {
    /// Why packets were lost.
    pub enum LossCause {
        /// The pool was used up: workers, or what they wait for, were too slow.
        NoBuffer = "no-buffer",
        /// The kernel's ring was full: its thread was late.
        RingFull = "ring-full",
        /// Longer than a cell.
        TooLong = "too-long",
        /// The NIC or its driver had no room.
        BeforeXdp = "before-xdp",
    }
}

impl LossCause {
    /// Rules whose findings may explain it, the likeliest first.
    pub fn suspects(self) -> &'static [Rule] {
        match self {
            Self::NoBuffer => &[
                Rule::DiskSpeed,
                Rule::DiskFileSystem,
                Rule::SingleQueue,
                Rule::RssTable,
                Rule::RssKey,
                Rule::RssPorts,
                Rule::SkewedQueues,
                Rule::MemoryNode,
                Rule::StealTime,
                Rule::ClockSource,
                Rule::Governor,
            ],
            Self::RingFull => &[
                Rule::StealTime,
                Rule::QueuesBeyondCores,
                Rule::Governor,
                Rule::IdleStates,
                Rule::MemoryNode,
                Rule::ThreadedNapi,
            ],
            Self::TooLong => &[Rule::MtuBeyondCell, Rule::MtuBeyondXdp, Rule::Lro, Rule::HardwareGro],
            Self::BeforeXdp => &[
                Rule::RingSize,
                Rule::GroFlushTimeout,
                Rule::LongCoalescing,
                Rule::InterruptSharing,
                Rule::InterruptNode,
                Rule::RssTable,
                Rule::RssKey,
                Rule::RssPorts,
                Rule::SingleQueue,
                Rule::AdaptiveCoalescing,
                Rule::ThreadedNapi,
                Rule::BpfInterpreted,
                Rule::SoftirqBudget,
                Rule::StealTime,
                Rule::IdleStates,
                Rule::Governor,
                Rule::Irqbalance,
            ],
        }
    }
}
