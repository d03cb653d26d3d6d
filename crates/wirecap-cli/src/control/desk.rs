//! The desk of a capture: where the thread that watches it takes requests and answers them.
//!
//! ```text
//!   client ─► dialogue ── Command ──► Desk::take, once per tick ─┬─► done, and answered
//!                 ▲                                              ├─► a rotation: answered once all files are complete
//!                 └── Reply, and the server is woken ◄───────────┴─► DeskEvent: for the watching thread
//! ```
//!
//! Rule: a tick does what has come, and waits for nothing.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, TryRecvError},
    },
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Map, Value};
use wirecap::Capture;
use wirecap_record::{CompleteFile, Rotator};
use wirecap_sys::peer::Peer;

use super::{
    board::{Board, CaptureSnapshot, SNAPSHOT_PERIOD},
    protocol::{Change, CompleteFileRecord, Reply},
    refusal::Refusal,
};
use crate::serve::waker::Waker;

/// The most commands of one tick.
const MAX_COMMANDS: usize = 64;
/// The names of settings that can be changed.
pub(crate) const THRESHOLD: &str = "threshold_percent";
pub(crate) const DURATION: &str = "duration_ms";

/// What a client wants of the capture.
#[derive(Debug)]
pub(super) enum Command {
    Stop(Peer),
    Rotate(Answer),
    Set(Map<String, Value>, Peer, Answer),
}

/// Where the answer to a command goes.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) sender: Sender<Reply>,
    pub(super) waker: Arc<Waker>,
}

impl Answer {
    fn send(self, reply: Reply) {
        // Fails if the client is gone.
        let _ = self.sender.send(reply);
        self.waker.wake();
    }
}

/// What a command means for the watching thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeskEvent {
    /// The capture has to end: this process wants it.
    Stop(Peer),
    /// A setting was changed.
    Changed(Change),
    /// The capture has to end after this time, counted from its start.
    EndsAfter(Duration),
}

/// Rotations that are under way.
#[derive(Debug)]
struct Rotation {
    waiting: Vec<Receiver<CompleteFile>>,
    complete: Vec<CompleteFileRecord>,
    answer: Answer,
}

/// The desk.
#[derive(Debug)]
pub(crate) struct Desk {
    board: Arc<Board>,
    commands: Receiver<Command>,
    /// Of each output that is a series.
    rotators: Vec<Rotator>,
    rotations: Vec<Rotation>,
    /// When a snapshot was last published.
    published: Option<Instant>,
}

impl Desk {
    pub(super) fn new(board: Arc<Board>, commands: Receiver<Command>) -> Self {
        let (rotators, rotations) = (Vec::new(), Vec::new());
        Self { board, commands, rotators, rotations, published: None }
    }

    /// What begins the next files of the capture.
    pub(crate) fn set_rotators(&mut self, rotators: Vec<Rotator>) {
        self.rotators = rotators;
    }

    /// Executes the commands of clients; `duration` is the limit that is in force.
    pub(crate) fn take(&mut self, capture: &Capture, mut duration: Option<Duration>) -> Vec<DeskEvent> {
        let mut events = Vec::new();
        for command in self.commands.try_iter().take(MAX_COMMANDS) {
            match command {
                Command::Stop(peer) => events.push(DeskEvent::Stop(peer)),
                Command::Rotate(answer) if self.rotators.is_empty() => {
                    answer.send(Reply::Error(Refusal::NoSeries.into()));
                }
                Command::Rotate(answer) => {
                    let now = SystemTime::now();
                    let waiting = self.rotators.iter().map(|rotator| rotator.rotate(now)).collect();
                    self.rotations.push(Rotation { waiting, complete: Vec::new(), answer });
                }
                Command::Set(settings, peer, answer) => {
                    let changed = Settings::parse(&settings, capture)
                        .and_then(|settings| settings.apply(capture, &peer, &mut duration));
                    match changed {
                        Ok(changes) => {
                            events.extend(changes.iter().cloned().map(DeskEvent::Changed));
                            let is_duration = |change: &&Change| change.setting == DURATION;
                            let ends = changes.iter().filter(is_duration);
                            events.extend(
                                ends.map(|end| DeskEvent::EndsAfter(Duration::from_millis(end.after))),
                            );
                            changes.iter().for_each(|change| self.board.note(change.clone()));
                            answer.send(Reply::Set { changes });
                        }
                        Err(refusal) => answer.send(Reply::Error(refusal.into())),
                    }
                }
            }
        }
        self.rotations =
            std::mem::take(&mut self.rotations).into_iter().filter_map(Rotation::proceed).collect();
        events
    }

    /// Whether a client wants a snapshot, and the last one is old enough.
    pub(crate) fn wants_snapshot(&self, now: Instant) -> bool {
        let is_early = self.published.is_some_and(|published| now < published + SNAPSHOT_PERIOD);
        !is_early && self.board.take_wish()
    }

