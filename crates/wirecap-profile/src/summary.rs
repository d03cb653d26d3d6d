//! The figures of a profile.

use serde::Serialize;

use crate::{
    imbalance::{factor, gini},
    measures::{Excess, Largest, Measures},
    settings::BinSettings,
    timeline::{Jumps, Outliers, Timeline},
};

/// A number of packets, and when it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// Packets.
    pub packets: u64,
    /// Packets of all queues in the same bin or window.
    pub of_all: u64,
    /// When the bin or the window begins, in seconds since the profile does.
    pub seconds: f64,
    /// How many times the mean of the queue it is.
    pub to_mean: f64,
}

/// The packets of a queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueSummary {
    /// All of its packets.
    pub packets: u64,
    /// Packets among them whose times are more than a second before those of the others, or whose bin was
    /// closed before they came; they are in no bin.
    pub late: u64,
    /// Packets among them whose times are more than a second after those of the others; they are in no bin.
    pub ahead: u64,
    /// Its share of the packets of all queues, 0 to 1.
    pub share: f64,
    /// Packets of a bin, on average.
    pub mean_per_bin: f64,
    /// Its largest bin; null without packets in closed bins.
    pub peak: Option<Peak>,
    /// Its fullest window; null without packets in closed bins.
    pub burst: Option<Peak>,
    /// The packets of each queue in that window; empty without one.
    #[serde(skip)]
    pub beside_burst: Vec<u64>,
}

/// The window in which a queue had the most packets above an even share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstWindow {
    /// The position of the queue.
    pub queue: usize,
    /// Its packets.
    pub packets: u64,
    /// What an even share of the packets in the window would be.
    pub even_share: f64,
    /// When the window begins, in seconds since the profile does.
    pub seconds: f64,
}

/// The figures of a profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The width of a bin, in nanoseconds.
    pub bin_ns: u64,
    /// The width of a window, in nanoseconds.
    pub window_ns: u64,
    /// When the first bin begins, in nanoseconds since 1970; null without packets in closed bins.
    pub first_ns: Option<u64>,
    /// From the first bin with packets to the last one, in seconds, without jumps.
    pub seconds: f64,
    /// Packets of all queues.
    pub packets: u64,
    /// Packets among them whose bins are still open, so that no figure over time has them; none after the
    /// end.
    #[serde(skip)]
    pub in_open_bins: u64,
    /// The largest share of a queue in the whole time, as a multiple of an even share: 1 to the number of
    /// queues; 0 without packets.
    pub long_term_factor: f64,
    /// The Gini coefficient of the packets of the queues in the whole time.
    pub long_term_gini: f64,
    /// The largest share of a queue in a window, as a multiple of an even share, as the average packet finds
    /// it.
    pub short_term_factor: f64,
    /// The Gini coefficient in a window, as the average packet finds it.
    pub short_term_gini: f64,
    /// The window in which a queue had the most packets above an even share; null if all were even.
    pub worst_window: Option<WorstWindow>,
    /// Jumps of the times of packets, over which the profile goes on as if no time had passed.
    pub jumps: Jumps,
    /// The queues.
    #[serde(skip)]
    pub queues: Vec<QueueSummary>,
}

impl Summary {
    /// Whether any bin is closed: without one, there are no figures over time.
    pub fn has_closed_bins(&self) -> bool {
        self.first_ns.is_some()
    }

    pub(crate) fn new(
        settings: BinSettings,
        packets: &[u64],
        timeline: &Timeline,
        measures: &Measures,
    ) -> Self {
        let BinSettings { bin_ns, window_bins } = settings;
        let span_bins = measures.bins() as f64;
        let bin_s = bin_ns as f64 / 1e9;
        let peak = |largest: &Largest, mean: f64| {
            (largest.packets > 0).then(|| Peak {
                packets: largest.packets,
                of_all: largest.by_queue.iter().sum(),
                seconds: largest.begin as f64 * bin_s,
                to_mean: largest.packets as f64 / mean,
            })
        };
        let total: u64 = packets.iter().sum();
        let queue = |(number, &all): (usize, &u64)| {
            let Outliers { late, ahead } = timeline.outliers(number);
            let in_bins = all - late - ahead - timeline.open_packets(number);
            let mean = in_bins as f64 / f64::max(span_bins, 1.0);
            let window = mean * f64::min(window_bins as f64, span_bins.max(1.0));
            QueueSummary {
                packets: all,
                late,
                ahead,
                share: all as f64 / total.max(1) as f64,
                mean_per_bin: mean,
                peak: peak(&measures.peaks[number], mean),
                burst: peak(&measures.bursts[number], window),
                beside_burst: measures.bursts[number].by_queue.clone(),
            }
        };
        let worst = |Excess { queue, packets, total, begin }| WorstWindow {
            queue,
            packets,
            even_share: total as f64 / measures.peaks.len() as f64,
            seconds: begin as f64 * bin_s,
        };
        Self {
            bin_ns,
            window_ns: bin_ns.saturating_mul(window_bins),
            first_ns: measures.first_bin().map(|first| first * bin_ns),
            seconds: span_bins * bin_s,
            packets: total,
            in_open_bins: (0..packets.len()).map(|queue| timeline.open_packets(queue)).sum(),
            long_term_factor: factor(packets),
            long_term_gini: gini(packets),
            short_term_factor: measures.mean_factor(),
            short_term_gini: measures.mean_gini(),
            worst_window: measures.worst.map(worst),
            jumps: timeline.jumps().clone(),
            queues: packets.iter().enumerate().map(queue).collect(),
        }
    }
}
