//! The keys of a settings file: meanings come from the types, defaults from the settings themselves.

use clap::CommandFactory;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{
    json::type_of,
    markdown::{head, plain, row},
};
use crate::{
    commands::{Flags, capture::settings::CaptureSettings, forward::settings::ForwardSettings},
    settings::Settings,
};

/// The flags that set a key, where their names differ from the key's.
const FLAGS: &[(&str, &[&str])] = &[
    ("ports", &[]),
    ("mode", &["--mode", "-T"]),
    ("grouping", &[]),
    ("homes", &[]),
    ("cells_per_chunk", &["-M"]),
    ("pool_size", &["-R", "--memory"]),
    ("ring_entries", &["--ring"]),
    ("worker_cores", &["--cores"]),
    ("xdp_mode", &["--xdp-mode", "--require-zero-copy"]),
    ("promiscuous", &["--no-promiscuous"]),
    ("rotate_packets", &["-b"]),
    ("keep_files", &["-b"]),
    ("stop_files", &["-a"]),
    ("stop_size", &["-a"]),
    ("stamp_packets", &[]),
    ("rx_hash", &[]),
    ("keep_packets", &[]),
    ("readable_in_children", &[]),
    ("transmit_entries", &["--transmit-ring"]),
    ("allocators", &[]),
    ("reach", &[]),
    ("sandbox", &["--no-sandbox"]),
    ("user", &["-Z"]),
];

pub(super) fn page() -> String {
    let mut page = head(
        "Settings",
        "The keys of a file for `--config`, in [TOML](https://toml.io). A flag overrides the file, the file overrides the \
         default. [A file of settings](../settings-file.md) shows one at work.",
    );
    let capture = tables::<CaptureSettings>();
    let forward = tables::<ForwardSettings>();
    page += "\nThe tables `[capture]`, `[output]`, `[process]` and `[service]` are for both commands, `[forward]` is for `wirecap forward`. Defaults are those of \
             `wirecap capture`; where `wirecap forward` has another, it follows in brackets.\n";
    for (name, keys) in &forward {
        page += &format!(
            "\n## \\[{name}\\]\n\n| key | value | default | flag | meaning |\n|---|---|---|---|---|\n"
        );
        let of_capture = capture.iter().find(|(table, _)| table == name).map(|(_, keys)| keys);
        for (place, key) in keys.iter().enumerate() {
            let default = match of_capture.map(|keys| &keys[place].default) {
                Some(default) if *default != key.default => format!("{default} ({})", key.default),
                _ => key.default.clone(),
            };
            page += &row(&[
                &format!("`{}`", key.name),
                &key.value,
                &default,
                &flags(&key.name).join(", "),
                &key.meaning,
            ]);
        }
    }
    page
}

struct Key {
    name: String,
    value: String,
    default: String,
    meaning: String,
}

/// The tables of a settings file, with their keys.
fn tables<T: Settings + schemars::JsonSchema>() -> Vec<(String, Vec<Key>)> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let defaults: toml::Table = toml::to_string(&T::default()).unwrap().parse().unwrap();
    let table = |table: crate::settings::file::Table| {
        let target = schema["properties"][&table.name]["$ref"].as_str().unwrap().trim_start_matches('#');
        let properties = &schema.pointer(target).unwrap()["properties"];
        let key = |name: &String| {
            let property = &properties[name];
            let meaning = plain(
                property["description"].as_str().unwrap_or_else(|| panic!("{name} has no documentation")),
            );
            let default =
                defaults[table.name.as_str()].get(name).map(|value| format!("`{value}`")).unwrap_or_default();
            Key { name: name.clone(), value: value_of(&schema, property), default, meaning }
        };
        (table.name.clone(), table.keys.iter().map(key).collect())
    };
    crate::settings::file::tables::<T>().into_iter().map(table).collect()
}

fn value_of(root: &Value, property: &Value) -> String {
    match property {
        // Sets of sets; written by hand.
        property if property.to_string().contains("Grouping") => {
            "`\"all\"` or sets of workers: `{ sets = [[0, 1], [2, 3]] }`".into()
        }
        property => type_of(root, property),
    }
}

/// The flags that set a key.
fn flags(key: &str) -> Vec<String> {
    let flags: Vec<String> = match FLAGS.iter().find(|(name, _)| *name == key) {
        Some((_, flags)) => flags.iter().map(|&flag| flag.into()).collect(),
        None => vec![format!("--{}", key.replace('_', "-"))],
    };
    let command = Flags::command();
    for flag in &flags {
        let is_flag = |argument: &clap::Arg| {
            argument.get_long().is_some_and(|long| format!("--{long}") == *flag)
                || argument.get_short().is_some_and(|short| format!("-{short}") == *flag)
        };
        let known = command.get_subcommands().any(|command| command.get_arguments().any(is_flag));
        assert!(known, "{key}: there is no flag {flag}");
    }
    flags.into_iter().map(|flag| format!("`{flag}`")).collect()
}
