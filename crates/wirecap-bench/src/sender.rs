//! Traffic with a separate rate for each queue, by the library code of `wirecap generate --queue-share`.
//!
//! Rule: the schedule is absolute, so the rate holds over the whole run. At the end, the sender waits until
//! the kernel has sent all frames.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use wirecap_traffic::{End, FrameSpec, QueueShare, Rate, Sizes, Timing, XdpGenerator, XdpOptions, drive};

/// The frames sent, and the evenness of sending.
#[derive(Debug, Clone)]
pub struct PacedFrames {
    /// Frames sent to each queue.
    pub sent: Vec<u64>,
    /// The longest time between two looks at the schedule. Frames due in that time leave in one burst, which
    /// may cause losses that are not the receiver's fault.
    pub longest_pause: Duration,
}

/// Sends to several queues at once.
#[derive(Debug)]
pub struct PacedSender {
    generator: XdpGenerator,
    /// The rate of all queues together, in packets per second.
    rate_pps: u64,
}

impl PacedSender {
    /// Opens queue q for `rates_pps[q]` packets per second. Call this in the interface's namespace.
    ///
    /// # Errors
    /// If a queue cannot be opened, or `frame` is not valid.
    pub fn open(ifindex: u32, rates_pps: &[u32], frame: FrameSpec, flows: u32) -> Result<Self> {
        let options = XdpOptions {
            frame,
            sizes: Sizes::fixed(frame.len),
            flows,
            queues: (0..).zip(rates_pps).map(|(queue, &weight)| QueueShare { queue, weight }).collect(),
            ..XdpOptions::default()
        };
        let generator = XdpGenerator::open(ifindex, &options).context("cannot send")?;
        Ok(Self { generator, rate_pps: rates_pps.iter().copied().map(u64::from).sum() })
    }

    /// Sends for `duration` and calls `each_look` with the time and the frames sent so far.
    ///
    /// # Errors
    /// If the kernel refuses frames, or has not sent all of them one second after the end.
    pub fn run(
        &mut self,
        duration: Duration,
        mut each_look: impl FnMut(Duration, u64),
    ) -> Result<PacedFrames> {
        let frames = (u128::from(self.rate_pps) * duration.as_nanos() / 1_000_000_000) as u64;
        let timing =
            Timing { rate: Some(Rate::frames(self.rate_pps)), frames: Some(frames), ..Timing::default() };
        let (mut last, mut longest_pause) = (Duration::ZERO, Duration::ZERO);
        let outcome = drive(&mut self.generator, timing, |elapsed, made| {
            longest_pause = longest_pause.max(elapsed - last);
            last = elapsed;
            each_look(elapsed, made.frames);
            true
        });
        if let End::Failed(error) = outcome.end {
            bail!(error);
        }
        ensure!(self.generator.finish() == 0, "the kernel did not send all frames within a second");
        let sent = self.generator.queues().into_iter().map(|queue| queue.made).collect();
        Ok(PacedFrames { sent, longest_pause })
    }
}
