//! The profile of a run, as it grows.

use crate::{
    bins::Row,
    measures::Measures,
    series::Series,
    settings::BinSettings,
    summary::Summary,
    tally::{Count, Tally},
    timeline::{Jumps, Timeline},
};

/// Counts packets by queue and time.
#[derive(Debug)]
pub struct Profiler {
    settings: BinSettings,
    timeline: Timeline,
    measures: Measures,
    series: Series,
    /// All packets of each queue.
    packets: Vec<u64>,
}

impl Profiler {
    /// For this number of queues.
    pub fn new(queues: usize, settings: BinSettings) -> Self {
        Self {
            settings,
            timeline: Timeline::new(queues, settings.bin_ns),
            measures: Measures::new(queues, settings.window_bins),
            series: Series::default(),
            packets: vec![0; queues],
        }
    }

    /// How time is divided.
    pub fn settings(&self) -> BinSettings {
        self.settings
    }

    /// Packets of each queue so far.
    pub fn packets(&self) -> &[u64] {
        &self.packets
    }

    /// Adds packets. Calls `each` with the rows of bins that close, in the order of their positions.
    ///
    /// # Panics
    /// If there is no such queue as that of a packet.
    pub fn add(&mut self, tally: &Tally, mut each: impl FnMut(&Row)) {
        let Self { timeline, measures, series, packets: total, .. } = self;
        let mut close = |row: Row| Self::close_row(measures, series, row, &mut each);
        for &Count { bin, queue, packets } in &tally.counts {
            total[queue] += packets;
            timeline.add(bin, queue, packets, &mut close);
        }
    }

    /// Closes all bins: no more packets come. Calls `each` with their rows.
    pub fn close(&mut self, mut each: impl FnMut(&Row)) {
        let Self { timeline, measures, series, .. } = self;
        timeline.close(&mut |row| Self::close_row(measures, series, row, &mut each));
    }

    fn close_row(measures: &mut Measures, series: &mut Series, row: Row, each: &mut impl FnMut(&Row)) {
        each(&row);
        series.add(&row);
        measures.add(row);
    }

    /// The run in few points, as far as bins are closed.
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Jumps of the times of packets so far.
    pub fn jumps(&self) -> &Jumps {
        self.timeline.jumps()
    }

    /// The figures so far: shares of all packets, and figures over time as far as bins are closed.
    pub fn summary(&self) -> Summary {
        Summary::new(self.settings, &self.packets, &self.timeline, &self.measures)
    }
}
