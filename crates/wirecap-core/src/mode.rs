//! Basic and advanced mode: whether a worker that falls behind is helped (section 3.2.2 of the paper).

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{
    Choice, GeometryError,
    choice::{NamedValue, UnknownName},
    choice_text,
};

/// Whether a worker that falls behind is helped by its buddies.
///
/// As text it is `basic`, `advanced:60`, or `advanced` for the default threshold.
///
/// ```
/// use wirecap_core::Mode;
///
/// assert_eq!("advanced:45".parse(), Mode::advanced(45).map_err(Into::into));
/// assert_eq!("advanced".parse(), Ok(Mode::default()));
/// assert_eq!(Mode::default().to_string(), "advanced:60");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// WireCAP-B-(M, R): each receive queue is on its own.
    Basic,
    /// WireCAP-A-(M, R, T): over the threshold, chunks go to the least busy buddy.
    Advanced {
        /// T, in percent of the worker's pools.
        threshold_percent: u8,
    },
}

impl Mode {
    /// T where none is given, in percent.
    pub const DEFAULT_THRESHOLD_PERCENT: u8 = 60;

    /// Advanced mode with threshold T in percent.
    ///
    /// # Errors
    /// [`GeometryError::Threshold`] when T is over 100.
    pub fn advanced(threshold_percent: u32) -> Result<Self, GeometryError> {
        match u8::try_from(threshold_percent) {
            Ok(threshold_percent @ 0..=100) => Ok(Mode::Advanced { threshold_percent }),
            _ => Err(GeometryError::Threshold { given: threshold_percent }),
        }
    }
}

impl Default for Mode {
    fn default() -> Self {
        Mode::Advanced { threshold_percent: Self::DEFAULT_THRESHOLD_PERCENT }
    }
}

/// A text that is no mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModeError {
    /// The word names no mode.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// The number behind the colon is no percentage.
    #[error(transparent)]
    Threshold(#[from] GeometryError),
    /// There is something behind the colon that is not a number.
    #[error("{given:?} is not a threshold in percent; write a mode like advanced:60")]
    NotANumber {
        /// What is there.
        given: String,
    },
}

impl Choice for Mode {
    const ALL: &'static [NamedValue<Self>] = &[
        NamedValue { value: Mode::Basic, name: "basic", explanation: "Each receive queue is on its own." },
        NamedValue {
            value: Mode::Advanced { threshold_percent: Self::DEFAULT_THRESHOLD_PERCENT },
            name: "advanced",
            explanation: "Over T, a worker's buddies help.",
        },
    ];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Basic => f.write_str("basic"),
            Mode::Advanced { threshold_percent } => write!(f, "advanced:{threshold_percent}"),
        }
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(percent) = text.strip_prefix("advanced:") else { return Ok(Self::named(text)?) };
        let percent = percent.parse().map_err(|_| ModeError::NotANumber { given: percent.into() })?;
        Ok(Self::advanced(percent)?)
    }
}

choice_text!(Mode);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_back_from_its_text() {
        for mode in [Mode::Basic, Mode::default(), Mode::Advanced { threshold_percent: 0 }] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for (text, words) in [
            ("advanced:101", "0 to 100"),
            ("advanced:", "like advanced:60"),
            ("advanced:many", "like advanced:60"),
            ("advnaced", "did you mean advanced?"),
            ("basic:60", "not one of basic, advanced"),
        ] {
            let error = text.parse::<Mode>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
