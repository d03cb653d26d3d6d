//! The thread that serves all clients of a capture.

use std::{
    io::ErrorKind,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wirecap_sandbox::{Profile, Sandbox};

use super::{client::Client, endpoint::Endpoint, waker::Waker};
use crate::process::idle_thread::IdleThread;

/// The most clients of an endpoint.
const MAX_CLIENTS: usize = 32;
/// How long to accept no connections after the process had too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How long the last answers may take once the capture has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// The longest sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A running server. Dropping it sends the last answers, for a second at most.
#[derive(Debug)]
pub(crate) struct Server {
    ending: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves these endpoints from a separate thread in the sandbox, which also drops them. Returns once the
    /// thread has confined itself, so that the files that it opens for that are not counted among those
    /// that the process has open.
    ///
    /// # Errors
    /// The kernel allows no more threads.
    pub(crate) fn start(
        endpoints: Vec<Box<dyn Endpoint>>,
        waker: Arc<Waker>,
        sandbox: Sandbox,
    ) -> Result<Self> {
        let directories = endpoints.iter().filter_map(|endpoint| endpoint.directory()).map(Into::into);
        let profile = Profile::Server(directories.collect());
        let ending = Arc::<AtomicBool>::default();
        let service = Service { endpoints, clients: Vec::new(), paused_until: None };
        let (flag, own) = (Arc::clone(&ending), Arc::clone(&waker));
        let (confining, confined) = mpsc::channel::<()>();
        let thread = IdleThread::start("wirecap-serve")?.run(move || {
            sandbox.enter(&profile);
            drop(confining);
            service.run(&flag, &own);
        });
        // Ends with an error, as nothing is sent: the sender is dropped, also by a panic.
        let _ = confined.recv();
        Ok(Self { ending, waker, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Fails if it has panicked; the capture is over in any case.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Service {
    endpoints: Vec<Box<dyn Endpoint>>,
    /// Each with the index of its endpoint, in the order in which they connected.
    clients: Vec<(usize, Client)>,
    /// No connections are accepted before this time.
    paused_until: Option<Instant>,
}

impl Service {
    fn run(mut self, ending: &AtomicBool, waker: &Waker) {
        let mut deadline = None;
        loop {
            let is_ending = ending.load(Ordering::Acquire);
            let now = Instant::now();
            if is_ending && deadline.is_none() {
                deadline = Some(now + LAST_ANSWERS);
            }
            let is_late = deadline.is_some_and(|deadline| now >= deadline);
            if is_late || (is_ending && self.clients.iter().all(|(_, client)| client.is_done())) {
                return;
            }
            self.round(waker, deadline, is_ending);
        }
    }

    /// Waits for an event or a deadline, then serves the clients.
    fn round(&mut self, waker: &Waker, end: Option<Instant>, is_ending: bool) {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|&until| now < until);
        let accepts = self.paused_until.is_none() && !is_ending;
        let listening = if accepts { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.endpoints.iter().map(|one| PollFd::new(one.listener().as_fd(), listening)));
        fds.extend(self.clients.iter().map(|(_, client)| PollFd::new(client.as_fd(), client.interest())));
        let deadlines = self.clients.iter().map(|(_, client)| client.deadline());
        let next = deadlines.chain(self.paused_until).chain(end).min();
        let sleep = next.map_or(MAX_SLEEP, |next| next.saturating_duration_since(now).min(MAX_SLEEP));
        // Rounded up, so that a deadline less than a millisecond away does not make it spin.
        let more = self.clients.iter().any(|(_, client)| client.may_continue());
        let sleep = if more { Duration::ZERO } else { sleep + Duration::from_millis(1) };
        // A signal ends the wait early.
        let _ = poll(&mut fds, PollTimeout::try_from(sleep).unwrap_or(PollTimeout::MAX));
        let ready: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(fds);
        let (woken, ready) = (ready[0].contains(PollFlags::POLLIN) || is_ending, &ready[1..]);
        if woken {
            waker.reset();
        }
        let (of_endpoints, of_clients) = ready.split_at(self.endpoints.len());
        let now = Instant::now();
        let mut each = of_clients.iter();
        self.clients.retain_mut(|(_, client)| {
            let ready = each.next().copied().unwrap_or(PollFlags::empty());
            client.serve(ready, woken, now)
        });
        for (endpoint, _) in of_endpoints.iter().enumerate().filter(|(_, ready)| !ready.is_empty()) {
            self.accept(endpoint, now);
        }
    }

    /// Accepts the connections that wait, up to the limit.
    fn accept(&mut self, endpoint: usize, now: Instant) {
        for _ in 0..MAX_CLIENTS {
            match self.endpoints[endpoint].listener().accept() {
                Ok(stream) => {
                    let Some(dialogue) = self.endpoints[endpoint].connect(&stream) else { continue };
                    if self.make_room(endpoint) {
                        self.clients.push((endpoint, Client::new(stream, dialogue, now)));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.paused_until = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Whether the endpoint has room for one more client. If it is full, disconnects the client that has been
    /// idle for longest without ever sending a request, so that idle connections do not keep others out.
    fn make_room(&mut self, endpoint: usize) -> bool {
        let of_endpoint = |(of, _): &&(usize, Client)| *of == endpoint;
        if self.clients.iter().filter(of_endpoint).count() < MAX_CLIENTS {
            return true;
        }
        let idle =
            self.clients.iter().enumerate().filter(|(_, (of, client))| *of == endpoint && !client.has_asked);
        let longest = idle.min_by_key(|(_, (_, client))| client.active()).map(|(index, _)| index);
        longest.map(|index| self.clients.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests;
