//! What a service manager such as systemd is notified of: sd_notify(3), over the datagram socket that it
//! names.
//!
//! ```text
//!   opened ─► READY=1 ─► STATUS=…, WATCHDOG=1 while the capture is watched
//!     ─► STOPPING=1 ─► EXTEND_TIMEOUT_USEC=… while the rest makes progress ─► the process ends
//! ```
//!
//! Rule: only the thread that watches the capture notifies, so a watchdog that expires means that this thread
//! hangs. Notifications never block. One that fails is repeated where the manager would act on its absence:
//! readiness, the watchdog, more time at the end. The socket is connected before the thread
//! enters the sandbox, where it can neither open nor address one.

use std::{
    env, mem,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::{Duration, Instant},
};

/// How often the status is renewed.
const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// How long the manager waits for the end after the last notification that data is still being written.
pub(crate) const EXTENSION: Duration = Duration::from_secs(30);
/// The longest status, in bytes.
const MAX_STATUS: usize = 512;

/// The connection to the service manager; does nothing without one.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The interval of its watchdog, which is notified twice per interval.
    watchdog: Option<Duration>,
    next_watchdog: Option<Instant>,
    next_status: Option<Instant>,
    /// Whether it knows that packets are captured.
    is_ready: bool,
    next_extension: Option<Instant>,
    /// What was done at the end, and when that last changed.
    progress: Option<(u64, Instant)>,
    has_given_up: bool,
}

impl ServiceManager {
    /// The service manager that started this process.
    pub(crate) fn from_env() -> Self {
        let variable = |name: &str| env::var(name).ok();
        Self::new(variable("NOTIFY_SOCKET"), variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"))
    }

    fn new(socket: Option<String>, watchdog_usec: Option<String>, watchdog_pid: Option<String>) -> Self {
        let socket = socket.as_deref().and_then(connect);
        // WATCHDOG_PID may name another process.
        let is_meant = watchdog_pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let usec =
            watchdog_usec.and_then(|usec| usec.parse().ok()).filter(|&usec: &u64| usec > 0 && is_meant);
        Self { socket, watchdog: usec.map(Duration::from_micros), ..Self::default() }
    }

    /// The command runs: packets are captured or forwarded.
    pub(crate) fn ready(&mut self) {
        self.is_ready = self.notify("READY=1\nSTATUS=running");
    }

    /// The capture is watched; `status` is a line about it.
    pub(crate) fn tick(&mut self, now: Instant, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        if !self.is_ready {
            self.ready();
        }
        if let Some(watchdog) = self.watchdog.filter(|_| self.next_watchdog.is_none_or(|next| now >= next)) {
            if self.notify("WATCHDOG=1") {
                self.next_watchdog = Some(now + watchdog / 2);
            }
        }
        if self.next_status.is_none_or(|next| now >= next) {
            self.next_status = Some(now + STATUS_PERIOD);
            self.notify(&format!("STATUS={}", in_one_line(&status())));
        }
    }

    /// The capture ends.
    pub(crate) fn stopping(&mut self) {
        self.notify("STOPPING=1\nSTATUS=writing what was captured");
    }

    /// How long `done` has not grown at the end; zero without a manager.
    pub(crate) fn stalled(&mut self, now: Instant, done: u64) -> Duration {
        if self.socket.is_none() {
            return Duration::ZERO;
        }
        let since = match self.progress {
            Some((before, since)) if before == done => since,
            _ => now,
        };
        self.progress = Some((done, since));
        now.saturating_duration_since(since)
    }

    /// Has the manager's time limit on the end count from now, if the end `goes_on`. If not, the manager may
    /// end the process: a disk or a reader that hangs would keep it for ever. Call it many times a second;
    /// returns `true` at the first call of each stall.
    pub(crate) fn extend(&mut self, now: Instant, goes_on: bool) -> bool {
        if !goes_on {
            return !mem::replace(&mut self.has_given_up, true);
        }
        self.has_given_up = false;
        let is_due = self.next_extension.is_none_or(|next| now >= next);
        if is_due && self.notify(&format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros())) {
            self.next_extension = Some(now + STATUS_PERIOD);
        }
        false
    }

