//! What has come and is not shown yet.
//!
//! ```text
//!   reports ─► the newest one ─┐
//!   messages, keys, the end ───┴─► inbox, in the order in which they came ─► the thread that draws
//! ```
//!
//! Rule: while the thread that draws is blocked, as by Ctrl-S, for however long, at most one report waits:
//! each takes the place of the one before it. Everything else waits in full.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use ratatui::crossterm::event::Event;

use super::figures::Report;
use crate::{control::protocol::EndRecord, message::Message};

/// What comes from a capture.
#[derive(Debug)]
pub(super) enum News {
    Report(Box<Report>),
    /// A message of the capture that the command started.
    Message(Message),
    /// A key, or another size of the terminal.
    Terminal(Event),
    /// The capture has ended; it says how, unless it was killed.
    Ended(Option<EndRecord>),
    /// It refuses, or its answer cannot be parsed.
    Failed(anyhow::Error),
}

/// Shared by the inbox and its senders.
#[derive(Debug, Default)]
struct Waiting {
    /// INVARIANT: at most one is a report.
    news: Mutex<VecDeque<News>>,
    /// Signalled for each one that is added.
    added: Condvar,
}

impl Waiting {
    /// A thread that panicked cannot have left the queue half changed.
    fn lock(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where news are taken.
#[derive(Debug, Default)]
pub(super) struct Inbox(Arc<Waiting>);

/// Adds news to an inbox, from any thread.
#[derive(Debug, Clone)]
pub(super) struct Sender(Weak<Waiting>);

impl Inbox {
    pub(super) fn sender(&self) -> Sender {
        Sender(Arc::downgrade(&self.0))
    }

    /// Waits for news, at most this long, and takes all of them in the order in which they came.
    pub(super) fn take(&self, timeout: Duration) -> VecDeque<News> {
        let news = self.0.lock();
        let waited = self.0.added.wait_timeout_while(news, timeout, |news| news.is_empty());
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut news)
    }
}

impl Sender {
    /// Adds news; a report replaces the one that waits. Returns whether the inbox is still there.
    pub(super) fn send(&self, one: News) -> bool {
        let Some(waiting) = self.0.upgrade() else { return false };
        let mut news = waiting.lock();
        if matches!(one, News::Report(_)) {
            news.retain(|waiting| !matches!(waiting, News::Report(_)));
        }
        news.push_back(one);
        drop(news);
        waiting.added.notify_one();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;
    use crate::commands::top::history::tests::report;

    /// Adds a report of this many seconds.
    fn send_report(sender: &Sender, seconds: f64) -> bool {
        sender.send(News::Report(Box::new(report(seconds, 0, 0))))
    }

    /// What waits, in words.
    fn words(inbox: &Inbox) -> Vec<String> {
        let word = |news| match news {
            News::Report(report) => format!("report {}", report.account.seconds),
            News::Message(message) => format!("{:?}", message.level()),
            News::Ended(_) => "end".into(),
            other => format!("{other:?}"),
        };
        inbox.take(Duration::ZERO).into_iter().map(word).collect()
    }

    #[test]
    fn of_reports_the_newest_waits_and_of_everything_else_all() {
        let inbox = Inbox::default();
        let sender = inbox.sender();
        for seconds in 0..50_000 {
            send_report(&sender, f64::from(seconds));
            if seconds % 25_000 == 0 {
                sender.send(News::Message(Message::warning("eth1 lost 3 packets")));
            }
        }
        assert_eq!(inbox.0.lock().len(), 3);
        sender.send(News::Ended(None));
        assert_eq!(words(&inbox), ["Warning", "Warning", "report 49999", "end"]);
        assert!(words(&inbox).is_empty());
        send_report(&sender, 1.5);
        assert_eq!(words(&inbox), ["report 1.5"]);
    }

    #[test]
    fn news_end_the_wait_for_them() {
        let inbox = Inbox::default();
        let sender = inbox.sender();
        let begun = Instant::now();
        let adding = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            sender.send(News::Ended(None))
        });
        assert_eq!(inbox.take(Duration::from_secs(60)).len(), 1);
        assert!(adding.join().unwrap() && begun.elapsed() < Duration::from_secs(30));
        assert!(inbox.take(Duration::from_millis(1)).is_empty());
    }

    #[test]
    fn a_sender_knows_when_the_inbox_is_gone() {
        let sender = Inbox::default().sender();
        assert!(!send_report(&sender, 1.0));
    }
}
