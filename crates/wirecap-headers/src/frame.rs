//! What headers are changed in: a packet that can grow and shrink at its front.

/// A packet whose headers can be changed in place.
///
/// `data` may be the first part only of a packet that goes on elsewhere; headers beyond it are neither found
/// nor changed.
pub trait Frame {
    /// The first part of the packet, from its first header on.
    fn data(&self) -> &[u8];

    /// The same, to be changed.
    fn data_mut(&mut self) -> &mut [u8];

    /// Makes the packet `bytes` longer at its front. What the new bytes hold is not specified. `false`, and
    /// the packet as it was, if there is no room.
    #[must_use]
    fn prepend(&mut self, bytes: usize) -> bool;

    /// Makes the packet `bytes` shorter at its front. `false`, and the packet unchanged, if its first part is
    /// shorter.
    #[must_use]
    fn trim_front(&mut self, bytes: usize) -> bool;
}

/// A frame in memory of its own with room at the front, for tests and for packets that are made up.
///
/// # Example
///
/// ```
/// use wirecap_headers::{Frame, VecFrame};
///
/// let mut frame = VecFrame::new(b"packet", 2);
/// assert!(frame.prepend(2) && !frame.prepend(1));
/// frame.data_mut()[..2].copy_from_slice(b"a ");
/// assert_eq!(frame.data(), b"a packet");
/// assert!(frame.trim_front(4) && !frame.trim_front(5));
/// assert_eq!(frame.data(), b"cket");
/// ```
#[derive(Clone, Debug)]
pub struct VecFrame {
    bytes: Vec<u8>,
    /// Where the packet begins. INVARIANT: at most the length of `bytes`.
    start: usize,
}

impl VecFrame {
    /// A copy of `packet` with `room` bytes in front of it.
    pub fn new(packet: &[u8], room: usize) -> Self {
        // Not zeros, so that who takes new bytes for zeros is found out.
        let mut bytes = vec![0xa5; room];
        bytes.extend_from_slice(packet);
        Self { bytes, start: room }
    }
}

impl Frame for VecFrame {
    fn data(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn prepend(&mut self, bytes: usize) -> bool {
        let there = bytes <= self.start;
        if there {
            self.start -= bytes;
        }
        there
    }

    fn trim_front(&mut self, bytes: usize) -> bool {
        let there = bytes <= self.data().len();
        if there {
            self.start += bytes;
        }
        there
    }
}
