//! Files of settings, in TOML: read with the place and the key of a mistake, printed so that they can be read
//! again.
//!
//! Rule: a setting that the file omits has the command's default, not the library's: those of `forward`
//! differ from those of `capture`.

use std::{collections::BTreeMap, fs, ops::Range, path::Path};

use anyhow::{Result, ensure};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use toml::de::{DeTable, DeValue};
use wirecap::config::nearest;

use super::{alias::ALIASES, example, output::OutputSettings};
use crate::{
    exit::WrongFile,
    print::{printable::printable_lines, stdio},
    sources::{Place, Setting, Sourced, Sources},
    values::{SHORT_MIB, text_file},
};

/// The settings of a command that captures.
pub(crate) trait Settings: Default + Serialize + DeserializeOwned {
    /// Keys with an alias whose values the command needs as they are: no advice is to set them.
    const FIXED_KEYS: &'static [&'static str] = &[];

    /// What becomes of the packets.
    fn output(&self) -> &OutputSettings;
}

/// A table that only the command of this name has.
const FORWARD: &str = "forward";

/// A table in a file of settings: its name, and the keys that it may have.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) keys: Vec<String>,
}

impl Table {
    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|other| other == key)
    }
}

/// The tables of a file, one per part of the settings.
pub(crate) fn tables<T: Settings>() -> Vec<Table> {
    let settings = serde_json::to_value(T::default()).expect("defaults have a text form");
    let fields =
        |value: &Value| value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let tables = settings.as_object().into_iter().flatten();
    tables.map(|(name, table)| Table { name: name.clone(), keys: fields(table) }).collect()
}

/// The defaults, overridden by a file.
///
/// # Errors
/// [`WrongFile`]: why the file cannot be read, or line and column of a mistake in it.
pub(crate) fn read<T: Settings>(path: &Path) -> Result<Sourced<T>> {
    let name = path.display();
    let text = text_file(path, "the settings", "settings are TOML, as --print-config prints them", SHORT_MIB);
    let text = text.map_err(|error| WrongFile(error.to_string()))?;
    let (settings, places) = parse(&text).map_err(|mistake| {
        let (line, column) = place(&text, mistake.offset);
        WrongFile(format!("{name}:{line}:{column}: {mistake}"))
    })?;
    let sources = Sources::of_file(path, places, &settings);
    Ok(Sourced { settings, sources })
}

/// Whether a file has a setting, in whatever table. One that cannot be read twice, such as a pipe, is taken
/// to have some.
pub(crate) fn has_settings(path: &Path) -> bool {
    let parsed = || fs::read_to_string(path).ok()?.parse::<toml::Table>().ok();
    let is_empty = |value: &toml::Value| value.as_table().is_some_and(toml::Table::is_empty);
    !path.is_file() || parsed().is_none_or(|tables| !tables.values().all(is_empty))
}

/// Prints the settings on standard output.
///
/// # Errors
/// Settings without a text form, such as a path that is not UTF-8; standard output is full or closed.
pub(crate) fn print<T: Settings>(settings: &T) -> Result<()> {
    let text = toml::to_string_pretty(settings)?;
    // Control characters are escaped when printed, so the text could not be read again.
    ensure!(
        printable_lines(&text) == text,
        "a setting has invisible characters, so the settings cannot be printed; remove these characters"
    );
    stdio::print_stdout("the settings", &text)
}

/// A mistake in a file, and its place.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Mistake {
    /// In bytes from the start of the file.
    offset: usize,
    message: String,
}

/// The places of values, by table and key.
type Places = BTreeMap<(String, String), Place>;

/// The defaults, overridden by a text, and the places of its values.
pub(super) fn parse<T: Settings>(text: &str) -> Result<(T, Places), Mistake> {
    let syntax = |error: toml::de::Error| Mistake {
        offset: error.span().map_or(0, |span| span.start),
        message: condensed(error.message()),
    };
    let document = DeTable::parse(text).map_err(|error| {
        let mut mistake = syntax(error);
        if !text.contains(['=', '[']) {
            mistake.message += "; settings are lines such as count = 5 below [output], in TOML";
        }
        mistake
    })?;
    check_keys(document.get_ref(), &tables::<T>(), T::FIXED_KEYS)?;
    let mut settings = toml::Table::try_from(T::default()).expect("defaults have a text form");
    toml::from_str::<T>(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message = condensed(error.message());
        let message = match value_at(document.get_ref(), offset) {
            Some((key, given)) => {
                let other_kind = example::of(&settings, key).and_then(|example| example.asked_for(given));
                format!("{key}: {}", other_kind.unwrap_or(message))
            }
            None => message,
        };
        Mistake { offset, message }
    })?;
    for (name, given) in text.parse::<toml::Table>().map_err(syntax)? {
        if let (Some(toml::Value::Table(table)), toml::Value::Table(given)) = (settings.get_mut(&name), given)
        {
            table.extend(given);
        }
    }
    Ok((settings.try_into().map_err(syntax)?, places(text, document.get_ref())))
}

