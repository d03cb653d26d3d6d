//! Profiling, as a job of a capture.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Map, Value};
use wirecap::{Capture, Report};
use wirecap_profile::{Jumps, Profiler, picture};

use super::{
    csv,
    files::{Files, IdleFiles},
    flags::ProfileRequest,
    jumps,
    live::Interval,
    queues::Queues,
    report::{ProfileRecord, describe},
    worker::{ProfileWorker, SharedProgress},
};
use crate::{
    capture::{end::End, job::Job, plan::Plan, written_files::FilesProgress},
    message::{Message, Topic},
    print::{
        layout::ROWS,
        stdio::{Stream, columns, size},
    },
};

/// How often the table of a terminal has new figures.
const TABLE_PERIOD: Duration = Duration::from_millis(500);

/// The job that profiles.
pub(super) struct ProfileJob {
    request: ProfileRequest,
    /// Until it begins.
    idle: Option<IdleFiles>,
    /// Since it has begun.
    running: Option<Running>,
    /// What went wrong with the files.
    failure: Option<String>,
}

struct Running {
    queues: Arc<Queues>,
    labels: Vec<String>,
    progress: SharedProgress,
    /// Until the end.
    files: Option<Files>,
    /// As of the last table or line.
    last: Instant,
    before: Vec<u64>,
    table: Vec<String>,
    /// How many jumps were reported.
    jumps: u64,
    /// How many failures of files were reported.
    failures: usize,
}

impl ProfileJob {
    /// Creates the files.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn new(request: ProfileRequest, plan: &Plan) -> Result<Self> {
        let idle = IdleFiles::open(&request, plan)?;
        Ok(Self { request, idle, running: None, failure: None })
    }

    fn record(&self) -> Option<ProfileRecord> {
        let running = self.running.as_ref()?;
        let progress = running.progress.lock();
        let rss = self.request.queues.record();
        Some(ProfileRecord::new(&running.queues.names, rss, &progress.profiler, progress.outgoing))
    }
}

impl Running {
    /// What has happened since the last call: jumps of the times, files that cannot be written.
    fn news(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        if let Some(files) = &self.files {
            let failures = files.failures();
            let new = &failures[self.failures.min(failures.len())..];
            messages.extend(
                new.iter().map(|why| Message::warning(format!("{why}; profiling goes on without it"))),
            );
            self.failures = failures.len();
        }
        if let Some(progress) = self.progress.try_lock() {
            let jumps @ Jumps { number, first } = progress.profiler.jumps();
            let named = first.len() as u64;
            for number in self.jumps..*number.min(&(named + 1)) {
                let text = first.get(number as usize).map_or_else(|| jumps::unnamed(jumps), jumps::noticed);
                messages.push(Message::warning(text).about(Topic::TimesJump));
            }
            self.jumps = *number;
        }
        messages
    }

    /// What came since the last report, if that was a period ago or more.
    fn interval(&mut self, period: Duration) -> Option<(Interval, Vec<u64>)> {
        let passed = self.last.elapsed();
        if passed < period {
            return None;
        }
        let so_far = self.progress.try_lock()?.profiler.packets().to_vec();
        self.last = Instant::now();
        let packets = so_far.iter().zip(&self.before).map(|(now, before)| now - before).collect();
        self.before.clone_from(&so_far);
        Some((Interval { seconds: passed.as_secs_f64(), packets }, so_far))
    }
}

impl Job for ProfileJob {
    const COMMAND: &'static str = "profile";
    const ACTIVITY: &'static str = "profiling";
    type BatchHandler = ProfileWorker;

    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        _: Option<FilesProgress>,
    ) -> Result<Vec<ProfileWorker>> {
        let queues = Arc::new(Queues::new(&self.request.queues, &capture.report())?);
        let labels = queues.labels();
        let files = self.idle.take().map(|idle| idle.start(csv::head(&labels)));
        let profiler = Profiler::new(labels.len(), self.request.bins);
        let rows = files.as_ref().filter(|files| files.has_csv).map(Files::sender);
        let progress = SharedProgress::new(profiler, rows);
        let handlers = (0..workers).map(|_| ProfileWorker::new(&queues, &progress)).collect();
        let (last, before) = (Instant::now(), vec![0; labels.len()]);
        self.running = Some(Running {
            queues,
            labels,
            progress,
            files,
            last,
            before,
            table: Vec::new(),
            jumps: 0,
            failures: 0,
        });
        Ok(handlers)
    }

    fn look(&mut self, _: &Capture) -> (Vec<Message>, Option<End>) {
        let Some(running) = &mut self.running else { return (Vec::new(), None) };
        let mut messages = running.news();
        // A terminal has the table.
        if columns(Stream::Stderr).is_none() {
            messages.extend(running.interval(self.request.interval).map(|(interval, so_far)| {
                Message::note(interval.line(&running.labels, &so_far)).about(Topic::Progress)
            }));
        }
        (messages, None)
    }

    fn table(&mut self) -> Vec<String> {
        let Some(running) = &mut self.running else { return Vec::new() };
        if let Some((interval, so_far)) = running.interval(TABLE_PERIOD) {
            // Below it is the status line.
            let rows = size(Stream::Stderr).map_or(ROWS, |(_, rows)| rows).saturating_sub(1);
            running.table = interval.table(&running.labels, &so_far, rows);
        }
        running.table.clone()
    }

    fn end(&mut self) {
        let Some(running) = &mut self.running else { return };
        let mut progress = running.progress.lock();
        progress.close();
        let Some(files) = running.files.take() else { return };
        let summary = progress.profiler.summary();
        let title = format!("packets of {} by queue", running.queues.ports().join(", "));
        let drawn =
            files.has_picture.then(|| picture(&title, &running.labels, &summary, progress.profiler.series()));
        drop(progress);
        self.failure = files.finish(drawn.flatten());
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn describe(&self, report: &Report) -> String {
        self.record().map_or_else(String::new, |record| describe(&record, report))
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let record = serde_json::to_value(self.record()).expect("figures and names");
        Map::from_iter([("profile".to_owned(), record)])
    }
}
