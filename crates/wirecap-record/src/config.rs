//! How to record a capture.

use std::sync::{Arc, atomic::AtomicBool};

use super::{copy::OutputCopy, outcome::StopCallback, rotation::Rotation};

/// How to record a capture. By default, keeps all of every packet, and workers wait for a slow output.
#[derive(Debug, Default)]
pub struct RecordConfig {
    /// Bytes kept of each packet; 0 keeps all.
    pub snaplen: u32,
    /// Limit on written packets, in all outputs together, after which [`Self::on_stop`] is called; `None`
    /// means no limit.
    pub max_packets: Option<u64>,
    /// The header before the packets: encoded by [`wirecap_file`], in the format of the output, and in pcapng
    /// with an interface for each port, in their order, in the output of one queue, too. `None` writes the
    /// name and the link type of each port.
    pub header: Option<Vec<u8>>,
    /// Drops packets that the output does not accept in time, and counts them as
    /// [`not_taken`](crate::WrittenCounts::not_taken), so that no worker waits. 64 MiB may wait for each
    /// output; once they do, no more are accepted until half of them are written. At the end, an output that
    /// accepts nothing for 5 s is given up.
    pub drop_when_behind: bool,
    /// Gives up writing when it is set, for instance by a signal handler: a write that waits for the reader
    /// of a pipe is given up at once, and so is what waits for the reader of the copy at the end. The
    /// recorder also sets it when it gives up a stalled output.
    pub give_up: Arc<AtomicBool>,
    /// The series of each output, in their order, which have to be files; none means that each output is one
    /// file.
    pub rotations: Vec<Rotation>,
    /// Gets the header and the packets of the first output, too, in its format and not compressed. Packets
    /// that it does not accept in time, or once its reader has closed it, count as
    /// [`not_copied`](crate::WrittenCounts::not_copied).
    pub copy: Option<OutputCopy>,
    /// Called at most once for each output, by the thread that writes it, when it writes nothing more
    /// although packets may still arrive.
    pub on_stop: Option<StopCallback>,
}
