//! The order in which the kernel closes the files of a process that is killed. In a program of its own: a
//! child of another test would hold copies of these files between fork and exec.

use std::{
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::Command,
};

/// [`wirecap_sys::bpf::Link::closed_before`] relies on this order.
#[test]
fn the_kernel_closes_the_files_of_a_killed_process_from_the_highest_descriptor_down() {
    for _ in 0..20 {
        let ((low, its_low), (high, its_high)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000").stdin(OwnedFd::from(its_low)).stdout(OwnedFd::from(its_high));
        let mut child = sleeper.spawn().unwrap();
        // The command still holds copies of the child's ends.
        drop(sleeper);
        // SAFETY: epoll_create1(2) and epoll_ctl(2) get descriptors that are open and an event that is live.
        let events = unsafe {
            let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            for (number, stream) in [(0, &low), (1, &high)] {
                let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
                let added = libc::epoll_ctl(
                    epoll.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    stream.as_raw_fd(),
                    &raw mut event,
                );
                assert_eq!(added, 0);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            // The kernel returns events in the order in which they came.
            let mut events = [libc::epoll_event { events: 0, u64: 9 }; 2];
            assert_eq!(libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 2, 1000), 2);
            events.map(|event| event.u64)
        };
        assert_eq!(events, [1, 0]);
    }
}
