//! Profiling, as a job of a capture.

use std::{
    cell::RefCell,
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
    queues::{QueueSource, Queues},
    report::{ProfileRecord, describe},
    worker::{ProfileWorker, Progress, SharedProgress},
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

/// A record, and when it was made.
#[derive(Debug, Clone)]
struct LastRecord {
    record: Arc<ProfileRecord>,
    made: Instant,
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
    /// The record that was made last.
    last_record: RefCell<LastRecord>,
    /// Whether figures are final, and no worker has the lock any more.
    has_ended: bool,
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

    fn record(&self) -> Option<LastRecord> {
        self.running.as_ref().map(|running| running.record(&self.request.queues))
    }
}

impl LastRecord {
    fn new(source: &QueueSource, queues: &Queues, progress: &Progress) -> Self {
        let rss = source.record(progress.special.without_hash);
        let record = ProfileRecord::new(&queues.names, rss, &progress.profiler, progress.special);
        Self { record: Arc::new(record), made: Instant::now() }
    }
}

impl Running {
    fn new(request: &ProfileRequest, queues: Arc<Queues>, files: Option<Files>) -> Self {
        let labels = queues.labels();
        let rows = files.as_ref().filter(|files| files.has_csv).map(Files::sender);
        let progress = SharedProgress::new(Profiler::new(labels.len(), request.bins), rows);
        let last_record = LastRecord::new(&request.queues, &queues, &progress.lock());
        Self {
            queues,
            progress,
            files,
            last: Instant::now(),
            before: vec![0; labels.len()],
            labels,
            table: Vec::new(),
            last_record: RefCell::new(last_record),
            has_ended: false,
            jumps: 0,
            failures: 0,
        }
    }

    /// The figures at this moment. While a worker holds the lock and waits for the disk, those of the last
    /// call: the calling thread watches the capture, and must not wait.
    fn record(&self, source: &QueueSource) -> LastRecord {
        let progress = if self.has_ended { Some(self.progress.lock()) } else { self.progress.lock_soon() };
        let mut last = self.last_record.borrow_mut();
        if let Some(progress) = progress {
            *last = LastRecord::new(source, &self.queues, &progress);
        }
        last.clone()
    }

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
        let files = self.idle.take().map(|idle| idle.start(csv::head(&queues.labels())));
        let running = Running::new(&self.request, queues, files);
        let worker = |_| ProfileWorker::new(&running.queues, &running.progress);
        let handlers = (0..workers).map(worker).collect();
        self.running = Some(running);
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
        running.has_ended = true;
        let Some(files) = running.files.take() else { return };
        let summary = progress.profiler.summary();
        let title = format!("packets of {} by queue", running.queues.ports().join(", "));
        let drawn =
            files.has_picture.then(|| picture(&title, &running.labels, &summary, progress.profiler.series()));
        drop(progress);
        self.failure = files.finish(drawn);
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn describe(&self, report: &Report) -> String {
        self.record().map_or_else(String::new, |last| describe(&last.record, last.made.elapsed(), report))
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let record = self.record().map(|last| last.record);
        let record = serde_json::to_value(record.as_deref()).expect("figures and names");
        Map::from_iter([("profile".to_owned(), record)])
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use wirecap::report::{MemoryReport, PortReport, QueueReport};
    use wirecap_profile::{BinSettings, Tally};

    use super::*;

    /// A job that profiles a queue, without files.
    fn job() -> ProfileJob {
        let (csv, picture, interval) = (None, None, Duration::MAX);
        let bins = BinSettings::new(10_000_000, 100_000_000);
        let request = ProfileRequest { bins, queues: QueueSource::Captured, csv, picture, interval };
        let port = PortReport { queues: vec![QueueReport::default()], ..PortReport::default() };
        let queues = Arc::new(Queues::new(&request.queues, &report(vec![port])).unwrap());
        let running = Running::new(&request, queues, None);
        ProfileJob { request, idle: None, running: Some(running), failure: None }
    }

    fn report(ports: Vec<PortReport>) -> Report {
        let (workers, memory) = (Vec::new(), MemoryReport::default());
        Report { seconds: 0.0, threshold_percent: None, ports, workers, memory }
    }

    fn count(progress: &mut Progress, packets: u64) {
        let mut tally = Tally::new(10_000_000);
        (0..packets).for_each(|_| tally.count(0, 0));
        progress.profiler.add(&tally, |_| {});
    }

    fn packets(job: &ProfileJob) -> Value {
        job.json(&report(Vec::new()))["profile"]["packets"].clone()
    }

    #[test]
    fn while_a_worker_waits_for_the_disk_the_last_record_is_given() {
        let mut job = job();
        let progress = job.running.as_ref().unwrap().progress.clone();
        count(&mut progress.lock(), 3);
        assert_eq!(packets(&job), 3);
        let (locked, is_locked) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let worker = thread::spawn(move || {
            let mut progress = progress.lock();
            count(&mut progress, 4);
            locked.send(()).unwrap();
            // A caller that waited for the lock would go on after this, with other figures.
            let _ = released.recv_timeout(Duration::from_secs(10));
        });
        is_locked.recv().unwrap();
        assert_eq!(packets(&job), 3);
        assert!(!job.describe(&report(Vec::new())).is_empty());
        // At the end, figures are worth waiting for.
        job.running.as_mut().unwrap().has_ended = true;
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(200));
                release.send(()).unwrap();
            });
            assert_eq!(packets(&job), 7);
        });
        worker.join().unwrap();
    }
}
