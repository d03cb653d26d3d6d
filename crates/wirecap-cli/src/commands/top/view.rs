//! What is on the screen: a picture of the history, the same for the same history.
//!
//! ```text
//!   wirecap top  eth1  (capture 4711, uplink)                        which capture
//!   12.3 s   1.20 Mpps   9.31 Gbit/s   lost 0   pool 12 % …          all of it
//!   ▁▂▃▅▇▇▆▅                                                         two minutes
//!   port  queue  mode  seen/s  lost/s  lost  pool                    queues
//!   worker  core  packets/s     takes over                           workers, and who helps whom
//!   lost  cause  where  last                                         losses
//!   talkers     protocols                                            the sample
//! ```
//!
//! Rule: nothing depends on colours, and rows without room are left out whole: the sample first, then
//! losses, workers, queues. The headings of queues, workers and losses say how many there are.

use std::time::{Duration, Instant};

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Sparkline, SparklineBar, Widget},
};

use super::{
    figures::{Account, Cause, Offload, Port, Queue, Report, Worker},
    history::{History, Loss, Rates},
    style::Look,
};
use crate::{
    control::sample::{Sample, Share},
    message::Message,
    print::{layout::cut, printable::printable},
    text::{
        plural::counted,
        units::{bit_rate, length, rate},
    },
};

/// Rows that are always there: title, figures, output, three of the rates, message, keys.
const FIXED_ROWS: u16 = 8;
/// Rows of the rates, without their heading.
const RATE_ROWS: u16 = 2;
/// Columns of the bar of a pool.
const GAUGE: usize = 10;

/// What is shown.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) history: &'a History,
    pub(super) look: Look,
    pub(super) now: Instant,
    pub(super) interval: Duration,
    /// The capture ends with this command.
    pub(super) is_own: bool,
    pub(super) is_paused: bool,
    /// The index of the first queue and worker shown, if there is no room for all.
    pub(super) scrolled: usize,
    /// The last message of the capture that the command started.
    pub(super) message: Option<&'a Message>,
}

/// Rows of each section, without its heading. A section without rows has no heading either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rows {
    queues: u16,
    workers: u16,
    losses: u16,
    sample: u16,
}

impl Rows {
    /// Divides the rows below the fixed ones. Each section first gets its share of a screen of 24 rows; the
    /// remaining rows then go to sections that need more, in order.
    fn of(height: u16, wanted: Self) -> Self {
        const SHARES: Rows = Rows { queues: 4, workers: 3, losses: 2, sample: 3 };
        let mut left = height.saturating_sub(FIXED_ROWS);
        let mut rows = Rows::default();
        let order = [
            (SHARES.queues, wanted.queues),
            (SHARES.workers, wanted.workers),
            (SHARES.losses, wanted.losses),
            (SHARES.sample, wanted.sample),
        ];
        let mut given = [0; 4];
        for (given, (share, wanted)) in given.iter_mut().zip(order) {
            // With the heading.
            *given = share.min(wanted).min(left.saturating_sub(1));
            if *given > 0 {
                left -= *given + 1;
            }
        }
        for (given, (_, wanted)) in given.iter_mut().zip(order).filter(|(given, _)| **given > 0) {
            let more = (wanted - *given).min(left);
            *given += more;
            left -= more;
        }
        [rows.queues, rows.workers, rows.losses, rows.sample] = given;
        rows
    }
}

impl Widget for &View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let mut page = Page { area, buffer, row: 0, look: self.look };
        let Some(report) = &self.history.last else {
            page.line(&[("wirecap top: the capture is starting".into(), Style::new())]);
            self.foot(&mut page);
            return;
        };
        self.head(&mut page, report);
        let (queues, losses) = (queues(&report.account), self.losses());
        let sample = self.history.sample();
        let at_least_one = |len: usize| u16::try_from(len.max(1)).unwrap_or(u16::MAX);
        let wanted = Rows {
            queues: at_least_one(queues.len()),
            workers: at_least_one(report.account.workers.len().max(report.offloads.len())),
            losses: at_least_one(losses.len()),
            sample: at_least_one(sample.talkers.len().max(sample.protocols.len())),
        };
        let rows = Rows::of(area.height, wanted);
        self.queues(&mut page, report, &queues, rows.queues);
        self.workers(&mut page, report, rows.workers);
        losses_rows(&mut page, &losses, rows.losses, self.now);
        sample_rows(&mut page, &sample, rows.sample);
        self.foot(&mut page);
    }
}

