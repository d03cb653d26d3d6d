//! Where the reports come from: the control socket of a capture that runs, or of a child that captures.

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, mkdtemp},
};
use serde::Deserialize;
use serde_json::Value;
use wirecap_sys::netdev::namespace_id;

use super::{
    flags::TopFlags,
    news::{Inbox, News, Sender},
};
use crate::{
    commands::control::status::warn_of_hidden,
    control::{
        client::{ControlClient, choices, find, socket_of},
        protocol::{EndRecord, Request, Status},
    },
    exit::Exit,
    message::{Level, Message},
    print::stdio::{print_message, print_stdout},
    process::signals::Signals,
    text::error::MORE_THREADS,
};

/// How often to look for the socket of a capture that starts.
const TICK: Duration = Duration::from_millis(20);
/// How long the end may take before a message says what it waits for.
const LONG: Duration = Duration::from_secs(2);
/// Messages that are kept until the end.
const MAX_MESSAGES: usize = 1_000;

/// Why the display ended.
#[derive(Debug)]
pub(super) enum Shown {
    /// The user has seen enough.
    Quit,
    /// The capture has ended.
    Ended(Option<EndRecord>),
}

/// A capture that is watched.
#[derive(Debug)]
pub(super) struct Source {
    /// Taken when watching begins.
    client: Option<ControlClient>,
    own: Option<OwnCapture>,
    pub(super) news: Inbox,
}

impl Source {
    /// Finds the capture, or starts one.
    ///
    /// # Errors
    /// No capture or several match, or the new capture cannot start.
    pub(super) fn open(flags: &TopFlags, signals: &Signals) -> Result<Self> {
        let news = Inbox::default();
        let running = if flags.capture.is_empty() { socket_for(&flags.targets)? } else { None };
        let (client, own) = match running {
            Some(socket) => (ControlClient::connect(&socket)?, None),
            None => {
                let (own, client) = OwnCapture::start(flags, signals, news.sender())?;
                (client, Some(own))
            }
        };
        Ok(Self { client: Some(client), own, news })
    }

