//! AF_XDP sockets: rings shared with the kernel, and the UMEM they speak of.
//!
//! ```text
//!                     fill ring (we produce cell addresses)
//!      user space ───────────────────────────────────────────► kernel
//!                     rx ring (kernel produces descriptors)
//!                 ◄───────────────────────────────────────────
//!                     tx ring (we produce descriptors)
//!                 ───────────────────────────────────────────►
//!                     completion ring (kernel produces addresses)
//!                 ◄───────────────────────────────────────────
//! ```
//!
//! Kernel document: `Documentation/networking/af_xdp.rst`; layouts from `<linux/if_xdp.h>`.
//!
//! Rule: entries are staged one by one, and published together with one store.

mod abi;
mod cursor;
mod error;
#[cfg(feature = "testing")]
mod in_process;
mod outlet;
mod received_cells;
mod ring;
mod sender;
mod socket;
mod transmit_queue;

pub use error::XskError;
#[cfg(feature = "testing")]
pub use in_process::{TransmitRings, modes_of_process};
pub use received_cells::{Contents, ReceivedCells};
pub use ring::Drain;
pub use sender::Sender;
pub use socket::{BindMode, Registration, RingSizes, Socket, SocketConfig, SocketStatistics, Umem};
pub use transmit_queue::{BindChoice, CellPart, MAX_PARTS, TransmitOptions, TransmitQueue};

/// Entry of a receive or transmit ring.
pub use abi::RingDescriptor;
