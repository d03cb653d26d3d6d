//! Where settings come from, so that an error names them as their user wrote them.
//!
//! ```text
//!   file:  keys, places ──┐
//!                         ├─► Sources ──► a refusal: "keep_files (t.toml:7) and -W …"
//!   settings in force   ──┘
//! ```
//!
//! Rule: a setting comes from the file if the file has its key and flags left its value unchanged.

mod setting;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value;

pub(crate) use self::setting::Setting;

/// Line and column of a value, counted from 1.
pub(crate) type Place = (usize, usize);

/// The settings in force, and where they come from.
#[derive(Debug)]
pub(crate) struct Sourced<T> {
    pub(crate) settings: T,
    pub(crate) sources: Sources,
}

/// Which settings come from a file. All others come from flags, or are defaults.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    file: PathBuf,
    /// The places of values in the file, by table and key.
    places: BTreeMap<(String, String), Place>,
    /// The settings without the flags.
    before: Value,
}

impl Sources {
    /// Those of settings that have just been read from a file.
    pub(crate) fn of_file(
        file: &Path,
        places: BTreeMap<(String, String), Place>,
        settings: &impl Serialize,
    ) -> Self {
        Self { file: file.into(), places, before: serde_json::to_value(settings).unwrap_or_default() }
    }

    /// Without the settings that flags have changed.
    pub(crate) fn after_flags(mut self, settings: &impl Serialize) -> Self {
        // A path that is not UTF-8 has no text form, and comes from a flag.
        let after = serde_json::to_value(settings).unwrap_or_default();
        let before = &self.before;
        self.places.retain(|(table, key), _| after[table].get(key) == before[table].get(key));
        self
    }

    /// The place of a key in the file, if its value comes from there.
    fn place(&self, key: &str) -> Option<Place> {
        self.places.iter().find(|((_, name), _)| name == key).map(|(_, place)| *place)
    }

    /// The name of a setting as its user wrote it: the key with its line, or the flag.
    pub(crate) fn name(&self, setting: Setting) -> String {
        match self.place(setting.key()) {
            Some((line, _)) => format!("{} ({}:{line})", setting.key(), self.file.display()),
            None => setting.flag().into(),
        }
    }

    /// The text that the file has for a setting.
    pub(crate) fn text(&self, setting: Setting) -> Option<&str> {
        let mut keys = self.places.keys();
        let (table, key) = keys.find(|(_, key)| key == setting.key())?;
        self.before[table].get(key)?.as_str()
    }

    /// One of two remedies: with flags, or with keys if the setting comes from the file.
    pub(crate) fn either<'a>(&self, setting: Setting, flags: &'a str, keys: &'a str) -> &'a str {
        if self.place(setting.key()).is_some() { keys } else { flags }
    }

    /// A message about the value of a key, with its place if that is in the file.
    pub(crate) fn at(&self, key: &str, message: &str) -> Option<String> {
        let (line, column) = self.place(key)?;
        Some(format!("{}:{line}:{column}: {key}: {message}", self.file.display()))
    }
}

/// Settings that have no meaning, alone or together. Its text follows from where they come from; displayed,
/// it names flags.
pub(crate) struct RefusedSettings(Box<dyn Fn(&Sources) -> String + Send + Sync>);

impl RefusedSettings {
    /// Settings that do not go together. `message` gets their names from the sources.
    pub(crate) fn new(message: impl Fn(&Sources) -> String + Send + Sync + 'static) -> Self {
        Self(Box::new(message))
    }

    /// The text, with the names that the sources give.
    pub(crate) fn describe(&self, sources: &Sources) -> String {
        (self.0)(sources)
    }

    /// A setting whose value is wrong: `message` follows the flag, or the place and the key.
    pub(crate) fn value(setting: Setting, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(move |sources| {
            let placed = sources.at(setting.key(), &message);
            placed.unwrap_or_else(|| format!("{} {message}", setting.flag()))
        })
    }

    /// The same for a message that does not need the flag.
    pub(crate) fn about(key: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(move |sources| sources.at(key, &message).unwrap_or_else(|| message.clone()))
    }
}

impl fmt::Display for RefusedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(&Sources::default()))
    }
}

impl fmt::Debug for RefusedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RefusedSettings({self})")
    }
}

impl std::error::Error for RefusedSettings {}
