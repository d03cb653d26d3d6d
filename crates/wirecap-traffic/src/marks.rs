//! The marks of a generated frame, read from received frames.
//!
//! ```text
//!   payload:  +0 magic u16   +2 run u16   +4 sequence u48   +10 time of sending u64          (big-endian, 18 bytes)
//! ```
//!
//! The flow is not among the marks: it is in the source address and port.

use crate::layout::{HOST_BITS, Layout, PORT_FIRST, be16};

/// Length of the marks in bytes.
pub(crate) const MARKS_LEN: usize = 18;
/// "wc", the first two bytes of each payload.
pub(crate) const MAGIC: u16 = u16::from_be_bytes(*b"wc");
/// Sequence numbers count modulo this.
pub const SEQUENCE_END: u64 = 1 << 48;
/// The bytes from the start of a frame that include its marks: tagged, IPv6, TCP.
pub const MARKS_REACH: usize = 14 + 4 + 40 + 20 + MARKS_LEN;

/// The marks of a generated frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marks {
    /// The run that made it.
    pub run: u16,
    /// Number of its flow, which is in its source address and port.
    pub flow: u32,
    /// Its number in the run, over all flows: below [`SEQUENCE_END`].
    pub sequence: u64,
    /// When it was sent: nanoseconds of the sender's system clock since 1970, UTC; 0 if unknown.
    pub sent_ns: u64,
}

impl Marks {
    /// Reads the marks of a frame made by this crate, for which its first [`MARKS_REACH`] bytes suffice.
    /// `None` for other frames: other protocols or addresses, or no magic.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Self> {
        let layout = Layout::of(frame)?;
        let marks = frame.get(layout.payload..layout.payload + MARKS_LEN)?;
        let word = |at: usize| u64::from_be_bytes(marks[at..at + 8].try_into().expect("eight bytes"));
        if marks[..2] != MAGIC.to_be_bytes() {
            return None;
        }
        let numbers = word(2);
        Some(Self {
            run: (numbers >> 48) as u16,
            flow: flow_of(frame[layout.host], be16(frame, layout.transport)?)?,
            sequence: numbers % SEQUENCE_END,
            sent_ns: word(10),
        })
    }

    /// Run and sequence number as they are in the frame.
    #[inline]
    pub(crate) fn numbers(run: u16, sequence: u64) -> u64 {
        (u64::from(run) << 48) | (sequence % SEQUENCE_END)
    }
}

/// The flow of a last byte of the source address and a source port.
fn flow_of(host: u8, port: u16) -> Option<u32> {
    let high = port.checked_sub(PORT_FIRST)?;
    Some((u32::from(high) << HOST_BITS) | u32::from(host))
}