    /// Returns whether the manager got it.
    fn notify(&self, text: &str) -> bool {
        // Fails if the manager is gone or busy.
        self.socket.as_ref().is_some_and(|socket| socket.send(text.as_bytes()).is_ok())
    }
}

fn connect(name: &str) -> Option<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// A status has no line breaks, which would begin another notification.
fn in_one_line(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let end = (0..=MAX_STATUS.min(line.len())).rev().find(|&end| line.is_char_boundary(end));
    line[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut texts = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(len) = socket.recv(&mut bytes) {
            texts.push(String::from_utf8(bytes[..len].to_vec()).unwrap());
        }
        texts
    }

    #[test]
    fn a_manager_is_notified_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("wirecap-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, variable) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ] {
            let mut manager = ServiceManager::new(Some(variable), Some("4000000".into()), None);
            manager.ready();
            let now = Instant::now();
            let second = Duration::from_secs(1);
            for seconds in 0..8 {
                manager.tick(now + seconds * second, || format!("lost {seconds}\nREADY=0"));
            }
            manager.stopping();
            // A socket holds some ten of them.
            let mut texts = received(&socket);
            let timeout = 5 * second;
            // Something is done in the first four seconds, and then again.
            let mut gave_up = Vec::new();
            for seconds in 0..40 {
                let done = if seconds < 30 { seconds.min(4) } else { 5 };
                let now = now + seconds * second;
                let goes_on = manager.stalled(now, done.into()) <= timeout;
                if manager.extend(now, goes_on) {
                    gave_up.push(seconds);
                }
            }
            assert_eq!(gave_up, [10, 36]);
            let expected = [
                "READY=1\nSTATUS=running",
                "WATCHDOG=1",
                "STATUS=lost 0 READY=0",
                "WATCHDOG=1",
                "WATCHDOG=1",
                "STATUS=lost 5 READY=0",
                "WATCHDOG=1",
                "STOPPING=1\nSTATUS=writing what was captured",
                "EXTEND_TIMEOUT_USEC=30000000",
                "EXTEND_TIMEOUT_USEC=30000000",
                "EXTEND_TIMEOUT_USEC=30000000",
                "EXTEND_TIMEOUT_USEC=30000000",
            ];
            texts.extend(received(&socket));
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn what_a_busy_manager_has_to_know_is_repeated_until_it_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut manager =
            ServiceManager::new(Some(path.to_str().unwrap().into()), Some("4000000".into()), None);
        let now = Instant::now();
        // The manager is busy: its queue is full.
        let fill = |manager: &ServiceManager| while manager.notify("STATUS=x") {};
        fill(&manager);
        manager.ready();
        manager.tick(now, String::new);
        assert!(!manager.extend(now, true));
        assert!(received(&socket).iter().all(|text| text == "STATUS=x"));
        manager.tick(now, String::new);
        manager.tick(now, String::new);
        assert!(!manager.extend(now, true));
        let repeated = ["READY=1\nSTATUS=running", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=30000000"];
        assert_eq!(received(&socket), repeated);
        // Once it has it, each in its time.
        fill(&manager);
        let later = now + Duration::from_secs(2);
        manager.tick(later, String::new);
        received(&socket);
        manager.tick(later + Duration::from_millis(50), String::new);
        manager.tick(later + Duration::from_millis(100), String::new);
        assert_eq!(received(&socket), ["WATCHDOG=1"]);
    }

    #[test]
    fn without_a_manager_or_a_watchdog_nothing_is_notified() {
        let mut none = ServiceManager::new(None, Some("1".into()), None);
        none.ready();
        assert_eq!(none.stalled(Instant::now(), 0), Duration::ZERO);
        assert!(!none.extend(Instant::now(), true));
        none.tick(Instant::now(), || unreachable!("no manager shows it"));
        let of_other = ServiceManager::new(None, Some("4000000".into()), Some("1".into()));
        assert_eq!(of_other.watchdog, None);
        // A socket that is not there, or no socket at all.
        ServiceManager::new(Some("/nowhere/notify".into()), None, None).ready();
        ServiceManager::new(Some(String::new()), None, None).ready();
        assert_eq!(in_one_line(&"é".repeat(1_000)).len(), MAX_STATUS);
    }
}
