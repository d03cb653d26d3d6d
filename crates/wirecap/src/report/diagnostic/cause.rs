//! Why a step failed, in the words of the kernel or of a library.

use std::{error::Error, fmt, io};

use serde::Serialize;

/// Why a step failed: the words of the kernel or of a library, and the number of the system's error if it was
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// `errno` of the system call that failed; `None` if none did.
    pub errno: Option<i32>,
    /// The failure in words, for people.
    pub text: String,
}

impl Cause {
    /// An error of the system.
    pub(crate) fn errno(errno: i32) -> Self {
        Self { errno: Some(errno), text: io::Error::from_raw_os_error(errno).to_string() }
    }

    /// A failure that is no error of the system.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self { errno: None, text: text.into() }
    }

    /// An error, with the number of the first error of the system among it and its sources.
    pub(crate) fn of(error: &(impl Error + 'static)) -> Self {
        let first: &(dyn Error + 'static) = error;
        let mut errors = std::iter::successors(Some(first), |&error| error.source());
        let errno = errors.find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
        Self { errno, text: error.to_string() }
    }
}

impl<E: Error + 'static> From<E> for Cause {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
