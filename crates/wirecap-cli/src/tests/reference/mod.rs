//! The reference of the manual and the JSON Schemas: generated from the program, and committed.
//!
//! ```text
//!   flags, and habits from tcpdump ───────┐
//!   settings, with JsonSchema ────────────┼──► docs/book/reference/*.md
//!   rules of the doctor, and their advice ┤
//!   what --json prints, with JsonSchema ──┼──► docs/schemas/*.json
//!   and examples, written by hand ────────┴──► docs/man/*.1, dist/completions/*
//! ```
//!
//! Rule: the committed files are what this module generates. `./dev reference` rewrites them.

mod completions;
mod doctor;
mod flags;
mod habits;
pub(crate) mod json;
mod man;
mod markdown;
mod settings;

use std::{fs, path::PathBuf};

/// A file of the repository, and what it has to contain.
struct GeneratedFile {
    path: String,
    text: String,
}

fn generated() -> Vec<GeneratedFile> {
    let page = |name: &str, text| GeneratedFile { path: format!("docs/book/reference/{name}.md"), text };
    let mut files = vec![
        page("flags", flags::page()),
        page("from-tcpdump", habits::page()),
        page("settings", settings::page()),
        page("json", json::page()),
        page("doctor-rules", doctor::page()),
    ];
    files.extend(man::pages());
    files.extend(completions::scripts());
    files.extend(json::schemas().into_iter().map(|(command, schema)| GeneratedFile {
        path: format!("docs/schemas/{command}.json"),
        text: serde_json::to_string_pretty(&schema).unwrap() + "\n",
    }));
    files
}

#[test]
fn the_reference_is_what_the_program_generates() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    for GeneratedFile { path, text } in generated() {
        let file = root.join(&path);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        } else {
            let committed = fs::read_to_string(&file).unwrap_or_default();
            let line = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
            let line = line.unwrap_or_else(|| committed.lines().count().min(text.lines().count())) + 1;
            assert!(
                committed == text,
                "{path}:{line} is not what the program generates: run ./dev reference"
            );
        }
    }
}