    /// Publishes a snapshot.
    pub(crate) fn publish(&mut self, snapshot: CaptureSnapshot) {
        self.published = Some(snapshot.at);
        self.board.publish(snapshot);
    }
}

impl Rotation {
    /// Collects complete files; `None` once the request is answered.
    fn proceed(mut self) -> Option<Self> {
        let mut left = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.try_recv() {
                Ok(complete) => self.complete.push(record(complete)),
                Err(TryRecvError::Empty) => left.push(waiting),
                Err(TryRecvError::Disconnected) => {
                    self.answer.send(Reply::Error(Refusal::NotWritten.into()));
                    return None;
                }
            }
        }
        if left.is_empty() {
            self.answer.send(Reply::Rotated { files: self.complete });
            return None;
        }
        self.waiting = left;
        Some(self)
    }
}

fn record(complete: CompleteFile) -> CompleteFileRecord {
    let name = |path: PathBuf| path.display().to_string();
    CompleteFileRecord { file: name(complete.path), packets: complete.packets, next: complete.next.map(name) }
}

/// Settings that are to be changed, all checked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    threshold_percent: Option<u32>,
    duration_ms: Option<u64>,
}

impl Settings {
    /// Checks all settings before any is changed, so that either all are or none.
    fn parse(settings: &Map<String, Value>, capture: &Capture) -> Result<Self, Refusal> {
        let mut parsed = Self::default();
        for (setting, value) in settings {
            let number = || {
                let no_number = || Refusal::NoNumber { setting: setting.clone(), value: value.to_string() };
                value.as_u64().ok_or_else(no_number)
            };
            match setting.as_str() {
                THRESHOLD => {
                    let percent = u32::try_from(number()?).unwrap_or(u32::MAX);
                    wirecap::Mode::advanced(percent).map_err(Refusal::Threshold)?;
                    if capture.threshold_percent().is_none() {
                        return Err(Refusal::BasicMode);
                    }
                    parsed.threshold_percent = Some(percent);
                }
                DURATION => parsed.duration_ms = Some(number()?),
                other => return Err(Refusal::of_setting(other)),
            }
        }
        Ok(parsed)
    }

