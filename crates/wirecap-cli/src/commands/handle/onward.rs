//! `--forward`: handled packets leave by another interface, from the cells that they lie in.
//!
//! ```text
//!   IFACE queue q ─► worker w ─► transmit queue w of IFACE2        in advanced mode, a buddy sends what it took over
//!   IFACE2 ─► dropped, and counted
//! ```
//!
//! Rule: each worker has a transmit queue of its own. So packets of a receive queue stay in order as long as
//! one worker handles them: always in basic mode.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use serde::Serialize;
use wirecap::{Batch, Config, Homes, Mode, PortSpec, Reach, Refusal, Transmitter, UnmatchedPolicy};
use wirecap_router::DropCause;

use crate::{
    capture::known_interfaces::KnownInterfaces,
    commands::forward::{output::Output, plan, stats::cause_of},
    text::forward::ForwardWarning,
};

/// Entries of each transmit ring, as by default for `wirecap forward`.
const RING: u32 = 2048;
/// Causes for which a transmit queue refuses packets: the first of all.
const CAUSES: usize = DropCause::NotSendable as usize + 1;

/// Adds the interface that packets are sent on through, as the last port, and what sending takes.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) for ports that cannot be forwarded, and for more threads than transmit
/// queues; an unknown interface.
pub(super) fn set_up(
    config: &mut Config,
    to: &PortSpec,
    interfaces: &mut KnownInterfaces,
    warnings: &mut Vec<ForwardWarning>,
) -> Result<()> {
    config.ports.push(to.clone());
    config.ports = std::mem::take(&mut config.ports).into_iter().map(plan::taken).collect::<Result<_>>()?;
    let (found, queues) = plan::look_up(&config.ports, interfaces, warnings)?;
    if let Some((to, sources)) = found.split_last() {
        let wider = sources.iter().filter(|from| from.mtu > to.mtu);
        warnings.extend(wider.filter_map(|from| plan::narrower(from, to)));
    }
    let threads = config.workers.unwrap_or(queues);
    ensure!(
        threads <= queues,
        usage!(
            "--threads {threads}: with --forward, each thread needs a queue of each interface that receives and sends, and one of \
             them has {queues}; use at most {queues}, or give it more queues (ethtool -L)"
        )
    );
    config.workers = Some(threads);
    config.transmit_entries = RING;
    // Both interfaces are taken from the host: what the filter rejects is not for it, either.
    if config.filter.is_some() && config.unmatched.is_none() {
        config.unmatched = Some(UnmatchedPolicy::Drop);
    }
    match config.mode {
        Mode::Basic => {
            config.homes = Homes::ByQueue;
            config.reach = Reach::Worker;
        }
        // A buddy sends packets from the pools of others.
        Mode::Advanced { .. } => config.reach = Reach::All,
    }
    Ok(())
}

/// Packets of one thread that were sent on, or not.
#[derive(Debug, Default)]
pub(super) struct SendCounts {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// By cause.
    refused: [AtomicU64; CAUSES],
}

impl SendCounts {
    fn count_sent(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn count_refused(&self, refusal: Refusal, packets: u64) {
        self.refused[cause_of(refusal) as usize].fetch_add(packets, Ordering::Relaxed);
    }
}

/// Sends on what one thread has handled.
pub(super) struct Sender {
    /// The port that it sends through.
    pub(super) port: usize,
    output: Output,
    counts: Arc<SendCounts>,
}

impl Sender {
    /// Sends all packets of a batch, or counts why not.
    pub(super) fn send(&mut self, mut batch: Batch) {
        let packets = batch.len() as u64;
        let Some(mut drain) = batch.drain() else {
            return self.counts.count_refused(Refusal::NotSendable, packets);
        };
        loop {
            let run = self.output.send_run(&mut drain, |_| {});
            self.counts.count_sent(run.packets, run.bytes);
            let Some(packet) = drain.next() else { break };
            let len = packet.len() as u64;
            match self.output.send(packet, true) {
                Ok(()) => self.counts.count_sent(1, len),
                Err(refusal) => self.counts.count_refused(refusal, 1),
            }
        }
        self.output.flush();
    }