/// The places of all values.
fn places(text: &str, document: &DeTable<'_>) -> Places {
    let mut places = Places::new();
    for (table, keys) in document {
        let DeValue::Table(keys) = keys.get_ref() else { continue };
        for (key, value) in keys {
            let name = (table.get_ref().to_string(), key.get_ref().to_string());
            places.insert(name, place(text, value.span().start));
        }
    }
    places
}

/// A message of the TOML parser, in one line.
fn condensed(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Refuses unknown keys.
fn check_keys(document: &DeTable<'_>, tables: &[Table], fixed: &[&str]) -> Result<(), Mistake> {
    for (name, value) in document {
        let Some(table) = tables.iter().find(|table| table.name == name.get_ref().as_ref()) else {
            let names: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
            let message = match name.get_ref() == FORWARD {
                true => format!("[{FORWARD}] is only for wirecap {FORWARD}: leave it out"),
                false => belonging(name.get_ref(), value.get_ref(), None, tables, fixed)
                    .unwrap_or_else(|| unknown("table", name.get_ref(), &names)),
            };
            return Err(Mistake { offset: name.span().start, message });
        };
        let DeValue::Table(keys) = value.get_ref() else { continue };
        let unknown_keys = keys.iter().filter(|(key, _)| !table.has(key.get_ref()));
        if let Some((key, value)) = unknown_keys.min_by_key(|(key, _)| key.span().start) {
            let kind = format!("key in [{}]", table.name);
            let message = belonging(key.get_ref(), value.get_ref(), Some(table), tables, fixed);
            let message = message.unwrap_or_else(|| unknown(&kind, key.get_ref(), &table.keys));
            return Err(Mistake { offset: key.span().start, message });
        }
    }
    Ok(())
}

/// Where a key belongs that is not in its place, and how it is written there, if there is such a key.
fn belonging(
    key: &str,
    value: &DeValue<'_>,
    place: Option<&Table>,
    tables: &[Table],
    fixed: &[&str],
) -> Option<String> {
    let alias = ALIASES.iter().find(|alias| alias.name == key && !fixed.contains(&alias.key));
    let is_flag = |setting: &&Setting| setting.flag() == format!("-{key}");
    let of_flag = Setting::ALL.iter().find(is_flag).map(|setting| setting.key());
    let of_flag = of_flag.filter(|meant| !fixed.contains(meant));
    let meant = alias.map(|alias| alias.key).or(of_flag).unwrap_or(key);
    let owner = tables.iter().find(|table| table.has(meant))?;
    let wrong = match place.is_some_and(|place| place.name == owner.name) {
        true => format!("{key} is not a key in [{}]", owner.name),
        false => format!("{key} belongs in the table [{}]", owner.name),
    };
    Some(match alias {
        Some(alias) => format!("{wrong}; {}", alias.advice(value)),
        None if meant != key => format!("{wrong}; its name there is {meant}"),
        None => wrong,
    })
}

fn unknown(kind: &str, given: &str, known: &[String]) -> String {
    match nearest(given, known.iter().map(String::as_str)) {
        Some(meant) => format!("{given} is not a {kind}; did you mean {meant}?"),
        None => format!("{given} is not a {kind}; there are {}", known.join(", ")),
    }
}

/// The key or table whose value is at this offset, and that value.
fn value_at<'a>(document: &'a DeTable<'_>, offset: usize) -> Option<(&'a str, &'a DeValue<'a>)> {
    let covers = |span: Range<usize>| span.contains(&offset);
    document.iter().find_map(|(table, value)| match value.get_ref() {
        DeValue::Table(keys) => {
            let (key, value) = keys.iter().find(|(_, value)| covers(value.span()))?;
            Some((key.get_ref().as_ref(), value.get_ref()))
        }
        given => covers(value.span()).then(|| (table.get_ref().as_ref(), given)),
    })
}

/// Line and column, counted from 1.
fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}
