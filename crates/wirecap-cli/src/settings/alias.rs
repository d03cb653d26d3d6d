//! Names that users try for keys in files of settings, and what is written instead.

use toml::de::DeValue;
use wirecap::config::parse_bytes;

/// A name that users try, such as that of a flag or a plural.
pub(super) struct Alias {
    pub(super) name: &'static str,
    /// The key that is meant.
    pub(super) key: &'static str,
    value: Value,
}

/// How the value of a key is written.
enum Value {
    /// From what a user writes with the name.
    Text {
        /// `{}` stands for that.
        pattern: &'static str,
        /// What a user may write.
        example: &'static str,
        /// Whether a user's value, as text, can be written so.
        fits: fn(&str) -> bool,
    },
    /// What a flag of this name sets the key to.
    Switch(bool),
}

const fn alias(
    name: &'static str,
    key: &'static str,
    pattern: &'static str,
    example: &'static str,
    fits: fn(&str) -> bool,
) -> Alias {
    Alias { name, key, value: Value::Text { pattern, example, fits } }
}

const fn switch(name: &'static str, key: &'static str, sets: bool) -> Alias {
    Alias { name, key, value: Value::Switch(sets) }
}

pub(super) const ALIASES: [Alias; 15] = [
    alias("M", "cells_per_chunk", "{}", "256", is_number),
    alias("R", "pool_size", "\"chunks:{}\"", "128", is_number),
    alias("T", "mode", "\"advanced:{}\"", "60", is_percent),
    alias("B", "pool_size", "\"memory:{}M\"", "64", is_number),
    alias("Z", "user", "\"{}\"", "wirecap", is_name),
    alias("i", "ports", "[\"{}\"]", "eth1", is_name),
    alias("s", "snaplen", "{}", "128", is_number),
    switch("p", "promiscuous", false),
    switch("q", "quiet", true),
    alias("interface", "ports", "[\"{}\"]", "eth1", is_name),
    alias("interfaces", "ports", "[\"{}\"]", "eth1", is_name),
    alias("memory", "pool_size", "\"memory:{}\"", "2G", is_size),
    alias("chunks_per_pool", "pool_size", "\"chunks:{}\"", "128", is_number),
    alias("threads", "workers", "{}", "4", is_number),
    alias("threshold_percent", "mode", "\"advanced:{}\"", "60", is_percent),
];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_percent(text: &str) -> bool {
    text.parse::<u8>().is_ok_and(|percent| percent <= 100)
}

fn is_size(text: &str) -> bool {
    parse_bytes(text).is_some()
}

fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || ".-_@:".contains(c);
    !text.is_empty() && text.chars().all(is_of_name)
}

impl Alias {
    /// What to write: the key with the user's value, or with an example if that does not fit.
    pub(super) fn advice(&self, given: &DeValue<'_>) -> String {
        let (pattern, example, fits) = match self.value {
            Value::Switch(sets) => {
                let is_off = matches!(given, DeValue::Boolean(false));
                return format!("write {} = {}", self.key, sets != is_off);
            }
            Value::Text { pattern, example, fits } => (pattern, example, fits),
        };
        let is_list = pattern.starts_with('[');
        let fitting = |value| scalar_text(value).filter(|text| fits(text));
        let texts: Option<Vec<_>> = match given {
            DeValue::Array(values) if is_list && !values.is_empty() => {
                values.iter().map(|value| fitting(value.get_ref())).collect()
            }
            value => fitting(value).map(|text| vec![text]),
        };
        let written = |value: &str| format!("{} = {}", self.key, pattern.replace("{}", value));
        match texts {
            Some(texts) => format!("write {}", written(&texts.join("\", \""))),
            None => format!("write, for example, {}", written(example)),
        }
    }
}

/// A text, without its quotes, or an integer, as text.
fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}
