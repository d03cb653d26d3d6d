//! What a service manager such as systemd is notified of: sd_notify(3), over the datagram socket that it
//! names.
//!
//! ```text
//!   opened ─► READY=1 ─► STATUS=…, WATCHDOG=1 while the capture is watched ─► STOPPING=1 ─► the process ends
//! ```
//!
//! Rule: only the thread that watches the capture notifies, so a watchdog that starves means that nobody
//! watches. No notification waits, and none that fails ends anything. The socket is connected before the
//! thread enters the sandbox, in which it can open and address none.

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::{Duration, Instant},
};

/// How often the status is renewed.
const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// What a status may have, in bytes.
const MAX_STATUS: usize = 512;

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The interval of its watchdog, of which half is kept.
    watchdog: Option<Duration>,
    next_watchdog: Option<Instant>,
    next_status: Option<Instant>,
}

impl ServiceManager {
    /// The one that has started this process.
    pub(crate) fn from_env() -> Self {
        let variable = |name: &str| env::var(name).ok();
        Self::new(variable("NOTIFY_SOCKET"), variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"))
    }

    fn new(socket: Option<String>, watchdog_usec: Option<String>, watchdog_pid: Option<String>) -> Self {
        let socket = socket.as_deref().and_then(connect);
        // A process of its own may be meant.
        let is_meant = watchdog_pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let usec =
            watchdog_usec.and_then(|usec| usec.parse().ok()).filter(|&usec: &u64| usec > 0 && is_meant);
        Self { socket, watchdog: usec.map(Duration::from_micros), ..Self::default() }
    }

    /// Packets are captured.
    pub(crate) fn ready(&self) {
        self.notify("READY=1\nSTATUS=capturing");
    }

    /// The capture is watched; `status` is a line about it.
    pub(crate) fn tick(&mut self, now: Instant, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        if let Some(watchdog) = self.watchdog.filter(|_| self.next_watchdog.is_none_or(|next| now >= next)) {
            self.next_watchdog = Some(now + watchdog / 2);
            self.notify("WATCHDOG=1");
        }
        if self.next_status.is_none_or(|next| now >= next) {
            self.next_status = Some(now + STATUS_PERIOD);
            self.notify(&format!("STATUS={}", in_one_line(&status())));
        }
    }

    /// The capture ends.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=writing what was captured");
    }

    fn notify(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // Fails if the manager is gone or busy: the next one follows.
            let _ = socket.send(text.as_bytes());
        }
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
            let expected = [
                "READY=1\nSTATUS=capturing",
                "WATCHDOG=1",
                "STATUS=lost 0 READY=0",
                "WATCHDOG=1",
                "WATCHDOG=1",
                "STATUS=lost 5 READY=0",
                "WATCHDOG=1",
                "STOPPING=1\nSTATUS=writing what was captured",
            ];
            assert_eq!(received(&socket), expected);
        }
    }

    #[test]
    fn without_a_manager_or_a_watchdog_nothing_is_notified() {
        let mut none = ServiceManager::new(None, Some("1".into()), None);
        none.ready();
        none.tick(Instant::now(), || unreachable!("no manager shows it"));
        let of_other = ServiceManager::new(None, Some("4000000".into()), Some("1".into()));
        assert_eq!(of_other.watchdog, None);
        // A socket that is not there, or no socket at all.
        ServiceManager::new(Some("/nowhere/notify".into()), None, None).ready();
        ServiceManager::new(Some(String::new()), None, None).ready();
        assert_eq!(in_one_line(&"é".repeat(1_000)).len(), MAX_STATUS);
    }
}