impl View<'_> {
    fn head(&self, page: &mut Page<'_>, report: &Report) {
        let status = &report.status;
        let name = status.name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
        let whose = if self.is_own { "own capture" } else { &status.command };
        let threshold = status.threshold_percent.map_or_else(|| "basic".into(), |t| format!("T {t} %"));
        let title = format!(
            "wirecap top  {}  ({whose} {}{name})  {}  {threshold}",
            status.ports.join(" "),
            status.pid,
            status.state.as_str()
        );
        page.filled(&title, page.look.title());

        let Rates { pps, bps } = self.history.delivered();
        let queues = || report.account.ports.iter().flat_map(|port| &port.queues);
        let largest = |percent: fn(&Queue) -> f64| queues().map(percent).fold(0.0, f64::max);
        let (used, peak) =
            (largest(|queue| queue.pool_used_percent), largest(|queue| queue.pool_peak_percent));
        let lost = report.status.lost;
        page.line(&[
            (format!("{}  ", length(Duration::from_secs_f64(report.account.seconds.max(0.0)))), Style::new()),
            (format!("{}  {}  ", rate(pps), bit_rate(bps)), page.look.rates()),
            (format!("lost {lost}"), if lost > 0 { page.look.loss() } else { Style::new() }),
            (format!("  pool {used:.0} % (peak {peak:.0} %)"), Style::new()),
        ]);
        match (&status.output, &report.account.written) {
            (Some(output), Some(written)) => {
                let deleted = match written.deleted {
                    0 => String::new(),
                    deleted => format!(" ({deleted} lost in deleted files)"),
                };
                // In front of the path, which may be as long as the row.
                let failed = if written.failed_outputs > 0 { "writing failed: " } else { "" };
                let files = counted(written.output_files, "file");
                page.line(&[
                    (failed.into(), page.look.loss()),
                    (counted(written.packets, "packet"), Style::new()),
                    (deleted, page.look.loss()),
                    (format!(" to {output}: {}, {files}", bytes(written.bytes)), Style::new()),
                ]);
            }
            _ => {
                let counted = counted(status.delivered, "packet");
                page.line(&[(format!("{counted}, counted and not written"), Style::new())]);
            }
        }

        let width = usize::from(page.area.width);
        let line = self.history.line(width, self.now);
        let largest = line.iter().flatten().copied().fold(0.0, f64::max);
        page.line(&[(
            format!("packets per second in two minutes, at most {}", rate(largest)),
            page.look.heading(),
        )]);
        let bar = |value: Option<f64>| SparklineBar::from(value.map(|pps| pps.round() as u64));
        if let Some(area) = page.take(RATE_ROWS) {
            Sparkline::default()
                .data(line.into_iter().map(bar))
                .max((largest.round() as u64).max(1))
                .bar_set(page.look.bars())
                .absent_value_symbol(" ")
                .style(page.look.rates())
                .render(area, page.buffer);
        }
    }

    /// The queues, starting with the one scrolled to.
    fn queues(&self, page: &mut Page<'_>, report: &Report, queues: &[(&Port, &Queue)], rows: u16) {
        if rows == 0 {
            return;
        }
        let (first, hidden) = window(queues.len(), rows, self.scrolled);
        let heading = format!(
            "{:<11} {:>5} {:<9} {:>8} {:>8} {:>11}  {}",
            "port",
            "queue",
            "mode",
            "seen/s",
            "lost/s",
            "lost",
            hidden.map_or("pool".into(), |words| words)
        );
        page.line(&[(heading, page.look.heading())]);
        for (port, queue) in queues.iter().skip(first).take(rows.into()) {
            let figure = |of: fn(&Queue) -> u64| {
                self.history.per_second(|report| find(&report.account, port, queue).map(of))
            };
            let (seen, lost) = (figure(|queue| queue.seen), figure(Queue::packets_lost));
            let style = |is_loss: bool| if is_loss { page.look.loss() } else { Style::new() };
            let total = queue.packets_lost();
            let used = queue.pool_used_percent;
            let cells = [
                (
                    format!("{} {:>5} {:<9.9} ", page.cut(&port.name, 11), queue.queue, queue.mode),
                    Style::new(),
                ),
                (format!("{:>8} ", short(seen)), Style::new()),
                (format!("{:>8} ", short(lost)), style(lost > 0.0)),
                (format!("{total:>11}  "), style(total > 0)),
                (
                    gauge(page.look, used, queue.pool_peak_percent),
                    page.look.pool(used, report.status.threshold_percent),
                ),
                (format!(" {used:>3.0} %"), Style::new()),
            ];
            page.line(&cells);
        }
    }

    /// The workers, and who helps whom beside them.
    fn workers(&self, page: &mut Page<'_>, report: &Report, rows: u16) {
        if rows == 0 {
            return;
        }
        let workers = &report.account.workers;
        let (first, hidden) = window(workers.len(), rows, self.scrolled);
        let left = |number: usize, worker: &Worker| {
            let figure = |of: fn(&Worker) -> u64| {
                self.history.per_second(|report| report.account.workers.get(number).map(of))
            };
            let core = worker.core.map_or_else(|| "-".into(), |core| core.to_string());
            let (packets, megabits) =
                (figure(|worker| worker.packets), 8.0 * figure(|worker| worker.bytes) / 1e6);
            let (helps, is_helped) =
                (figure(|worker| worker.offloaded_in), figure(|worker| worker.offloaded_out));
            let state = match (helps > 0.0, is_helped > 0.0) {
                (true, _) => "helps",
                (false, true) => "helped",
                (false, false) => "",
            };
            format!("{number:>6} {core:>5} {:>9} {megabits:>9.1}  {state:<6}", short(packets))
        };
        let rest = hidden.unwrap_or_default();
        page.beside(
            (
                format!("{:>6} {:>5} {:>9} {:>9}  {rest}", "worker", "core", "packets/s", "Mbit/s"),
                page.look.heading(),
            ),
            ("who helps whom, and in all".into(), page.look.heading()),
        );
        let mut right = cut(&self.helpers(report), rows.into()).into_iter();
        for row in 0..usize::from(rows) {
            let number = first + row;
            let left = workers.get(number).map(|worker| left(number, worker)).unwrap_or_default();
            page.beside((left, Style::new()), (right.next().unwrap_or_default(), Style::new()));
        }
    }

    /// The pairs of workers that help each other: currently active ones first.
    fn helpers(&self, report: &Report) -> Vec<String> {
        if report.offloads.is_empty() {
            let why = match report.status.threshold_percent {
                None => "no helping in basic mode",
                Some(_) => "no help needed so far",
            };
            return vec![why.into()];
        }
        let with_rate = report.offloads.iter().map(|offload| {
            let same = |report: &Report| {
                let is_same = |other: &&Offload| (other.home, other.helper) == (offload.home, offload.helper);
                Some(report.offloads.iter().find(is_same).map_or(0, |offload| offload.packets))
            };
            (self.history.per_second(same), offload)
        });
        let mut with_rate: Vec<_> = with_rate.collect();
        with_rate.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.packets.cmp(&one.packets)));
        let line = |(pps, offload): (f64, &Offload)| {
            let (helper, home, packets) = (offload.helper, offload.home, offload.packets);
            format!("{helper} helps {home}: {}/s, {}", short(pps), short(packets as f64))
        };
        with_rate.into_iter().map(line).collect()
    }

    /// The losses, the latest first.
    fn losses(&self) -> Vec<(&Cause, &Loss)> {
        let mut losses: Vec<_> = self.history.losses.iter().collect();
        losses.sort_by(|(a, one), (b, other)| other.last.cmp(&one.last).then(a.cmp(b)));
        losses
    }

    fn foot(&self, page: &mut Page<'_>) {
        page.row = page.area.height.saturating_sub(2);
        let message = self.message.map_or_else(String::new, |message| message.text().to_owned());
        let message = page.cut(&message, page.area.width.into());
        page.line(&[(message, Style::new())]);
        let pause = if self.is_paused { "p resumes (paused)" } else { "p pauses" };
        let end = if self.is_own { "q ends the capture" } else { "q quits, the capture goes on" };
        let keys = format!("{end}  {pause}  arrows scroll  every {}", interval(self.interval));
        page.filled(&keys, page.look.title());
    }
}

