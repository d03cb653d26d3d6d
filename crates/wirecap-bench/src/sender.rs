//! Traffic at a rate of its own for each queue: AF_XDP transmit, one thread, an absolute schedule.
//!
//! ```text
//!   every 500 µs:  for each queue q:  due = rate(q) · elapsed − sent(q)  ──► CopySender q, 32 at a time
//! ```
//!
//! Rule: time lost is made up for, so the rate holds over the whole run; what the kernel has not sent at the end is
//! waited for.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use wirecap_traffic::{CopySender, FrameSpec, Template};

/// Cells of each queue's transmit ring: 25 ms at 80,000 packets/s.
const CELLS: u32 = 2048;
const TICK: Duration = Duration::from_micros(500);
/// The kernel sends at most so many per call in copy mode.
const BATCH: u64 = 32;

/// What was sent, and how evenly.
#[derive(Debug, Clone)]
pub struct Paced {
    /// Frames to each queue.
    pub sent: Vec<u64>,
    /// The longest time between two looks at the schedule. What was due meanwhile left in one burst: a loss may be due to
    /// it and not to the receiver.
    pub longest_pause: Duration,
}

/// Sends to several queues at once.
#[derive(Debug)]
pub struct PacedSender {
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    transmitter: CopySender,
    rate_pps: u64,
    sent: u64,
    next_frame: usize,
}

impl PacedSender {
    /// Opens queue q for `rates_pps[q]` packets per second. To be called in the interface's namespace.
    ///
    /// # Errors
    /// If a queue cannot be opened.
    pub fn open(ifindex: u32, rates_pps: &[u64]) -> Result<Self> {
        let lanes = rates_pps.iter().zip(0..).map(|(&rate_pps, queue)| {
            let transmitter = CopySender::open(ifindex, queue, CELLS)
                .with_context(|| format!("cannot send from queue {queue}"))?;
            Ok(Lane { transmitter, rate_pps, sent: 0, next_frame: 0 })
        });
        Ok(Self { lanes: lanes.collect::<Result<_>>()? })
    }

    /// Sends for so long and calls `each_tick` between batches.
    ///
    /// # Errors
    /// If the kernel refuses, or has not sent everything one second after the end.
    pub fn run(
        &mut self,
        frames: &[Vec<u8>],
        duration: Duration,
        mut each_tick: impl FnMut(Duration, u64),
    ) -> Result<Paced> {
        let start = Instant::now();
        let (mut last, mut longest_pause) = (Duration::ZERO, Duration::ZERO);
        loop {
            let elapsed = start.elapsed().min(duration);
            longest_pause = longest_pause.max(elapsed - last);
            last = elapsed;
            for lane in &mut self.lanes {
                lane.catch_up(frames, elapsed)?;
            }
            each_tick(elapsed, self.lanes.iter().map(|lane| lane.sent).sum());
            if elapsed == duration && self.lanes.iter().all(|lane| lane.sent == due(lane.rate_pps, duration))
            {
                break;
            }
            std::thread::sleep(TICK);
        }
        for lane in &mut self.lanes {
            let all_sent = lane.transmitter.finish(Duration::from_secs(1))?;
            ensure!(all_sent, "the kernel did not send everything within a second");
        }
        Ok(Paced { sent: self.lanes.iter().map(|lane| lane.sent).collect(), longest_pause })
    }
}

impl Lane {
    fn catch_up(&mut self, frames: &[Vec<u8>], elapsed: Duration) -> Result<()> {
        loop {
            let batch = (due(self.rate_pps, elapsed) - self.sent).min(BATCH);
            let cycle = frames.iter().cycle().skip(self.next_frame).map(Vec::as_slice);
            // Also with nothing due: it drives what is in the ring.
            let taken = self.transmitter.send(cycle.take(batch as usize))?;
            self.sent += taken;
            self.next_frame = (self.next_frame + taken as usize) % frames.len();
            if taken < BATCH {
                return Ok(());
            }
        }
    }
}

/// Frames that should have left by then.
fn due(rate_pps: u64, elapsed: Duration) -> u64 {
    (u128::from(rate_pps) * elapsed.as_nanos() / 1_000_000_000) as u64
}

/// One frame of each flow.
///
/// # Errors
/// If there is no such frame.
pub fn frames(spec: FrameSpec, flows: u32) -> Result<Vec<Vec<u8>>> {
    let mut template = Template::new(spec)?;
    Ok((0..flows).map(|flow| template.stamp(flow, u64::from(flow)).to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirecap_traffic::Marks;

    #[test]
    fn the_schedule_is_absolute() {
        assert_eq!(due(80_000, Duration::from_micros(500)), 40);
        assert_eq!(due(80_000, Duration::from_secs(30)), 2_400_000);
        assert_eq!(due(38_844, Duration::ZERO), 0);
    }

    #[test]
    fn frames_are_of_different_flows() {
        let frames = frames(FrameSpec::default(), 300).unwrap();
        assert_eq!(frames.len(), 300);
        assert_eq!(Marks::read(&frames[299]).unwrap().flow, 299);
    }
}
