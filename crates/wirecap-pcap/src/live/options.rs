//! Settings of a capture. The environment overrides the file, and the device's name overrides both.
//!
//! ```text
//!   /etc/wirecap/libpcap.toml, or $WIRECAP_CONFIG ── $WIRECAP_M, $WIRECAP_R, … ── eth1?M=256&R=500 ──► Options
//! ```

use std::{fmt, fs, io, path::PathBuf, str::FromStr};

use thiserror::Error;
use wirecap::{Config, Mode, PoolSize, config};

use crate::environment;

/// The file of settings for the whole machine.
const DEFAULT_FILE: &str = "/etc/wirecap/libpcap.toml";

/// The settings: the name of each, and how its value is applied. In the environment, the name is in capital
/// letters and begins with WIRECAP_.
const OPTIONS: [(&str, Apply); 17] = [
    ("M", |options, value| set(&mut options.config.cells_per_chunk, value)),
    ("R", |options, value| {
        options.config.pool_size = PoolSize::Chunks(number(value)?);
        Ok(())
    }),
    ("T", |options, value| {
        options.config.mode = Mode::advanced(number(value)?).map_err(|error| error.to_string())?;
        Ok(())
    }),
    ("memory", |options, value| {
        let bytes = value.parse().ok().or_else(|| config::parse_bytes(value));
        options.config.pool_size = PoolSize::Memory(bytes.ok_or("not a size; write one like 512M")?);
        Ok(())
    }),
    ("mode", |options, value| set(&mut options.config.mode, value)),
    ("cores", |options, value| {
        options.config.worker_cores = config::parse_cores(value).map_err(|error| error.to_string())?;
        Ok(())
    }),
    ("dispatch", |options, value| set(&mut options.config.dispatch, value)),
    ("wait", |options, value| set(&mut options.config.wait, value)),
    ("xdp_mode", |options, value| set(&mut options.config.xdp_mode, value)),
    ("ring", |options, value| {
        options.config.ring_entries = Some(number(value)?);
        Ok(())
    }),
    ("cell_bytes", |options, value| set(&mut options.config.cell_bytes, value)),
    ("rss", |options, value| set(&mut options.config.rss, value)),
    ("tap_hook", |options, value| set(&mut options.config.tap_hook, value)),
    ("fanout", |options, value| {
        options.config.fanout = Some(parsed(value)?);
        Ok(())
    }),
    ("group", |options, value| {
        if value.is_empty() {
            return Err("a group needs a name".into());
        }
        options.group = Some(value.to_owned());
        Ok(())
    }),
    ("timestamp", |options, value| {
        options.config.timestamp = Some(parsed(value)?);
        Ok(())
    }),
    ("transmit", |options, value| {
        let entries = value.parse().ok().filter(|&entries| entries == 0 || is_transmit_ring(entries));
        options.config.transmit_entries =
            entries.ok_or("not the entries of a ring; write a power of two from 64 to 65536, like 1024")?;
        Ok(())
    }),
];

type Apply = fn(&mut Options, &str) -> Result<(), String>;

/// The settings of a device.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) config: Config,
    /// The group that the handle joins.
    pub(crate) group: Option<String>,
    /// The kind of time stamps is a setting, not a selection of the program.
    pub(crate) insists_on_timestamp: bool,
}