fn losses_rows(page: &mut Page<'_>, losses: &[(&Cause, &Loss)], rows: u16, now: Instant) {
    if rows == 0 {
        return;
    }
    let rest = window(losses.len(), rows, 0).1.unwrap_or_default();
    let heading = format!("{:>11}  {:<18} {:<20} last {rest}", "lost", "cause", "where");
    page.line(&[(heading, page.look.heading())]);
    if losses.is_empty() {
        page.line(&[(format!("{:>11}", "nothing"), Style::new())]);
    }
    for (cause, loss) in losses.iter().take(rows.into()) {
        let last = match loss.last {
            None => "before".into(),
            Some(at) => {
                let age = now.saturating_duration_since(at);
                let age = if age < Duration::from_secs(1) { "now".into() } else { ago(age) };
                format!("{age}, {}", loss.step)
            }
        };
        let place = page.cut(&cause.place, 20);
        let text = format!("{:>11}  {:<18.18} {place} {last}", loss.packets, cause.cause);
        page.line(&[(text, page.look.loss())]);
    }
    (losses.len().max(1)..rows.into()).for_each(|_| page.line(&[]));
}

fn sample_rows(page: &mut Page<'_>, sample: &Sample, rows: u16) {
    if rows == 0 {
        return;
    }
    let of = counted(sample.packets, "packet");
    page.beside(
        (format!("talkers, of a sample of {of}"), page.look.heading()),
        ("protocols, by bytes".into(), page.look.heading()),
    );
    let row = |share: Option<&Share>| {
        share.map_or_else(String::new, |share| {
            let percent = 100.0 * share.bytes as f64 / (sample.bytes.max(1)) as f64;
            format!("{percent:>3.0} %  {}", share.name)
        })
    };
    for number in 0..usize::from(rows) {
        let (talker, protocol) = (sample.talkers.get(number), sample.protocols.get(number));
        page.beside((row(talker), Style::new()), (row(protocol), Style::new()));
    }
}

