//! Captured packets as what headers are changed in.

use wirecap_headers::Frame;

use super::OwnedPacket;

impl Frame for OwnedPacket<'_> {
    fn data(&self) -> &[u8] {
        OwnedPacket::data(self)
    }

    fn data_mut(&mut self) -> &mut [u8] {
        OwnedPacket::data_mut(self)
    }

    fn prepend(&mut self, bytes: usize) -> bool {
        OwnedPacket::prepend(self, bytes).is_some()
    }

    fn trim_front(&mut self, bytes: usize) -> bool {
        OwnedPacket::trim_front(self, bytes)
    }
}