    fn apply(
        self,
        capture: &Capture,
        peer: &Peer,
        duration: &mut Option<Duration>,
    ) -> Result<Vec<Change>, Refusal> {
        let seconds = capture.report().seconds;
        let change = |setting: &str, before, after| Change {
            seconds,
            setting: setting.into(),
            before,
            after,
            uid: peer.uid,
            pid: peer.pid,
        };
        let mut changes = Vec::new();
        if let Some(percent) = self.threshold_percent {
            let before = capture.set_threshold_percent(percent).map_err(Refusal::Threshold)?;
            changes.push(change(THRESHOLD, before.map(u64::from), percent.into()));
        }
        if let Some(after) = self.duration_ms {
            let before = duration.replace(Duration::from_millis(after));
            changes.push(change(DURATION, before.map(|before| before.as_millis() as u64), after));
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use serde_json::json;
    use wirecap::{Mode, port::null::NullPort};

    use super::{super::refusal::RefusalCode, *};
    use crate::control::{
        board::{Identity, SnapshotAnswer},
        protocol::EndRecord,
    };

    fn capture(mode: Mode) -> Capture {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 };
        Capture::builder().port(port).chunks_per_pool(4).mode(mode).open().unwrap()
    }

    struct Bed {
        desk: Desk,
        commands: Sender<Command>,
        waker: Arc<Waker>,
    }

    impl Bed {
        fn new() -> Self {
            let waker = Arc::new(Waker::new().unwrap());
            let identity = Identity {
                pid: 1,
                name: None,
                command: "capture",
                ports: vec!["eth1".into()],
                network_namespace: None,
                output: None,
            };
            let board = Arc::new(Board::new(identity, String::new(), Arc::clone(&waker)));
            let (commands, received) = channel();
            Self { desk: Desk::new(board, received), commands, waker }
        }

        fn answer(&self) -> (Answer, Receiver<Reply>) {
            let (sender, replies) = channel();
            (Answer { sender, waker: Arc::clone(&self.waker) }, replies)
        }

        fn set(&mut self, capture: &Capture, settings: Value) -> (Reply, Vec<DeskEvent>) {
            let (answer, replies) = self.answer();
            let Value::Object(settings) = settings else { unreachable!() };
            let peer = Peer { pid: 7, uid: 5, groups: vec![5] };
            self.commands.send(Command::Set(settings, peer, answer)).unwrap();
            let events = self.desk.take(capture, Some(Duration::from_secs(9)));
            (replies.try_recv().unwrap(), events)
        }
    }

    fn code(reply: &Reply) -> RefusalCode {
        let Reply::Error(refusal) = reply else { panic!("{reply:?}") };
        refusal.code
    }

    #[test]
    fn settings_are_changed_all_or_none_and_noted_with_who_did_it() {
        let (mut bed, capture) = (Bed::new(), capture(Mode::advanced(60).unwrap()));
        let (reply, events) = bed.set(&capture, json!({ "threshold_percent": 40, "duration_ms": 5_000 }));
        let Reply::Set { changes } = &reply else { panic!("{reply:?}") };
        // In the order of their names.
        let (of_time, of_threshold) = match changes.as_slice() {
            [one, other] if one.setting == DURATION => (one, other),
            [one, other] => (other, one),
            _ => panic!("{changes:?}"),
        };
        assert_eq!((of_threshold.before, of_threshold.after), (Some(60), 40));
        assert_eq!((of_time.before, of_time.after, of_time.uid, of_time.pid), (Some(9_000), 5_000, 5, 7));
        assert!(events.contains(&DeskEvent::EndsAfter(Duration::from_secs(5))), "{events:?}");
        assert_eq!((capture.threshold_percent(), bed.desk.board.changes().len()), (Some(40), 2));
        for (settings, expected) in [
            (json!({ "threshold_percent": 10, "cells_per_chunk": 64 }), RefusalCode::FixedSetting),
            (json!({ "threshold_percent": 101 }), RefusalCode::WrongValue),
            (json!({ "threshold_percent": -1 }), RefusalCode::WrongValue),
            (json!({ "threshold_percent": u64::MAX }), RefusalCode::WrongValue),
            (json!({ "duration_ms": "1s" }), RefusalCode::WrongValue),
            (json!({ "threshold_percent": 10, "colour": 1 }), RefusalCode::UnknownSetting),
        ] {
            let (reply, events) = bed.set(&capture, settings);
            assert_eq!((code(&reply), events.len()), (expected, 0));
        }
        assert_eq!(capture.threshold_percent(), Some(40), "nothing else was changed");
    }

    #[test]
    fn basic_mode_has_no_threshold() {
        let (mut bed, capture) = (Bed::new(), capture(Mode::Basic));
        assert_eq!(code(&bed.set(&capture, json!({ "threshold_percent": 40 })).0), RefusalCode::BasicMode);
    }

    #[test]
    fn a_rotation_without_a_series_is_refused() {
        let (mut bed, capture) = (Bed::new(), capture(Mode::Basic));
        let (answer, replies) = bed.answer();
        bed.commands.send(Command::Rotate(answer)).unwrap();
        let peer = Peer { pid: 12, uid: 0, groups: vec![0] };
        bed.commands.send(Command::Stop(peer.clone())).unwrap();
        assert_eq!(bed.desk.take(&capture, None), [DeskEvent::Stop(peer)]);
        assert_eq!(code(&replies.try_recv().unwrap()), RefusalCode::NoSeries);
    }

    #[test]
    fn snapshots_are_taken_when_they_are_wanted_and_not_more_often_than_ten_times_a_second() {
        let (mut bed, capture) = (Bed::new(), capture(Mode::Basic));
        bed.desk.board.begin("");
        let now = Instant::now();
        assert!(!bed.desk.wants_snapshot(now));
        assert!(bed.desk.board.snapshot_for(now).is_none());
        assert!(bed.desk.wants_snapshot(now));
        let snapshot = |at| CaptureSnapshot {
            sample: None,
            at,
            report: capture.report(),
            offloads: Vec::new(),
            lost: 0,
            written: None,
            account: Value::Null,
            text: String::new(),
        };
        bed.desk.publish(snapshot(now));
        assert!(bed.desk.board.snapshot_for(now + SNAPSHOT_PERIOD).is_some());
        let later = now + SNAPSHOT_PERIOD * 2;
        assert!(bed.desk.board.snapshot_for(later).is_none(), "it is too old");
        assert!(!bed.desk.wants_snapshot(now + SNAPSHOT_PERIOD / 2) && bed.desk.wants_snapshot(later));
        let board = &bed.desk.board;
        board.begin_ending();
        assert!(board.snapshot_for(later).is_none() && board.take_wish(), "packets are still written");
        let answer = |waited| board.answer_for(later, later + waited);
        assert!(matches!(answer(Duration::ZERO), SnapshotAnswer::At(_)));
        assert!(matches!(answer(Duration::from_secs(1)), SnapshotAnswer::Now(Some(_))));
        board.end(EndRecord {
            exit_code: 0,
            end: "signal".into(),
            error: None,
            output: None,
            written: 0,
            files: 0,
        });
        assert!(board.snapshot_for(later).is_some(), "there is no newer one");
    }
}