/// All queues with their ports.
fn queues(account: &Account) -> Vec<(&Port, &Queue)> {
    account.ports.iter().flat_map(|port| port.queues.iter().map(move |queue| (port, queue))).collect()
}

/// The same queue in another account.
fn find<'a>(account: &'a Account, port: &Port, queue: &Queue) -> Option<&'a Queue> {
    let port = account.ports.iter().find(|other| other.name == port.name)?;
    port.queues.iter().find(|other| (other.queue, &other.mode) == (queue.queue, &queue.mode))
}

/// The index of the first of `len` rows to show, and the range shown if there is no room for all.
fn window(len: usize, rows: u16, scrolled: usize) -> (usize, Option<String>) {
    let rows = usize::from(rows);
    let first = scrolled.min(len.saturating_sub(rows));
    let hidden = len.saturating_sub(rows);
    (first, (hidden > 0).then(|| format!("({} to {} of {len})", first + 1, first + rows)))
}

/// The bar of a pool: how full it is, and has been.
fn gauge(look: Look, used: f64, peak: f64) -> String {
    let [full, empty, mark] = look.gauge();
    let cells = |percent: f64| (percent / 100.0 * GAUGE as f64).round().clamp(0.0, GAUGE as f64) as usize;
    let (used, peak) = (cells(used), cells(peak));
    let cell = |at: usize| match at {
        _ if at < used => full,
        _ if at + 1 == peak => mark,
        _ => empty,
    };
    (0..GAUGE).map(cell).collect()
}

/// A figure in at most five characters: `999`, `1.23k`, `12.3M`.
fn short(figure: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // A figure that rounds up to the next unit takes that unit.
    match units.into_iter().find(|(size, _)| figure >= size * 0.9995) {
        None => format!("{figure:.0}"),
        Some((size, unit)) => {
            let figure = figure / size;
            let digits = if figure < 9.995 { 2 } else { usize::from(figure < 99.95) };
            format!("{figure:.digits$}{unit}")
        }
    }
}

fn bytes(bytes: u64) -> String {
    if bytes < 1_000 { counted(bytes, "byte") } else { format!("{}B", short(bytes as f64)) }
}

/// How long ago something was.
fn ago(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s ago"),
        seconds @ 120..7_200 => format!("{} min ago", seconds / 60),
        seconds => format!("{} h ago", seconds / 3_600),
    }
}

fn interval(interval: Duration) -> String {
    match interval.as_millis() {
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}

/// Rows that are filled from the top.
struct Page<'a> {
    area: Rect,
    buffer: &'a mut Buffer,
    row: u16,
    look: Look,
}

impl Page<'_> {
    /// The next rows; `None` below the end of the area.
    fn take(&mut self, rows: u16) -> Option<Rect> {
        let left = self.area.height.saturating_sub(self.row);
        let area = Rect { y: self.area.y + self.row, height: rows.min(left), ..self.area };
        self.row += rows;
        (left > 0).then_some(area)
    }

    fn line(&mut self, spans: &[(String, Style)]) {
        let Some(area) = self.take(1) else { return };
        let span = |(text, style): &(String, Style)| Span::styled(printable(text).into_owned(), *style);
        Line::from_iter(spans.iter().map(span)).render(area, self.buffer);
    }

    /// A line whose style fills the whole row.
    fn filled(&mut self, text: &str, style: Style) {
        let width = usize::from(self.area.width);
        self.line(&[(format!("{text:<width$}"), style)]);
    }

    /// Two texts beside each other. The left one has the larger half, and is cut at its end.
    fn beside(&mut self, left: (String, Style), right: (String, Style)) {
        let width = usize::from(self.area.width) * 5 / 8;
        let cut = self.cut(&left.0, width.saturating_sub(1)) + " ";
        self.line(&[(cut, left.1), right]);
    }

    /// A text, cut or padded to `columns`.
    fn cut(&self, text: &str, columns: usize) -> String {
        let text = printable(text);
        if text.chars().count() <= columns {
            return format!("{text:<columns$}");
        }
        let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
        kept + &self.look.cut().to_string()
    }
}

#[cfg(test)]
mod tests;
