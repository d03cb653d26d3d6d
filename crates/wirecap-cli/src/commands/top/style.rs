//! What the screen looks like: colours and characters that this terminal has.

use std::env;

use ratatui::{
    style::{Color, Modifier, Style},
    symbols::bar,
};

/// The level from which a pool counts as nearly full, in percent.
const NEARLY_FULL: f64 = 90.0;

/// Bars of characters that every terminal has.
const ASCII_BARS: bar::Set = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "+",
    five_eighths: "+",
    half: "=",
    three_eighths: "-",
    one_quarter: "-",
    one_eighth: ".",
    empty: " ",
};

/// Colours and characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colours: bool,
    pub(super) unicode: bool,
}

impl Look {
    /// What the environment says: NO_COLOR (no-color.org), and the locale.
    pub(super) fn from_env() -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).unwrap_or_default();
        let locale = locale.to_ascii_uppercase();
        Self {
            colours: variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.contains("UTF-8") || locale.contains("UTF8"),
        }
    }

    pub(super) fn bars(self) -> bar::Set {
        if self.unicode { bar::NINE_LEVELS } else { ASCII_BARS }
    }

    /// A full and an empty part of the bar of a pool, and where its peak was.
    pub(super) fn gauge(self) -> [char; 3] {
        if self.unicode { ['█', '░', '▏'] } else { ['#', '.', '|'] }
    }

    /// The mark at the end of a text that is cut.
    pub(super) fn cut(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Packets were lost.
    pub(super) fn loss(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// How full a pool is, in percent; `threshold` is T.
    pub(super) fn pool(self, percent: f64, threshold: Option<u8>) -> Style {
        let colour = match percent {
            NEARLY_FULL.. => Color::Red,
            _ if percent >= threshold.map_or(NEARLY_FULL, f64::from) => Color::Yellow,
            _ => Color::Green,
        };
        self.coloured(colour)
    }

    pub(super) fn rates(self) -> Style {
        self.coloured(Color::Cyan)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}