    /// Whether the command started the capture.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Requests reports, and receives them in a separate thread.
    ///
    /// # Errors
    /// The capture is gone, or there are too many threads.
    pub(super) fn watch(&mut self, interval: Duration) -> Result<()> {
        let Some(mut client) = self.client.take() else { return Ok(()) };
        let interval_ms = u64::try_from(interval.as_millis()).ok();
        let request = Request::Watch { interval_ms, sample: true };
        client.send(&request)?;
        let sender = self.news.sender();
        let receive = move || {
            let mut has_come = false;
            loop {
                let answer = client.answer(None);
                // A capture disconnects clients that read nothing for a while, as this one does while it is
                // stopped.
                if matches!(answer, Ok(None)) && std::mem::take(&mut has_come) {
                    if let Ok(again) = connect_again(&client, &request) {
                        client = again;
                        continue;
                    }
                }
                let news = match answer.and_then(|answer| answer.map_or_else(gone, read)) {
                    Ok(news) => news,
                    Err(error) => News::Failed(error),
                };
                has_come = true;
                let is_last = !matches!(news, News::Report(_));
                if !sender.send(news) || is_last {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("wirecap-reports".into())
            .spawn(receive)
            .map_err(|cause| anyhow!("cannot start a thread: {cause}{MORE_THREADS}"))?;
        Ok(())
    }

    /// Ends a capture that the command started, and prints what the user should know once the screen is gone.
    ///
    /// # Errors
    /// Those of `shown`; the capture failed.
    pub(super) fn close(self, shown: Result<Shown>) -> Result<Exit> {
        let Some(own) = self.own else {
            if let Shown::Ended(end) = shown? {
                let Some(end) = end else {
                    bail!(
                        "the capture has closed the connection: it was killed, or this command was stopped for too long"
                    )
                };
                print_stdout("how the capture ended", &format!("{end}\n"))?;
            }
            return Ok(Exit::Fine);
        };
        let exit = own.end()?;
        shown?;
        Ok(exit)
    }
}

/// The socket of a capture that runs; `None` if these are interfaces that no capture has.
fn socket_for(targets: &[String]) -> Result<Option<PathBuf>> {
    let [target, ..] = targets else { return socket_of(None).map(Some) };
    if target.starts_with("trace:") {
        return Ok(None);
    }
    let is_number = target.bytes().all(|letter| letter.is_ascii_digit());
    if targets.len() == 1 && (is_number || target.contains('/')) {
        return socket_of(Some(target)).map(Some);
    }
    warn_of_hidden();
    let own = namespace_id().ok().map(|(_, inode)| inode);
    let matches = |status: &Status| {
        // Other namespaces have interfaces of the same names.
        let is_here = own.is_none() || status.network_namespace.is_none() || status.network_namespace == own;
        let is_of = |port: &str, target: &str| match target.contains('@') {
            true => port == target,
            false => base(port) == base(target),
        };
        let has = |target: &String| is_here && status.ports.iter().any(|port| is_of(port, target));
        (targets.len() == 1 && status.name.as_ref() == Some(target)) || targets.iter().all(has)
    };
    let found = find().into_iter().filter_map(|capture| Some((capture.status.ok()?, capture.socket)));
    let mut found: Vec<_> = found.filter(|(status, _)| matches(status)).collect();
    if found.len() > 1 {
        let statuses = found.iter().map(|(status, _)| status);
        bail!(usage!("several captures match: write one of the process ids {}", choices(statuses)));
    }
    Ok(found.pop().map(|(_, socket)| socket))
}

/// The interface of a port: `xdp:eth1@0-3` is of `eth1`.
fn base(port: &str) -> &str {
    let name =
        ["xdp:", "tap:", "packet:"].iter().find_map(|prefix| port.strip_prefix(prefix)).unwrap_or(port);
    name.split('@').next().unwrap_or(name)
}

fn connect_again(client: &ControlClient, request: &Request) -> Result<ControlClient> {
    let mut again = ControlClient::connect(client.path())?;
    again.send(request)?;
    Ok(again)
}

fn gone() -> Result<News> {
    Ok(News::Ended(None))
}

fn read(answer: Value) -> Result<News> {
    let unknown = |cause| anyhow!("the capture is of another version of wirecap: {cause}");
    Ok(match answer["reply"].as_str() {
        Some("ended") => News::Ended(Some(serde_json::from_value(answer).map_err(unknown)?)),
        _ => News::Report(serde_json::from_value(answer).map_err(unknown)?),
    })
}

/// A capture that was started to be watched.
#[derive(Debug)]
struct OwnCapture {
    child: Child,
    account: JoinHandle<String>,
    messages: JoinHandle<VecDeque<Message>>,
    /// Of its socket; removed at the end.
    directory: PathBuf,
}

/// A line of `--log json`.
#[derive(Debug, Deserialize)]
struct MessageLine {
    level: Level,
    text: String,
}

impl OwnCapture {
    /// Starts it, and connects to its socket.
    fn start(flags: &TopFlags, signals: &Signals, news: Sender) -> Result<(Self, ControlClient)> {
        let template = env::temp_dir().join("wirecap-top-XXXXXX");
        let directory = mkdtemp(&template)
            .map_err(|cause| anyhow!("cannot make the directory {}: {cause}", template.display()))?;
        let socket = directory.join("control.sock");
        let mut words: Vec<OsString> = vec!["capture".into(), "--log".into(), "json".into()];
        words.extend(["--control".into(), socket.clone().into()]);
        words.extend(["--end-with".into(), std::process::id().to_string().into()]);
        words.extend(flags.targets.iter().map(Into::into));
        words.extend(flags.capture.iter().cloned());
        let program =
            env::current_exe().map_err(|cause| anyhow!("cannot find the program that runs: {cause}"))?;
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|cause| anyhow!("cannot start wirecap capture: {cause}"))
            .inspect_err(|_| _ = fs::remove_dir(&directory));
        let mut child = child?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let account = thread::spawn(move || {
            let mut text = String::new();
            // After an error, keeps the part of the account that was read.
            let _ = stdout.map(|mut stdout| stdout.read_to_string(&mut text));
            text
        });
        let messages = thread::spawn(move || {
            let lines = stderr.map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok));
            let mut kept = VecDeque::new();
            for line in lines.into_iter().flatten() {
                let message = message(line);
                news.send(News::Message(message.clone()));
                if message.level() != Level::Note {
                    if kept.len() == MAX_MESSAGES {
                        kept.pop_front();
                    }
                    kept.push_back(message);
                }
            }
            kept
        });
        let mut own = Self { child, account, messages, directory };
        loop {
            if own.child.try_wait()?.is_some() {
                let what = "wirecap capture could not start; it says why above";
                return match own.end()? {
                    Exit::Usage => Err(usage!("{what}").into()),
                    _ => Err(anyhow!(what)),
                };
            }
            if signals.end() {
                own.end()?;
                bail!("a signal came before the capture had started");
            }
            match socket.exists().then(|| ControlClient::connect(&socket)) {
                Some(Ok(client)) => return Ok((own, client)),
                Some(Err(_)) | None => thread::sleep(TICK),
            }
        }
    }

