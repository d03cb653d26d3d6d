//! The client's end of control sockets: finding captures, and asking them.
//!
//! Rule: neither a capture that hangs nor a socket that another user has planted holds a client up: each
//! request has a timeout, and answers are bounded.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;

use super::{
    connect,
    place::{self, REMEDY_FOR_HIDDEN},
    protocol::{Request, Status},
    refusal::RefusalRecord,
};

/// How long a capture may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// How long it may take to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take to say its name to a capture that starts.
const NAME_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A connection to a capture.
#[derive(Debug)]
pub(crate) struct ControlClient {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to a socket.
    ///
    /// # Errors
    /// No capture is there, this user may not connect, or it accepts nothing.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        Self::connect_within(path, CONNECT_TIMEOUT)
    }

    fn connect_within(path: &Path, timeout: Duration) -> Result<Self> {
        let name = path.display();
        let stream = connect::within(path, timeout).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => {
                anyhow!("there is no control socket {name}; wirecap status lists the captures")
            }
            ErrorKind::ConnectionRefused => {
                anyhow!(
                    "the capture of {name} was killed: its socket is left over, and nothing answers there"
                )
            }
            ErrorKind::PermissionDenied => {
                anyhow!("this user may not connect to {name}: {REMEDY_FOR_HIDDEN}")
            }
            _ => anyhow!("cannot connect to {name}: {cause}"),
        })?;
        Ok(Self { path: path.into(), stream: BufReader::new(stream) })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The capture refuses, has gone, or does not answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Value> {
        self.ask_within(request, ANSWER_TIMEOUT)
    }

    /// Asks, and waits for the answer: for `limit`, or the usual timeout if that is shorter.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_within(&mut self, request: &Request, limit: Duration) -> Result<Value> {
        self.send(request)?;
        self.answer(Some(limit.min(ANSWER_TIMEOUT)))?.ok_or_else(|| self.gone())
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The capture has gone.
    pub(crate) fn send(&mut self, request: &Request) -> Result<()> {
        let stream = self.stream.get_mut();
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(request.line().as_bytes()).map_err(|_| self.gone())
    }

    /// The next answer; `None` if the capture has closed the connection. Waits for any time without a
    /// timeout.
    ///
    /// # Errors
    /// The capture refuses, or does not answer in time.
    pub(crate) fn answer(&mut self, timeout: Option<Duration>) -> Result<Option<Value>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut line = Vec::new();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            ensure!(left.is_none_or(|left| !left.is_zero()), TimedOut(self.path.clone()));
            self.stream.get_ref().set_read_timeout(left)?;
            // One read per turn: a peer that sends a byte now and then does not extend the deadline.
            match self.stream.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(bytes) => {
                    let end = bytes.iter().position(|&byte| byte == b'\n');
                    let used = end.map_or(bytes.len(), |end| end + 1);
                    ensure!(
                        line.len() + used <= MAX_ANSWER,
                        "the answer from {} is too long",
                        self.path.display()
                    );
                    line.extend_from_slice(&bytes[..used]);
                    self.stream.consume(used);
                    if end.is_some() {
                        break;
                    }
                }
                Err(cause) if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(cause) => bail!("cannot read from {}: {cause}", self.path.display()),
            }
        }
        let fields: Value = serde_json::from_slice(&line)
            .map_err(|_| anyhow!("{} is no control socket of wirecap", self.path.display()))?;
        if fields["reply"] == "error" {
            let refusal: RefusalRecord = serde_json::from_value(fields).map_err(|_| {
                anyhow!(
                    "{} refuses for a reason that this version of wirecap does not know",
                    self.path.display()
                )
            })?;
            return Err(anyhow!(Refused(refusal)));
        }
        Ok(Some(fields))
    }

    /// The error of a capture that has closed the connection.
    pub(crate) fn gone(&self) -> anyhow::Error {
        anyhow!(
            "the capture of {} has closed the connection: it has just ended, or has too many clients",
            self.path.display()
        )
    }

    /// The state of the capture.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn status(&mut self) -> Result<Status> {
        let answer = self.ask(&Request::Status)?;
        serde_json::from_value(answer).map_err(|cause| {
            anyhow!("{} belongs to a capture of another version: {cause}", self.path.display())
        })
    }
}

/// The capture did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the capture of {} does not answer", .0.display())]
pub(crate) struct TimedOut(PathBuf);

/// The capture refused.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub(crate) struct Refused(pub(crate) RefusalRecord);

/// A capture that was found.
#[derive(Debug)]
pub(crate) struct FoundCapture {
    pub(crate) socket: PathBuf,
    /// Its state, or why it is not known.
    pub(crate) status: Result<Status>,
}

/// The sockets of all captures that this user can reach. Skips those that are left over.
fn sockets() -> impl Iterator<Item = PathBuf> {
    let sockets =
        place::directories().into_iter().flat_map(|directory| place::sockets(&directory).unwrap_or_default());
    sockets.filter(|socket| !connect::is_left_over(socket))
}

