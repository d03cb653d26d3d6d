//! `wirecap capture --copy-to IFACE`: a copy of each packet leaves by another interface, for a program that
//! captures there.
//!
//! ```text
//!   worker 0 ─ batch ─► frames, copied ─┐ at most 16 MiB          thread
//!   worker 1 ─ batch ─► frames, copied ─┴──────────────► packet socket ─► IFACE ═ veth ═ an IDS
//!                        └── no room: dropped, counted
//! ```
//!
//! Rule: the capture never waits for the copy.

use std::{
    io,
    os::{fd::AsFd, unix::fs::FileTypeExt},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use serde::Serialize;
use serde_json::{Map, Value};
use wirecap::{Batch, Capture, PortSpec, Report};
use wirecap_sandbox::{Profile, Sandbox};
use wirecap_sys::netdev::{self, FrameSocket, bypass_queueing};

use crate::{
    capture::{
        job::{BatchHandler, Job},
        written_files::FilesProgress,
    },
    print::layout::paragraph,
    process::idle_thread::IdleThread,
    text::plural::counted,
};

/// The most bytes that wait for the thread, and buffers, which may be nearly empty.
const WAITING_BYTES: usize = 16 << 20;
const WAITING_BUFFERS: usize = 4096;
/// When a buffer is handed over in the middle of a batch.
const BUFFER_BYTES: usize = 128 << 10;
/// Empty buffers that are kept.
const EMPTY_BUFFERS: usize = 64;

/// What became of copies. Relaxed: figures that order nothing.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes that wait for the thread.
    waiting_bytes: AtomicUsize,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    behind: AtomicU64,
    too_long: AtomicU64,
    refused: AtomicU64,
}

/// What became of the copies of packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CopyReport {
    /// The interface by which they left.
    to: String,
    /// Packets that it accepted.
    packets: u64,
    /// Their length, in bytes.
    bytes: u64,
    /// Packets that it did not get, by cause.
    dropped: DroppedCopies,
}

/// Packets that were not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DroppedCopies {
    /// Because the copy was behind.
    behind: u64,
    /// Because they are longer than the interface's MTU allows: segments that a NIC would cut up, too.
    too_long: u64,
    /// Because the interface was down or gone, or had no room.
    refused: u64,
}

/// The job that copies packets to an interface.
#[derive(Debug)]
pub(crate) struct CopyJob {
    to: String,
    counts: Arc<Counts>,
    /// Until it begins.
    start: Option<(IdleThread, FrameSocket)>,
    thread: Option<JoinHandle<()>>,
    sandbox: Sandbox,
}

impl CopyJob {
    /// Opens the interface.
    ///
    /// # Errors
    /// No interface has this name, the capture takes its packets from it, or CAP_NET_RAW is missing.
    pub(crate) fn new(to: &str, captured: &[PortSpec], sandbox: &Sandbox) -> Result<Self> {
        let is_pipe = || Path::new(to).metadata().is_ok_and(|found| found.file_type().is_fifo());
        let interface = netdev::interface(to).map_err(|error| match is_pipe() {
            true => anyhow!("{error}; for the pipe of this name write --copy-to ./{to}"),
            false => anyhow!("{error}; for a pipe, write its path: --copy-to ./PIPE"),
        })?;
        // By number: an interface has several names.
        let is_target = |port: &PortSpec| match port {
            PortSpec::Interface { name, .. } => {
                netdev::interface(name).is_ok_and(|captured| captured.ifindex == interface.ifindex)
            }
            _ => false,
        };
        if captured.iter().any(is_target) {
            bail!(usage!("--copy-to {to}: that is captured; name another interface, for instance a veth"));
        }
        let cannot = |cause: io::Error| {
            let hint = match cause.kind() {
                io::ErrorKind::PermissionDenied => "; run as root (sudo), or with the capability cap_net_raw",
                _ => "",
            };
            anyhow!("cannot send to {to}: {cause}{hint}")
        };
        let socket = FrameSocket::new().map_err(cannot)?;
        socket.bind(interface.ifindex).map_err(cannot)?;
        // A copy that waits in a queueing discipline is no use.
        bypass_queueing(socket.as_fd()).map_err(cannot)?;
        let thread = IdleThread::start("wirecap-copy")?;
        let (start, sandbox) = (Some((thread, socket)), sandbox.clone());
        Ok(Self { to: to.into(), counts: Arc::default(), start, thread: None, sandbox })
    }

    fn report(&self) -> CopyReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { sent, sent_bytes, behind, too_long, refused, .. } = &*self.counts;
        CopyReport {
            to: self.to.clone(),
            packets: read(sent),
            bytes: read(sent_bytes),
            dropped: DroppedCopies { behind: read(behind), too_long: read(too_long), refused: read(refused) },
        }
    }
}

/// Frames, one behind the other.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Frames {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let begins = [0].iter().chain(&self.ends);
        begins.zip(&self.ends).map(|(&begin, &end)| &self.bytes[begin..end])
    }
}

/// What copies the packets of one worker.
#[derive(Debug)]
pub(crate) struct CopyWorker {
    frames: Frames,
    full: SyncSender<Frames>,
    /// Buffers that the thread has emptied.
    empty: Arc<Mutex<Vec<Frames>>>,
    counts: Arc<Counts>,
}

