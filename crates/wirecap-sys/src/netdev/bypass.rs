//! Sending past the queueing discipline.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// From now on frames sent over this packet socket go to the driver without a queueing discipline
/// (`PACKET_QDISC_BYPASS`): faster, and lost where the driver has no room.
///
/// # Errors
/// What the kernel said; ENOPROTOOPT if it is no packet socket.
pub fn bypass_queueing(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length are those of one integer that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_no_packet_socket_is_refused() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(bypass_queueing(socket.as_fd()).is_err());
    }
}
