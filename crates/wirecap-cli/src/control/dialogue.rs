//! The control socket as an endpoint: what is said to each client.
//!
//! | request | answered by |
//! |---|---|
//! | `status`, `account`, `watch` | the board, once it has a snapshot that is new enough |
//! | `rotate`, `set` | the desk |
//! | `stop` | the board, once the capture has ended |
//!
//! Rule: a client has one request under way; further input waits in the client's own buffer.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    time::{Duration, Instant},
};

use wirecap_sys::{peer::Peer, signals::Escalation};

use super::{
    board::{Board, CaptureSnapshot, SnapshotAnswer},
    desk::{Answer, Command},
    place::ControlSocket,
    protocol::{Phase, Reply, Request},
    refusal::Refusal,
    sample::Watcher,
};
use crate::serve::{
    endpoint::{Dialogue, Endpoint, Listener, Step, Stream},
    waker::Waker,
};

/// A deadline that never comes: the capture wakes the server instead.
const NEVER: Duration = Duration::from_secs(1 << 30);
/// The interval of `watch`: by default, and its limits.
const USUAL_INTERVAL: Duration = Duration::from_millis(500);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// The endpoint.
#[derive(Debug)]
pub(super) struct ControlEndpoint {
    context: Context,
    /// Removed at the end.
    socket: ControlSocket,
}

/// What all dialogues need.
#[derive(Debug, Clone)]
struct Context {
    board: Arc<Board>,
    commands: Sender<Command>,
    waker: Arc<Waker>,
    escalation: Arc<Escalation>,
}

impl Context {
    /// Ends the capture as SIGINT does, for this process.
    fn stop(&self, peer: &Peer) {
        match self.board.phase() {
            // No thread watches the capture yet: the steps of the start check the signals.
            Phase::Starting => self.escalation.raise(),
            // Fails if it has just ended.
            Phase::Running => _ = self.commands.send(Command::Stop(peer.clone())),
            Phase::Ending => {}
        }
    }
}

impl ControlEndpoint {
    pub(super) fn new(
        socket: ControlSocket,
        board: Arc<Board>,
        commands: Sender<Command>,
        waker: Arc<Waker>,
        escalation: Arc<Escalation>,
    ) -> Self {
        let context = Context { board, commands, waker, escalation };
        Self { context, socket }
    }
}

impl Endpoint for ControlEndpoint {
    fn listener(&self) -> &Listener {
        self.socket.listener()
    }

    fn directory(&self) -> Option<&Path> {
        Some(self.socket.directory())
    }

    fn connect(&self, stream: &Stream) -> Option<Box<dyn Dialogue>> {
        // A peer that cannot be identified is disconnected.
        let peer = Peer::of(stream).ok()?;
        let may_change = self.socket.owner.may_change(&peer);
        Some(Box::new(ControlDialogue {
            context: self.context.clone(),
            peer,
            may_change,
            pending: Pending::Nothing,
        }))
    }
}

/// What a client waits for.
#[derive(Debug)]
enum Pending {
    Nothing,
    Status {
        asked: Instant,
    },
    Account {
        asked: Instant,
    },
    Watch {
        interval: Duration,
        next: Instant,
        sequence: u64,
        sampling: Option<Watcher>,
        /// When the last snapshot that was sent was taken.
        sent: Option<Instant>,
    },
    Command(Receiver<Reply>),
    End,
}

struct ControlDialogue {
    context: Context,
    peer: Peer,
    may_change: bool,
    pending: Pending,
}

impl Dialogue for ControlDialogue {
    fn receive(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Step {
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Step::Listen };
        let line: Vec<u8> = input.drain(..=end).collect();
        match Request::parse(&line).and_then(|request| self.begin(request, output)) {
            Ok(()) => self.proceed(output),
            Err(refusal) => {
                say(&Reply::Error(refusal.into()), output);
                Step::Listen
            }
        }
    }

    fn proceed(&mut self, output: &mut Vec<u8>) -> Step {
        let now = Instant::now();
        match &mut self.pending {
            Pending::Nothing => Step::Listen,
            &mut (Pending::Status { asked } | Pending::Account { asked }) => self.report(asked, now, output),
            Pending::Watch { .. } => self.watch(now, output),
            Pending::Command(replies) => {
                let reply = match replies.try_recv() {
                    Ok(reply) => reply,
                    Err(TryRecvError::Empty) if self.context.board.phase() == Phase::Running => {
                        return Step::Wait(now + NEVER);
                    }
                    Err(_) => Reply::Error(Refusal::Ending.into()),
                };
                self.finish(&reply, output)
            }
            Pending::End => match self.context.board.ended() {
                Some(end) => {
                    say(&Reply::Ended(end), output);
                    Step::Close
                }
                None => Step::Wait(now + NEVER),
            },
        }
    }

