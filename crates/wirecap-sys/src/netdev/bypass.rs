//! Sending past the queueing discipline.

use std::io;
use std::os::fd::BorrowedFd;

use crate::socket_option;

/// From now on frames sent over this packet socket go to the driver without a queueing discipline
/// (`PACKET_QDISC_BYPASS`): faster, and lost where the driver has no room.
///
/// # Errors
/// The kernel's error; ENOPROTOOPT if it is no packet socket.
pub fn bypass_queueing(socket: BorrowedFd<'_>) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_a_packet_socket_is_accepted() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(bypass_queueing(socket.as_fd()).is_err());
    }
}
