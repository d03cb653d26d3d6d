//! Errors of generating traffic.

use std::io;

use wirecap_send::SendError;
use wirecap_sys::{bpf, netdev};

/// Failures of building and sending frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A frame length that is too short for headers and marks, or too long for any interface.
    #[error(
        "a frame of {len} bytes is impossible here: choose {min} to {max} bytes (without the 4 bytes of FCS)"
    )]
    FrameLen {
        /// Requested length, in bytes without FCS.
        len: usize,
        /// Shortest possible with these headers.
        min: usize,
        /// Longest possible.
        max: usize,
    },
    /// A VLAN number that does not exist.
    #[error("VLAN {0} does not exist: choose 0 to 4094")]
    Vlan(u16),
    /// An invalid mix of sizes.
    #[error("a mix has 1 to {} sizes, each with a weight from 1 to {}", crate::MAX_SIZES, crate::MAX_WEIGHT)]
    SizeMix,
    /// Fewer flows than queues: each queue needs its own flows, otherwise frames of a flow would overtake
    /// each other.
    #[error("{flows} flows cannot be spread over {queues} queues: choose at least {queues}")]
    FewFlows {
        /// Requested number.
        flows: u32,
        /// Queues to send from.
        queues: usize,
    },
    /// No flows, or more than addresses and ports can distinguish.
    #[error("{flows} flows are impossible: choose 1 to {max}")]
    Flows {
        /// Requested number.
        flows: u32,
        /// The largest possible number.
        max: u32,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for the generator's program: {0}")]
    Thread(io::Error),
    /// The private network namespace could not be made.
    #[error(
        "cannot make a network namespace for the generator's program: {0}; needs CAP_SYS_ADMIN, run with sudo"
    )]
    Anchor(io::Error),
    /// The program that stamps the kernel's live frames supports only UDP.
    #[error("live frames are UDP: send TCP by AF_XDP")]
    LiveTransport,
    /// The kernel refused to run live frames.
    #[error(
        "the kernel refused to run live frames of {len} bytes ({cause}): live frames need Linux 5.18 and at most about \
         3,400 bytes; send longer frames by AF_XDP"
    )]
    LiveRefused {
        /// Length of the frames in bytes.
        len: usize,
        /// The error of the kernel.
        cause: bpf::Error,
    },
    /// The interface sent no frame.
    #[error(
        "{interface} sent none of {frames} frames: is it up, and has its driver XDP transmit? For veth the *other* end \
         must be up and have a native XDP program, or `ethtool -K OTHER_END gro on`"
    )]
    NothingTaken {
        /// Name of the interface.
        interface: String,
        /// Frames that were offered.
        frames: u64,
    },
    /// Sending from a transmit queue failed.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The interface or its counters cannot be queried.
    #[error(transparent)]
    Interface(#[from] netdev::Error),
    /// A BPF call failed.
    #[error(transparent)]
    Bpf(#[from] bpf::Error),
}