impl CopyWorker {
    /// Hands the frames over, or drops them.
    fn flush(&mut self) {
        if self.frames.ends.is_empty() {
            return;
        }
        let next = self.empty.lock().ok().and_then(|mut empty| empty.pop());
        let frames = std::mem::replace(&mut self.frames, next.unwrap_or_default());
        let (len, waiting) = (frames.bytes.len(), &self.counts.waiting_bytes);
        let refused = match waiting.fetch_add(len, Ordering::Relaxed) + len <= WAITING_BYTES {
            true => self.full.try_send(frames).err(),
            false => Some(TrySendError::Full(frames)),
        };
        if let Some(TrySendError::Full(mut frames) | TrySendError::Disconnected(mut frames)) = refused {
            waiting.fetch_sub(len, Ordering::Relaxed);
            self.counts.behind.fetch_add(frames.ends.len() as u64, Ordering::Relaxed);
            frames.clear();
            self.frames = frames;
        }
    }
}

impl BatchHandler for CopyWorker {
    fn batch(&mut self, batch: Batch) {
        for packet in &batch {
            packet.parts().for_each(|part| self.frames.bytes.extend_from_slice(part));
            self.frames.ends.push(self.frames.bytes.len());
            if self.frames.bytes.len() >= BUFFER_BYTES {
                self.flush();
            }
        }
        drop(batch);
        self.flush();
    }
}

/// Sends what the workers hand over, until the last of them has ended.
fn send_all(socket: &FrameSocket, full: &Receiver<Frames>, empty: &Mutex<Vec<Frames>>, counts: &Counts) {
    for mut frames in full {
        for frame in frames.each() {
            send(socket, frame, counts);
        }
        counts.waiting_bytes.fetch_sub(frames.bytes.len(), Ordering::Relaxed);
        frames.clear();
        let empty = empty.lock().ok().filter(|empty| empty.len() < EMPTY_BUFFERS);
        if let Some(mut empty) = empty {
            empty.push(frames);
        }
    }
}

fn send(socket: &FrameSocket, frame: &[u8], counts: &Counts) {
    let result = loop {
        match socket.send(frame) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            result => break result,
        }
    };
    let counter = match result {
        Ok(_) => {
            counts.sent_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
            &counts.sent
        }
        Err(cause) if cause.raw_os_error() == Some(Errno::EMSGSIZE as i32) => &counts.too_long,
        Err(_) => &counts.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Job for CopyJob {
    const COMMAND: &'static str = "capture";
    const HAS_ENGINE_FLAGS: bool = true;
    type BatchHandler = CopyWorker;

    fn begin(
        &mut self,
        _: &mut Capture,
        workers: usize,
        _: Option<FilesProgress>,
    ) -> Result<Vec<CopyWorker>> {
        let (thread, socket) = self.start.take().expect("it begins once");
        let (full, waiting) = sync_channel(WAITING_BUFFERS);
        let empty = Arc::<Mutex<Vec<Frames>>>::default();
        let worker = || CopyWorker {
            frames: Frames::default(),
            full: full.clone(),
            empty: Arc::clone(&empty),
            counts: Arc::clone(&self.counts),
        };
        let workers = (0..workers).map(|_| worker()).collect();
        let (counts, empty) = (Arc::clone(&self.counts), Arc::clone(&empty));
        let sandbox = self.sandbox.clone();
        self.thread = Some(thread.run(move || {
            sandbox.enter(&Profile::Worker);
            send_all(&socket, &waiting, &empty, &counts);
        }));
        Ok(workers)
    }

    fn end(&mut self) {
        // The workers have ended, so the thread sends what waits and ends.
        self.thread.take().map(JoinHandle::join);
    }

    fn describe(&self, _: &Report) -> String {
        let CopyReport { to, packets, dropped, .. } = self.report();
        let DroppedCopies { behind, too_long, refused } = dropped;
        let mut line = format!("{} copied to {to}", counted(packets, "packet"));
        let causes =
            [(behind, "the copy was behind"), (too_long, "too long for it"), (refused, "not accepted")];
        for (packets, cause) in causes.into_iter().filter(|(packets, _)| *packets > 0) {
            line += &format!("; {packets} not: {cause}");
        }
        paragraph(&line)
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let report = serde_json::to_value(self.report()).expect("figures and a name");
        Map::from_iter([("copied".to_owned(), report)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let (full, waiting) = sync_channel(1);
        let counts = Arc::<Counts>::default();
        let mut worker = CopyWorker {
            frames: Frames::default(),
            full,
            empty: Arc::default(),
            counts: Arc::clone(&counts),
        };
        for number in 0..3_u8 {
            worker.frames.bytes.extend([number; 60]);
            worker.frames.ends.push(60);
            worker.flush();
        }
        assert_eq!(counts.behind.load(Ordering::Relaxed), 2);
        let frames = waiting.recv().unwrap();
        assert_eq!(frames.each().collect::<Vec<_>>(), [[0; 60]]);
        // With room for a buffer, and not for its bytes.
        counts.waiting_bytes.store(WAITING_BYTES, Ordering::Relaxed);
        worker.frames.bytes.push(7);
        worker.frames.ends.push(1);
        worker.flush();
        assert_eq!((counts.behind.load(Ordering::Relaxed), waiting.try_recv().is_err()), (3, true));
    }

    #[test]
    fn a_captured_interface_is_no_place_for_copies() {
        for port in ["lo", "xdp:lo@0-3", "tap:lo"] {
            let refused =
                CopyJob::new("lo", &[PortSpec::from(port)], &Sandbox::off()).unwrap_err().to_string();
            assert!(refused.contains("that is captured"), "{port}: {refused}");
        }
    }
}
