//! The terminal: shows the view and reads keys until the user quits or the capture ends.
//!
//! Rule: a separate thread reads keys: a read from a terminal that is gone may block for ever, and a signal
//! must still end the command.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use nix::sys::signal::{Signal, raise};
use ratatui::{
    DefaultTerminal,
    crossterm::{
        event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, enable_raw_mode},
    },
};
use signal_hook::{consts::SIGCONT, flag};

use super::{
    history::History,
    news::{News, Sender},
    source::{Shown, Source},
    style::Look,
    view::View,
};
use crate::{
    message::{Level, Message},
    process::signals::Signals,
    text::error::MORE_THREADS,
};

/// How often to check for signals while no news arrives.
const TICK: Duration = Duration::from_millis(50);
/// The longest time between two redraws, since the ages on the screen grow.
const LONGEST: Duration = Duration::from_secs(1);

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Quit,
    Suspend,
    Pause,
    Up,
    Down,
    First,
    Last,
}

/// The screen. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: DefaultTerminal,
    look: Look,
    interval: Duration,
    is_own: bool,
    history: History,
    message: Option<Message>,
    is_paused: bool,
    scrolled: usize,
    /// Whether the process has been continued, so that the terminal may not be as it was left. Set by the
    /// signal handler, cleared by the thread that draws.
    is_continued: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal cannot be drawn on.
    pub(super) fn open(source: &Source, interval: Duration) -> Result<Self> {
        // Restores the terminal after a panic, too.
        let terminal = ratatui::try_init().inspect_err(|_| _ = ratatui::try_restore());
        let terminal = terminal.map_err(undrawn)?;
        let is_continued = Arc::<AtomicBool>::default();
        let registered = flag::register(SIGCONT, Arc::clone(&is_continued));
        if let Err(cause) = registered {
            let _ = ratatui::try_restore();
            bail!("cannot listen for signals: {cause}");
        }
        let keys = source.news.sender();
        thread::Builder::new()
            .name("wirecap-keys".into())
            .spawn(move || read_keys(&keys))
            .map_err(|cause| anyhow!("cannot start a thread: {cause}{MORE_THREADS}"))?;
        Ok(Self {
            terminal,
            look: Look::from_env(),
            interval,
            is_own: source.is_own(),
            history: History::default(),
            message: None,
            is_paused: false,
            scrolled: 0,
            is_continued,
        })
    }

    /// Shows the capture. Returns why the display ended.
    ///
    /// # Errors
    /// The terminal is gone, or the capture refuses.
    pub(super) fn run(&mut self, source: &mut Source, signals: &Signals) -> Result<Shown> {
        let mut drawn: Option<Instant> = None;
        loop {
            if signals.end() {
                return Ok(Shown::Quit);
            }
            if self.is_continued.swap(false, Ordering::Relaxed) {
                self.set_up_again()?;
                drawn = None;
            }
            if drawn.is_none_or(|drawn| drawn.elapsed() >= LONGEST) {
                self.draw()?;
                drawn = Some(Instant::now());
            }
            // Handles all pending news, then redraws once.
            for news in source.news.take(TICK) {
                match news {
                    News::Report(_) if self.is_paused => {}
                    News::Report(report) => self.history.add(*report, Instant::now()),
                    News::Message(message) if self.is_worth_a_line(&message) => self.message = Some(message),
                    News::Message(_) => {}
                    News::Terminal(event) => match action(&event) {
                        Some(Action::Quit) => return Ok(Shown::Quit),
                        Some(Action::Suspend) => self.suspend()?,
                        Some(action) => self.act(action),
                        None => {}
                    },
                    News::Ended(end) => return Ok(Shown::Ended(end)),
                    News::Failed(error) => return Err(error),
                }
                drawn = None;
            }
        }
    }

    /// Gives the terminal back, and stops until a shell continues the process.
    fn suspend(&mut self) -> Result<()> {
        // The terminal may be gone.
        let _ = ratatui::try_restore();
        raise(Signal::SIGTSTP).map_err(|cause| anyhow!("cannot stop this process: {cause}"))?;
        // Also where no shell could continue it, so that the kernel has ignored the signal.
        self.is_continued.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the terminal again, whose modes another program has changed.
    fn set_up_again(&mut self) -> Result<()> {
        // Otherwise crossterm takes the modes for those that it has set.
        let _ = ratatui::try_restore();
        let taken = enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen));
        taken.and_then(|()| self.terminal.clear()).map_err(undrawn)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit | Action::Suspend => {}
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Action::Down => self.scrolled += 1,
            Action::First => self.scrolled = 0,
            Action::Last => self.scrolled = usize::MAX,
        }
        self.scrolled = self.scrolled.min(self.most_scrolled());
    }

    /// Warnings and errors stay until the next one; notes do not hide them.
    fn is_worth_a_line(&self, message: &Message) -> bool {
        let shown = self.message.as_ref().map(Message::level);
        message.level() != Level::Note || shown.is_none_or(|level| level == Level::Note)
    }

    /// Scrolling further than to the last row would have to be undone, key by key.
    fn most_scrolled(&self) -> usize {
        let account = self.history.account();
        account.map_or(0, |account| {
            let queues: usize = account.ports.iter().map(|port| port.queues.len()).sum();
            queues.max(account.workers.len()).saturating_sub(1)
        })
    }

    fn draw(&mut self) -> Result<()> {
        let view = View {
            history: &self.history,
            look: self.look,
            now: Instant::now(),
            interval: self.interval,
            is_own: self.is_own,
            is_paused: self.is_paused,
            scrolled: self.scrolled,
            message: self.message.as_ref(),
        };
        self.terminal.draw(|frame| frame.render_widget(&view, frame.area())).map_err(undrawn)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = ratatui::try_restore();
    }
}

fn undrawn(cause: io::Error) -> anyhow::Error {
    anyhow!("cannot draw on this terminal: {cause}")
}

/// Forwards keys and resizes until the terminal is gone or the receiver is dropped.
fn read_keys(news: &Sender) {
    loop {
        let event = event::read()
            .map_err(|cause| anyhow!("cannot read keys: {cause}"))
            .map_or_else(News::Failed, News::Terminal);
        let is_last = matches!(event, News::Failed(_));
        if !news.send(event) || is_last {
            break;
        }
    }
}

fn action(event: &Event) -> Option<Action> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return None };
    let control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c' | 'd') if control => Action::Quit,
        KeyCode::Char('z') if control => Action::Suspend,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('p' | 'P' | ' ') => Action::Pause,
        KeyCode::Up | KeyCode::Char('k') => Action::Up,
        KeyCode::Down | KeyCode::Char('j') => Action::Down,
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_actions_and_others_none() {
        let key = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| key(code, KeyModifiers::NONE);
        for (code, expected) in [
            (KeyCode::Char('q'), Some(Action::Quit)),
            (KeyCode::Esc, Some(Action::Quit)),
            (KeyCode::Char(' '), Some(Action::Pause)),
            (KeyCode::Down, Some(Action::Down)),
            (KeyCode::End, Some(Action::Last)),
            (KeyCode::Char('c'), None),
            (KeyCode::Char('x'), None),
        ] {
            assert_eq!(plain(code), expected, "{code:?}");
        }
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Action::Suspend));
        assert_eq!(action(&Event::Resize(80, 24)), None);
    }
}
