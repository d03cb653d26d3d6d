//! JSON OUTPUT: the fields of what a command prints with `--json`, from its schema, and the values of several
//! kinds among them. MESSAGES: those of messages with `--log json`.

use std::collections::BTreeMap;

use super::{
    super::json::{MESSAGES, fields_of, schemas, topics},
    roff::{ManPage, bold, inline},
};

/// Adds the section, if the command prints JSON.
pub(super) fn add(page: &mut ManPage, command: &str, has_flag: bool) {
    let schemas = schemas();
    let Some((_, schema)) = schemas.iter().find(|(name, _)| *name == command) else {
        assert!(!has_flag, "wirecap {command} --json has no schema: add it to `schemas` in json.rs");
        return;
    };
    let mut unions = BTreeMap::new();
    let fields = fields_of(command, schema, &mut unions);
    page.section("JSON OUTPUT");
    page.text(introduction(command));
    page.paragraph(&format!(
        "The fields, by their paths as jq(1) takes them. New fields do not change the version of the schema; a field that goes, or \
         means something else, does. The package has the JSON Schema: `/usr/share/doc/wirecap/schemas/{command}.json`."
    ));
    for [path, kind, meaning] in &fields {
        page.item(&format!("{} ({})", bold(path), inline(kind)), meaning);
    }
    for (name, (tag, variants)) in &unions {
        page.subsection(name);
        page.text(&format!("The values of `{tag}`, each with its own fields:"));
        for [value, meaning, data] in variants {
            page.item(&bold(value), meaning);
            let fields = data.split("<br>").filter_map(|field| field.strip_prefix('`')?.split_once("`: "));
            let fields: Vec<_> = fields.map(|(name, meaning)| [name.into(), meaning.into()]).collect();
            page.items_below(&fields);
        }
    }
}

/// Adds the section about messages.
pub(super) fn add_messages(page: &mut ManPage) {
    let schemas = schemas();
    let (_, schema) = schemas.iter().find(|(name, _)| *name == MESSAGES).expect("messages have a schema");
    page.section("MESSAGES");
    page.text(
        "Messages go to standard error. With `--log json`, each message is an object on one line, with these fields:",
    );
    for [path, kind, meaning] in fields_of(MESSAGES, schema, &mut BTreeMap::new()) {
        page.item(&format!("{} ({})", bold(&path), inline(&kind)), &meaning);
    }
    page.paragraph("The topics among the codes:");
    topics().for_each(|(name, meaning)| page.item(&bold(name), meaning));
    page.paragraph(
        "The package has the JSON Schema: `/usr/share/doc/wirecap/schemas/messages.json`. The other codes are those of the diagnostics \
         in the report of a capture: see wirecap-capture(1).",
    );
}

fn introduction(command: &str) -> &'static str {
    match command {
        "interfaces" => "`--json` prints one array on one line, with an object for each interface.",
        "status" => {
            "`--json` prints one array on one line, with an object for each capture. With CAPTURE it prints the account of that one \
             instead: the object that wirecap-capture(1) and wirecap-forward(1) explain."
        }
        "run" => {
            "`--json` prints an object for each device on a line of its own, on standard error, once the program has ended."
        }
        "capture" | "forward" | "profile" | "handle" => {
            "`--json` prints one object on one line, the last line of standard output (of standard error with `-w -`). With \
             `--stats`, and for each SIGUSR1, one such line more comes before it, in which `.end` is null. When the command cannot \
             start, standard output stays empty: the error is on standard error, and the exit status is not 0."
        }
        _ => "`--json` prints one object on one line, the last line of standard output.",
    }
}
