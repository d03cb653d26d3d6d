//! Clients that stall, flood and say too much, and those beside them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::Mutex,
};

use super::{
    super::endpoint::{Dialogue, Listener, Step, Stream},
    *,
};

/// Answers each line with the same line; `wait` after the next wake-up, and `big` with 8 MiB.
struct Echo(Listener);

impl Endpoint for Echo {
    fn listener(&self) -> &Listener {
        &self.0
    }

    fn connect(&self, _: &Stream) -> Option<Box<dyn Dialogue>> {
        Some(Box::new(EchoDialogue))
    }
}

struct EchoDialogue;

impl Dialogue for EchoDialogue {
    fn receive(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Step {
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Step::Listen };
        let line: Vec<u8> = input.drain(..=end).collect();
        match line.as_slice() {
            b"wait\n" => return Step::Wait(Instant::now() + Duration::from_secs(100)),
            b"big\n" => output.resize(8 << 20, b'x'),
            line => output.extend(line),
        }
        Step::Listen
    }

    fn proceed(&mut self, output: &mut Vec<u8>) -> Step {
        output.extend(b"woken\n");
        Step::Listen
    }

    fn refuse_length(&mut self, output: &mut Vec<u8>) {
        output.extend(b"too long\n");
    }
}

struct Bed {
    path: PathBuf,
    waker: Arc<Waker>,
    server: Mutex<Option<Server>>,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let waker = Arc::new(Waker::new().unwrap());
        let endpoints: Vec<Box<dyn Endpoint>> = vec![Box::new(Echo(Listener::Unix(listener)))];
        let server = Server::start(endpoints, Arc::clone(&waker), Sandbox::off()).unwrap();
        Self { path, waker, server: Mutex::new(Some(server)), _directory: directory }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        BufReader::new(stream)
    }
}

fn ask(client: &mut BufReader<UnixStream>, line: &str) -> String {
    client.get_mut().write_all(line.as_bytes()).unwrap();
    answer(client)
}

fn answer(client: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

#[test]
fn requests_are_answered_one_by_one_also_if_they_come_together_or_in_pieces() {
    let bed = Bed::new();
    let mut client = bed.connect();
    assert_eq!(ask(&mut client, "one\n"), "one\n");
    client.get_mut().write_all(b"two\nthree\nfo").unwrap();
    assert_eq!((answer(&mut client), answer(&mut client)), ("two\n".into(), "three\n".into()));
    assert_eq!(ask(&mut client, "ur\n"), "four\n");
    // A client that sends nothing more still gets its answer.
    client.get_mut().write_all(b"last\n").unwrap();
    client.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!((answer(&mut client), answer(&mut client)), ("last\n".into(), String::new()));
}

#[test]
fn a_waiting_client_is_answered_when_the_capture_wakes_the_server() {
    let bed = Bed::new();
    let (mut waiting, mut other) = (bed.connect(), bed.connect());
    waiting.get_mut().write_all(b"wait\n").unwrap();
    assert_eq!(ask(&mut other, "x\n"), "x\n", "others do not wait");
    std::thread::sleep(Duration::from_millis(50));
    bed.waker.wake();
    assert_eq!(answer(&mut waiting), "woken\n");
    // The last answer is sent before the server ends.
    waiting.get_mut().write_all(b"wait\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    drop(bed.server.lock().unwrap().take());
    assert_eq!(answer(&mut waiting), "woken\n");
}

#[test]
fn clients_that_say_nothing_or_take_nothing_do_not_keep_others_out() {
    let bed = Bed::new();
    let mut stalled = bed.connect();
    stalled.get_mut().write_all(b"big\n").unwrap();
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        // Only 300 stay open: a process has a limit on open files.
        idle.push(bed.connect());
        idle.truncate(300);
    }
    let begun = Instant::now();
    let mut client = bed.connect();
    assert_eq!(ask(&mut client, "x\n"), "x\n");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // The one that has asked was not disconnected by the others, but by its own silence.
    std::thread::sleep(Duration::from_secs(6));
    let mut rest = Vec::new();
    let read = stalled.read_to_end(&mut rest);
    assert!(read.is_err() || rest.len() < 8 << 20, "{}", rest.len());
}

#[test]
fn a_request_that_is_too_long_is_refused() {
    let bed = Bed::new();
    let mut client = bed.connect();
    // The server may close before it has read everything.
    let _ = client.get_mut().write_all(&[b'x'; 64 << 10]);
    assert_eq!(answer(&mut client), "too long\n");
}

#[test]
fn a_client_that_asks_without_reading_gets_no_more_answers() {
    let bed = Bed::new();
    let mut flood = bed.connect();
    flood.get_ref().set_nonblocking(true).unwrap();
    let line = [[b'x'; 1_023].as_slice(), b"\n"].concat();
    let (begun, mut bytes) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(1) {
        match flood.get_mut().write(&line) {
            Ok(written) => bytes += written,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    // What the two sockets and the server hold.
    assert!(bytes < 4 << 20, "{bytes}");
    assert_eq!(ask(&mut bed.connect(), "x\n"), "x\n");
    // Once it reads, it gets all of them.
    flood.get_ref().set_nonblocking(false).unwrap();
    let lines = bytes.div_ceil(line.len());
    if bytes % line.len() > 0 {
        flood.get_mut().write_all(&line[bytes % line.len()..]).unwrap();
    }
    for number in 0..lines {
        assert_eq!(answer(&mut flood).len(), line.len(), "{number}");
    }
}