/// All captures that this user can reach.
pub(crate) fn find() -> Vec<FoundCapture> {
    let found = sockets().map(|socket| {
        let status = ControlClient::connect(&socket).and_then(|mut client| client.status());
        FoundCapture { socket, status }
    });
    // One that has ended in the meantime is none.
    let mut found: Vec<_> =
        found.filter(|capture| capture.status.is_ok() || !connect::is_gone(&capture.socket)).collect();
    found.sort_by_key(|capture| capture.status.as_ref().map_or(u32::MAX, |status| status.pid));
    found
}

/// The process id of a capture of this name; `None` if none that answers at once has it. Takes `timeout` at
/// most.
pub(crate) fn pid_of(name: &str, timeout: Duration) -> Option<u32> {
    let deadline = Instant::now() + timeout;
    let left = || deadline.saturating_duration_since(Instant::now()).min(NAME_TIMEOUT);
    sockets().take_while(|_| !left().is_zero()).find_map(|socket| {
        let status = status_within(&socket, left())?;
        status.name.as_deref().is_some_and(|other| other == name).then_some(status.pid)
    })
}

/// The state of a capture that answers within about `limit`.
fn status_within(socket: &Path, limit: Duration) -> Option<Status> {
    let mut client = ControlClient::connect_within(socket, limit).ok()?;
    let answer = client.ask_within(&Request::Status, limit).ok()?;
    serde_json::from_value(answer).ok()
}

/// A capture, for users: `498 (sensor: eth2, eth3)`, or by its socket if it does not say that at once.
pub(crate) fn label(socket: &Path) -> String {
    match status_within(socket, NAME_TIMEOUT) {
        Some(status) => choices([&status]),
        None => socket.display().to_string(),
    }
}

/// Captures to choose from: `312 (eth1), 498 (sensor: eth2, eth3)`.
pub(crate) fn choices<'a>(statuses: impl IntoIterator<Item = &'a Status>) -> String {
    let choice = |status: &Status| {
        let name = status.name.iter().map(|name| format!("{name}: ")).collect::<String>();
        format!("{} ({name}{})", status.pid, status.ports.join(", "))
    };
    statuses.into_iter().map(choice).collect::<Vec<_>>().join(", ")
}

/// The socket of a capture by its process id, its name, or the path of the socket; `None` means the only one.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn socket_of(target: Option<&str>) -> Result<PathBuf> {
    if let Some(path) = target.filter(|target| target.contains('/')) {
        return Ok(path.into());
    }
    if let Some(pid) = target.and_then(|target| target.parse::<u32>().ok()) {
        let in_directory = |directory: PathBuf| directory.join(format!("{pid}.sock"));
        let mut sockets = place::directories().into_iter().map(in_directory);
        return sockets.find(|socket| socket.exists()).ok_or_else(|| {
            let hidden = match place::hidden_directories().is_empty() {
                true => String::new(),
                false => format!(", unless it is hidden from this user: {REMEDY_FOR_HIDDEN}"),
            };
            anyhow!(
                "no capture that wirecap status lists has process id {pid}{hidden}; for one that was started with --control PATH, write \
                 that PATH, with a / in it; one with --control off has no socket"
            )
        });
    }
    if target.is_none() {
        // The only one needs no choice, and it may be one that does not answer.
        let mut all = sockets();
        if let (Some(one), None) = (all.next(), all.next()) {
            return Ok(one);
        }
    }
    let mut found = find();
    let silent = found.iter().filter(|capture| capture.status.is_err()).count();
    if let Some(name) = target {
        let is_named = |capture: &FoundCapture| {
            capture.status.as_ref().is_ok_and(|status| status.name.as_deref() == Some(name))
        };
        found.retain(is_named);
    }
    match found.as_slice() {
        [one] => Ok(one.socket.clone()),
        [] => match target {
            Some(name) => match silent {
                0 => bail!(
                    "no capture that wirecap status lists is named {name}; for one that was started with --control PATH, write that PATH, with a / in it"
                ),
                _ => bail!("no capture that answers is named {name}; wirecap status lists those that do not"),
            },
            None => bail!(
                "no capture of root, of a service or of this user can be reached; for one that was started with --control PATH, write that PATH, with a / in it"
            ),
        },
        several => {
            let statuses = several.iter().filter_map(|capture| capture.status.as_ref().ok());
            bail!(usage!("there are several captures: write one of the process ids {}", choices(statuses)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    #[test]
    fn a_peer_that_sends_a_byte_now_and_then_does_not_extend_the_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let slow = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            // Until the client is gone.
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        let mut client = ControlClient::connect(&path).unwrap();
        let error = client.answer(Some(Duration::from_millis(300))).unwrap_err();
        assert!(error.is::<TimedOut>() && begun.elapsed() < Duration::from_secs(5), "{error}");
        drop(client);
        slow.join().unwrap();
    }
}