    /// Ends it, and prints its account, its warnings and its errors.
    fn end(mut self) -> Result<Exit> {
        let (begun, mut is_noted) = (Instant::now(), false);
        let mut status = self.child.try_wait()?;
        if status.is_none() {
            // Fails if it has just ended.
            let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        }
        let status = loop {
            match status {
                Some(status) => break status,
                None if begun.elapsed() >= LONG && !is_noted => {
                    note!("the capture writes what is left; Ctrl-C gives that up");
                    is_noted = true;
                }
                None => thread::sleep(TICK),
            }
            status = self.child.try_wait()?;
        };
        let account = self.account.join().unwrap_or_default();
        let messages = self.messages.join().unwrap_or_default();
        let _ = fs::remove_dir_all(&self.directory);
        print_stdout("the account", &account)?;
        messages.iter().for_each(print_message);
        Ok(match status.code() {
            Some(0) => Exit::Fine,
            Some(2) => Exit::Usage,
            Some(3) => Exit::Lost,
            _ => Exit::Failed,
        })
    }
}

/// A line of standard error as a message. What comes before `--log` is read is no JSON.
fn message(line: String) -> Message {
    match serde_json::from_str(&line) {
        Ok(MessageLine { level, text }) => Message::new(level, text),
        Err(_) => Message::error(line.strip_prefix("wirecap: ").unwrap_or(&line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_of_an_interface() {
        for port in ["eth1", "xdp:eth1", "tap:eth1@0-3", "packet:eth1", "eth1@2"] {
            assert_eq!(base(port), "eth1");
        }
        assert_ne!(base("eth1.100"), "eth1");
        assert_ne!(base("trace:eth1"), "eth1");
    }

    #[test]
    fn lines_of_a_capture_keep_their_level() {
        let json = r#"{"time":"x","level":"warning","code":"lost","text":"eth1 lost 3 packets"}"#;
        assert_eq!(message(json.into()), Message::warning("eth1 lost 3 packets"));
        assert_eq!(message("wirecap: unexpected flag".into()), Message::error("unexpected flag"));
    }

    #[test]
    fn only_answers_of_the_protocol_are_news() {
        let ended = serde_json::json!({
            "reply": "ended", "exit_code": 0, "end": "stop", "error": null, "output": null, "written": 0, "files": 0
        });
        assert!(matches!(read(ended).unwrap(), News::Ended(Some(EndRecord { exit_code: 0, .. }))));
        assert!(read(serde_json::json!({ "reply": "report", "status": 1 })).is_err());
        assert!(matches!(gone().unwrap(), News::Ended(None)));
    }
}
