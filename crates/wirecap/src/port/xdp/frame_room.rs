//! The longest frame that a cell takes.
//!
//! ```text
//!   cell of 2,048 bytes:  ├ head room 256 ┼ 1,792 bytes for the frame ────────────────────┤
//!   igb, in zero-copy:    ├ head room 256 ┼ 1,024, as its NIC is told KiB ┤ not used      ┤
//! ```
//!
//! Rule: in a mode in which a frame of the interface's MTU would not come whole, packets are not captured: a
//! NIC that runs out of room goes on in the next cell, and a driver without packets of several cells takes
//! the rest for a packet of its own.

use wirecap_core::Geometry;
use wirecap_sys::{memory::HEAD_ROOM_BYTES, netdev::Interface, xsk::BindMode};

use crate::{diagnostic::ModeRefusal, nic::link::longest_frame};

const KIB: u32 = 1024;

/// Drivers that tell their NIC the room of a cell in whole KiB, rounded down, where it receives into cells
/// itself: the register SRRCTL.BSIZEPKT of their NICs has no finer unit. Of ixgbe this is so with the 82599.
const ROOM_IN_KIB: [&str; 3] = ["igb", "igc", "ixgbe"];

/// Longest frame that fits a cell, in bytes.
pub(super) fn cell_payload(geometry: Geometry) -> u32 {
    geometry.cell_bytes() - HEAD_ROOM_BYTES
}

/// Why zero-copy would cut frames of the interface; `None` if it would not.
pub(super) fn refuses(interface: &Interface, geometry: Geometry, mode: BindMode) -> Option<ModeRefusal> {
    let driver = interface.driver.as_ref()?.name.as_str();
    let (room, longest) = (cell_payload(geometry) / KIB * KIB, longest_frame(interface));
    if mode != BindMode::ZeroCopy || !ROOM_IN_KIB.contains(&driver) || longest <= room {
        return None;
    }
    Some(ModeRefusal::ShortCells { driver: driver.into(), cell_bytes: geometry.cell_bytes(), room, longest })
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev;

    use super::*;

    #[test]
    fn zero_copy_is_refused_where_it_would_cut_frames() {
        let geometry = |cell_bytes| Geometry::new(64, 8, cell_bytes).unwrap();
        let interface = |name: &str, mtu| Interface {
            mtu,
            driver: Some(netdev::Driver { name: name.into(), version: None, firmware: None, bus: None }),
            ..netdev::interface("lo").unwrap()
        };
        let refuses =
            |name: &str, mtu, cell_bytes, mode| refuses(&interface(name, mtu), geometry(cell_bytes), mode);
        let refused = refuses("igb", 1500, 2048, BindMode::ZeroCopy).unwrap();
        let driver = "igb".to_owned();
        assert_eq!(refused, ModeRefusal::ShortCells { driver, cell_bytes: 2048, room: 1024, longest: 1522 });
        assert!(refuses("igc", 3051, 4096, BindMode::ZeroCopy).is_some());
        for (name, mtu, cell_bytes, mode) in [
            ("igb", 1500, 2048, BindMode::Copy),
            ("igb", 1500, 4096, BindMode::ZeroCopy),
            ("igb", 1002, 2048, BindMode::ZeroCopy),
            ("ixgbe", 3050, 4096, BindMode::ZeroCopy),
            ("virtio_net", 1500, 2048, BindMode::ZeroCopy),
        ] {
            assert_eq!(
                refuses(name, mtu, cell_bytes, mode),
                None,
                "{name}, MTU {mtu}, cells of {cell_bytes}"
            );
        }
    }
}