/// A setting that cannot be used.
#[derive(Debug, Error)]
pub(crate) enum OptionError {
    /// The name is unknown.
    #[error("{place}: unknown setting {name:?}; use one of {}", names())]
    Unknown { place: String, name: String },
    /// Its value cannot be read.
    #[error("?{name}={value}: {reason}")]
    Value { name: &'static str, value: String, reason: String },
    /// The same, in a variable, whose name says which.
    #[error("{variable}={value}: {reason}")]
    Variable { variable: String, value: String, reason: String },
    /// It is given twice.
    #[error("{place}: {name} is given twice")]
    Twice { place: String, name: &'static str },
    /// A key of the file that the name of the device decides on.
    #[error("{path}: {key} is for `wirecap capture`; leave it out", path = path.display())]
    Key { path: PathBuf, key: &'static str },
    /// A part without a value.
    #[error("{place}: {text:?} is not a setting; write NAME=VALUE, with & between several")]
    NoValue { place: String, text: String },
    /// The file cannot be read.
    #[error("cannot read the settings in {path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file is not TOML, or has an unknown key.
    #[error("{path}, line {line}: {message}", path = path.display())]
    Toml { path: PathBuf, line: usize, message: String },
}

/// The settings in force for a device whose name ends with these.
///
/// # Errors
/// The first setting that cannot be used.
pub(crate) fn read(of_device: &str) -> Result<Options, OptionError> {
    let mut options = Options { config: read_file()?, ..Options::default() };
    for (name, apply) in OPTIONS {
        let variable = format!("WIRECAP_{}", name.to_uppercase());
        if let Some(value) = environment::variable(&variable) {
            let value = value.to_string_lossy();
            apply(&mut options, &value).map_err(|reason| OptionError::Variable {
                variable,
                value: value.into(),
                reason,
            })?;
        }
    }
    apply_text(&mut options, of_device)?;
    options.insists_on_timestamp = options.config.timestamp.is_some();
    Ok(options)
}

fn read_file() -> Result<Config, OptionError> {
    let named = environment::variable("WIRECAP_CONFIG").map(PathBuf::from);
    let path = named.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Config::default());
        }
        Err(source) => return Err(OptionError::File { path, source }),
    };
    let config: Config = match toml::from_str(&text) {
        Ok(config) => config,
        Err(error) => {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = 1 + before.matches('\n').count();
            return Err(OptionError::Toml { path, line, message: without_list(error.message()) });
        }
    };
    let decided = [("ports", !config.ports.is_empty()), ("workers", config.workers.is_some())];
    match decided.into_iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(OptionError::Key { path, key }),
        None => Ok(config),
    }
}

/// Applies the settings after the question mark of a device's name.
fn apply_text(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let place = || format!("?{text}");
    let mut given_names = Vec::new();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let no_value = || OptionError::NoValue { place: place(), text: part.into() };
        let (given, value) = part.split_once('=').ok_or_else(no_value)?;
        let known = OPTIONS.iter().find(|(name, _)| *name == given);
        let (name, apply) =
            known.ok_or_else(|| OptionError::Unknown { place: place(), name: given.into() })?;
        if given_names.contains(&name) {
            return Err(OptionError::Twice { place: place(), name });
        }
        given_names.push(name);
        apply(options, value).map_err(|reason| OptionError::Value { name, value: value.into(), reason })?;
    }
    Ok(())
}

/// A message without the list of all keys: programs have room for 255 bytes.
fn without_list(message: &str) -> String {
    message.split_once(", expected one of").map_or(message, |(before, _)| before).into()
}

/// Whether a ring of this length has a place for each cell of the longest frame.
fn is_transmit_ring(entries: u32) -> bool {
    entries.is_power_of_two() && (64..=65_536).contains(&entries)
}

fn names() -> String {
    OPTIONS.map(|(name, _)| name).join(", ")
}

fn parsed<T: FromStr<Err: fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn set<T: FromStr<Err: fmt::Display>>(field: &mut T, value: &str) -> Result<(), String> {
    *field = parsed(value)?;
    Ok(())
}

fn number(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| "not a whole number; write one like 500".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<Config, String> {
        let mut options = Options::default();
        apply_text(&mut options, text).map(|()| options.config).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_follow_a_question_mark() {
        let config = applied("M=64&R=500&T=70&cores=0,2-3&dispatch=push&timestamp=batch").unwrap();
        assert_eq!((config.cells_per_chunk, config.pool_size), (64, PoolSize::Chunks(500)));
        assert_eq!((config.mode, config.worker_cores), (Mode::advanced(70).unwrap(), vec![0, 2, 3]));
        assert_eq!(config.timestamp, Some(wirecap::Timestamp::Batch));
        assert_eq!(applied("").unwrap(), Config::default());
        assert_eq!(applied("memory=512M&").unwrap().pool_size, PoolSize::Memory(512 << 20));
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named() {
        for (text, message) in [
            ("N=3", "?N=3: unknown setting \"N\"; use one of M, R, T"),
            ("M", "\"M\" is not a setting; write NAME=VALUE"),
            ("R=many", "?R=many: not a whole number"),
            ("transmit=1000", "?transmit=1000: not the entries of a ring; write a power of two from 64"),
            ("transmit=32", "?transmit=32: not the entries of a ring"),
            ("transmit=99999999999", "?transmit=99999999999: not the entries of a ring"),
            ("T=101", "?T=101: "),
            ("wait=forever", "wait=forever: "),
            ("cores=3-1", "cores=3-1: the range 3-1 runs backwards"),
            ("R=5&M=2&R=6", "?R=5&M=2&R=6: R is given twice"),
            ("group=", "?group=: a group needs a name"),
        ] {
            let error = applied(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
