//! Values that messages show where a file has one of another kind.

use toml::{Value, de::DeValue};

/// Values of the keys whose defaults show none, in TOML: one of each kind that the key takes, since any other
/// kind is refused in favour of these.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("capture_cores", &["[0, 1]"]),
    ("control", &["\"./wirecap.sock\""]),
    ("copy_to", &["\"./pipe\""]),
    ("count", &["1000"]),
    ("drop", &["\"udp port 53\""]),
    ("duration", &["\"10s\""]),
    ("expect", &["1000"]),
    ("fanout", &["\"hash\""]),
    ("file_mode", &["\"0640\""]),
    ("filter", &["\"udp port 53\""]),
    ("keep_files", &["24"]),
    ("metrics", &["\"9417\""]),
    ("name", &["\"uplink\""]),
    ("pass", &["\"udp port 53\""]),
    ("ports", &["[\"eth1\"]"]),
    ("ring_entries", &["4096"]),
    ("rotate_command", &["\"gzip\""]),
    ("rotate_files", &["24"]),
    ("rotate_packets", &["1000000"]),
    ("rotate_size", &["\"100M\"", "100000000"]),
    ("rotate_time", &["\"1h\""]),
    ("route", &["\"routes.txt\""]),
    ("set_destination", &["[\"eth1=02:00:00:00:00:01\"]"]),
    ("set_source", &["[\"eth1=02:00:00:00:00:01\"]"]),
    ("stats", &["\"10s\""]),
    ("stop_files", &["24"]),
    ("stop_size", &["\"100M\"", "100000000"]),
    ("timestamp", &["\"kernel\""]),
    ("ttl", &["\"decrement\""]),
    ("unmatched", &["\"pass\""]),
    ("user", &["\"wirecap\""]),
    ("vlan", &["\"10=20\""]),
    ("worker_cores", &["[0, 1]"]),
    ("workers", &["4"]),
    ("write", &["\"x.pcapng\""]),
];

/// Values that a key can have, one of each kind.
pub(super) struct Example<'a> {
    key: &'a str,
    values: Vec<Value>,
}

/// The example of a key, for a command with these defaults; none for a table.
pub(super) fn of<'a>(defaults: &toml::Table, key: &'a str) -> Option<Example<'a>> {
    let shown = EXAMPLES.iter().find(|(name, _)| *name == key).map(|(_, texts)| *texts);
    let values = match shown {
        Some(texts) => texts.iter().map(|text| text.parse().expect("examples are TOML")).collect(),
        None => vec![defaults.values().find_map(|table| table.get(key))?.clone()],
    };
    Some(Example { key, values })
}

impl Example<'_> {
    /// What belongs in the place of a value of another kind than these. `None` for tables, which some keys
    /// take beside the kinds shown here.
    pub(super) fn asked_for(&self, given: &DeValue<'_>) -> Option<String> {
        let Self { key, values } = self;
        if given.is_table() || values.iter().any(|value| value.type_str() == given.type_str()) {
            return None;
        }
        let (value, given) = (&values[0], words(given.type_str()));
        Some(format!("{} is needed, not {given}: for example, {key} = {value}", words(value.type_str())))
    }
}

/// A kind of values as messages name it.
fn words(kind: &str) -> &str {
    match kind {
        "string" => "text in quotes",
        "integer" => "a number",
        "float" => "a number with a point",
        "boolean" => "true or false",
        "array" => "a list in brackets",
        "datetime" => "a date",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::file::{parse, tables},
        *,
    };
    use crate::commands::{capture::settings::CaptureSettings, forward::settings::ForwardSettings};

    #[test]
    fn each_key_has_an_example_that_shows_a_value() {
        let defaults = toml::Table::try_from(ForwardSettings::default()).unwrap();
        let mut shown = 0;
        for table in tables::<ForwardSettings>() {
            for key in &table.keys {
                let example = of(&defaults, key).unwrap_or_else(|| panic!("{key}: its default shows none"));
                let kinds: Vec<_> = example.values.iter().map(Value::type_str).collect();
                for value in ["true", "5", "1.5", "'x'", "[1]"] {
                    let text = format!("[{}]\n{key} = {value}", table.name);
                    let is_shown = kinds.contains(&value.parse::<Value>().unwrap().type_str());
                    let mistake = parse::<ForwardSettings>(&text).err().map(|mistake| mistake.to_string());
                    let is_of_kind = mistake.is_some_and(|mistake| mistake.contains(" is needed, not "));
                    assert_eq!(is_of_kind, !is_shown, "{text}");
                }
                for value in example.values {
                    assert!(value.as_array().is_none_or(|list| !list.is_empty()), "{key}");
                    let text = format!("[{}]\n{key} = {value}", table.name);
                    parse::<ForwardSettings>(&text).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
                    if table.name != "forward" {
                        parse::<CaptureSettings>(&text).unwrap();
                    }
                }
                shown += usize::from(EXAMPLES.iter().any(|(name, _)| name == key));
            }
        }
        assert_eq!(shown, EXAMPLES.len(), "each example is of a key");
    }
}