    fn refuse_length(&mut self, output: &mut Vec<u8>) {
        say(&Reply::Error(Refusal::Malformed("the line is too long".into()).into()), output);
    }
}

impl ControlDialogue {
    /// Begins what was asked for.
    fn begin(&mut self, request: Request, output: &mut Vec<u8>) -> Result<(), Refusal> {
        if request.changes() && !self.may_change {
            return Err(Refusal::NotPermitted { uid: self.peer.uid });
        }
        let now = Instant::now();
        self.pending = match request {
            Request::Status => Pending::Status { asked: now },
            Request::Account => Pending::Account { asked: now },
            Request::Watch { interval_ms, sample } => {
                let interval = interval_ms.map_or(USUAL_INTERVAL, Duration::from_millis);
                let interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
                let sampling = sample.then(|| self.context.board.sampler.watch());
                Pending::Watch { interval, next: now, sequence: 0, sampling, sent: None }
            }
            Request::Stop => {
                self.context.stop(&self.peer);
                say(&Reply::Stopping, output);
                Pending::End
            }
            Request::Rotate => self.command(Command::Rotate)?,
            Request::Set { settings } => {
                let peer = self.peer.clone();
                self.command(|answer| Command::Set(settings, peer, answer))?
            }
        };
        Ok(())
    }

    fn command(&self, command: impl FnOnce(Answer) -> Command) -> Result<Pending, Refusal> {
        match self.context.board.phase() {
            Phase::Starting => return Err(Refusal::Starting),
            Phase::Running => {}
            Phase::Ending => return Err(Refusal::Ending),
        }
        let (sender, replies) = channel();
        let answer = Answer { sender, waker: Arc::clone(&self.context.waker) };
        self.context.commands.send(command(answer)).map_err(|_| Refusal::Ending)?;
        Ok(Pending::Command(replies))
    }

    /// Answers with a snapshot, if it is there.
    fn report(&mut self, asked: Instant, now: Instant, output: &mut Vec<u8>) -> Step {
        let board = &self.context.board;
        let is_status = matches!(self.pending, Pending::Status { .. });
        let reply = match board.answer_for(asked, now) {
            SnapshotAnswer::At(deadline) => return Step::Wait(deadline),
            SnapshotAnswer::Stuck => Reply::Error(Refusal::Stuck.into()),
            SnapshotAnswer::Now(snapshot) if is_status => Reply::Status(board.status(snapshot.as_deref())),
            SnapshotAnswer::Now(None) => Reply::Error(Refusal::Starting.into()),
            SnapshotAnswer::Now(Some(snapshot)) => {
                Reply::Account { account: snapshot.account.clone(), text: snapshot.text.clone() }
            }
        };
        self.finish(&reply, output)
    }

    /// Adds a report if it is time for one and the client has taken the last one.
    fn watch(&mut self, now: Instant, output: &mut Vec<u8>) -> Step {
        let Pending::Watch { interval, next, sequence, sampling, sent } = &mut self.pending else {
            return Step::Listen;
        };
        let board = &self.context.board;
        if let Some(end) = board.ended() {
            say(&Reply::Ended(end), output);
            return Step::Close;
        }
        if now < *next {
            return Step::Wait(*next);
        }
        if !output.is_empty() {
            // The client reads too slowly, so it gets fewer reports.
            *next = now + *interval;
            return Step::Wait(*next);
        }
        // Not the one that was sent last, even if it is recent enough.
        let is_new = |snapshot: &Arc<CaptureSnapshot>| Some(snapshot.at) != *sent;
        let Some(snapshot) = board.snapshot_for(*next).filter(is_new) else {
            sampling.iter().for_each(Watcher::ask);
            board.want();
            return Step::Wait(now + *interval);
        };
        *sent = Some(snapshot.at);
        let status = board.status(Some(&snapshot));
        let (account, offloads) = (snapshot.account.clone(), snapshot.offloads.clone());
        let sample = snapshot.sample.clone().filter(|_| sampling.is_some());
        say(&Reply::Report { sequence: *sequence, status, account, offloads, sample }, output);
        *sequence += 1;
        // Reports that were missed are skipped.
        *next = (*next + *interval).max(now);
        Step::Wait(*next)
    }

    fn finish(&mut self, reply: &Reply, output: &mut Vec<u8>) -> Step {
        say(reply, output);
        self.pending = Pending::Nothing;
        Step::Listen
    }
}

fn say(reply: &Reply, output: &mut Vec<u8>) {
    output.extend_from_slice(reply.line().as_bytes());
}