    pub(super) fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Whether the kernel has packets that it has not sent.
    pub(super) fn is_sending(&self) -> bool {
        self.output.is_sending()
    }
}

/// A sender for each worker, by its number, out of the transmitters of `port`.
pub(super) fn senders(
    transmitters: Vec<Transmitter>,
    port: usize,
    counts: &[Arc<SendCounts>],
    mode: Mode,
) -> Vec<Sender> {
    let workers = counts.len();
    // In advanced mode, all of them may have packets of one pool.
    let sharers = if mode == Mode::Basic { 1 } else { workers };
    let of_port = transmitters.into_iter().filter(|transmitter| transmitter.port() == port);
    let senders = of_port.zip(counts).map(|(transmitter, counts)| {
        let (output, counts) = (Output::new(transmitter, sharers), Arc::clone(counts));
        Sender { port, output, counts }
    });
    senders.collect()
}

/// What became of packets that were to be sent on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SentOn {
    /// The interface.
    pub(super) to: String,
    /// Packets given to the kernel for it.
    pub(super) packets: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Packets that it refused, by cause.
    pub(super) dropped: Refused,
    /// Packets that came in by it, and were dropped.
    pub(super) ignored: u64,
}

/// Packets that were not sent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Refused {
    /// The transmit ring had no room.
    ring_full: u64,
    /// The interface held its share of the pool.
    over_share: u64,
    /// Longer than its MTU.
    too_long: u64,
    /// It was down.
    link_down: u64,
    /// It was deleted.
    gone: u64,
    /// It cannot send the packet at all.
    not_sendable: u64,
}

impl Refused {
    fn causes(self) -> [(DropCause, u64); CAUSES] {
        let Self { ring_full, over_share, too_long, link_down, gone, not_sendable } = self;
        [
            (DropCause::RingFull, ring_full),
            (DropCause::OverShare, over_share),
            (DropCause::TooLong, too_long),
            (DropCause::LinkDown, link_down),
            (DropCause::Gone, gone),
            (DropCause::NotSendable, not_sendable),
        ]
    }

    pub(super) fn total(self) -> u64 {
        self.causes().iter().map(|(_, packets)| packets).sum()
    }

    /// Of these, packets that no length limit dropped.
    pub(super) fn lost(self) -> u64 {
        self.causes().iter().filter(|(cause, _)| cause.is_loss()).map(|(_, packets)| packets).sum()
    }

    /// How many causes occurred.
    pub(super) fn causes_occurred(self) -> usize {
        self.causes().iter().filter(|(_, packets)| *packets > 0).count()
    }

    /// The causes that occurred, with their packets: `ring_full 3, too_long 1`.
    pub(super) fn describe(self) -> String {
        let occurred = self.causes().into_iter().filter(|(_, packets)| *packets > 0);
        occurred.map(|(cause, packets)| format!("{} {packets}", cause.name())).collect::<Vec<_>>().join(", ")
    }
}

impl SentOn {
    /// The sum over all threads.
    pub(super) fn new(to: &str, counts: &[Arc<SendCounts>], ignored: u64) -> Self {
        let sum = |counter: &dyn Fn(&SendCounts) -> &AtomicU64| -> u64 {
            counts.iter().map(|counts| counter(counts).load(Ordering::Relaxed)).sum()
        };
        let refused = |cause: DropCause| sum(&|counts| &counts.refused[cause as usize]);
        Self {
            to: to.into(),
            packets: sum(&|counts| &counts.packets),
            bytes: sum(&|counts| &counts.bytes),
            dropped: Refused {
                ring_full: refused(DropCause::RingFull),
                over_share: refused(DropCause::OverShare),
                too_long: refused(DropCause::TooLong),
                link_down: refused(DropCause::LinkDown),
                gone: refused(DropCause::Gone),
                not_sendable: refused(DropCause::NotSendable),
            },
            ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_counts_under_its_cause() {
        let counts = [Arc::<SendCounts>::default(), Arc::default()];
        counts[0].count_sent(3, 180);
        counts[1].count_sent(4, 400);
        let refusals = [
            Refusal::Full,
            Refusal::OverShare,
            Refusal::TooLong,
            Refusal::LinkDown,
            Refusal::Gone,
            Refusal::NotSendable,
        ];
        for (number, refusal) in (1..).zip(refusals) {
            counts[0].count_refused(refusal, number);
        }
        let sent = SentOn::new("eth2", &counts, 9);
        assert_eq!((sent.packets, sent.bytes, sent.ignored), (7, 580, 9));
        assert_eq!(sent.dropped.causes().map(|(_, packets)| packets), [1, 2, 3, 4, 5, 6]);
        assert_eq!((sent.dropped.total(), sent.dropped.lost()), (21, 18), "too long is no loss");
        assert!(sent.dropped.describe().starts_with("ring_full 1, over_share 2, too_long 3, "));
        assert_eq!(SentOn::new("eth2", &[], 0).dropped.describe(), "");
    }
}
