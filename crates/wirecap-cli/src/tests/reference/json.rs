//! The output of `--json`: a schema of each command, and the page of the book made from it.

use std::{collections::BTreeMap, fmt::Write};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::Value;
use wirecap::Report;
use wirecap_core::Choice;
use wirecap_router::{DropCause, NextHopReport};
use wirecap_traffic::Verdict;

use super::markdown::{head, plain, row};
use crate::{
    capture::{Record, end::End},
    commands::{
        capture::copy_to::CopyReport, control, doctor::report::DoctorRecord, forward::stats::ForwardReport,
        generate, handle::report::HandleRecord, interfaces, profile::report::ProfileRecord, replay,
        size::report::SizeRecord,
    },
    message::Topic,
    print::log::MessageRecord,
};

/// The account of `wirecap capture`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is asked for")]
struct CaptureAccount<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    /// What became of frames of `wirecap generate`; only with `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verdict>,
    /// What became of copies of the packets; only with `--copy-to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<CopyReport>,
}

/// The account of `wirecap forward`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is asked for")]
struct ForwardAccount<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    /// What became of the packets that came in by each interface.
    forwarded: Vec<ForwardReport>,
    /// The next hops of a router; null without `--route`.
    next_hops: Option<NextHopReport>,
}

/// The account of `wirecap profile`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is asked for")]
struct ProfileAccount<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    /// How the packets are spread over the queues.
    profile: ProfileRecord,
}

/// The account of `wirecap handle`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is asked for")]
struct HandleAccount<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    /// How the packets were handled.
    handled: HandleRecord,
}

/// The account of a device of `wirecap run`, as the libpcap library writes it.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is asked for")]
struct RunAccount {
    /// Names the capture: the process that opened the device, and a number; null if its file could not be
    /// made.
    capture: Option<String>,
    /// The process that read the packets.
    pid: u32,
    /// The device, as the program named it.
    device: String,
    /// Packets that the program's filter or direction has refused; they are among those delivered.
    refused: u64,
    /// Packets that were delivered to the library, and that the program had not read when it closed the
    /// device.
    unread: u64,
    /// Whether the program has closed the device. If not, packets that waited count as left at the stop.
    closed: bool,
    /// The account.
    report: Report,
}

/// Why a capture ended.
pub(crate) fn ends(_: &mut SchemaGenerator) -> Schema {
    let ends = End::ALL.iter().map(|end| Value::from(end.name));
    let names: Vec<_> = ends.chain([Value::Null]).collect();
    json_schema!({ "enum": names })
}

/// Packets that were not forwarded, by cause.
pub(crate) fn drop_causes(_: &mut SchemaGenerator) -> Schema {
    let names = DropCause::ALL.map(DropCause::name);
    let count = json_schema!({ "type": "integer", "format": "uint64", "minimum": 0 });
    let properties: BTreeMap<_, _> = names.into_iter().map(|name| (name, count.clone())).collect();
    json_schema!({ "type": "object", "properties": properties, "required": names })
}

/// The name of the schema of messages.
pub(super) const MESSAGES: &str = "messages";

/// The topics of messages, with their meanings.
pub(super) fn topics() -> impl Iterator<Item = (&'static str, &'static str)> {
    Topic::ALL.iter().map(|topic| (topic.name, topic.explanation))
}

/// The schema of each command's `--json` output, and of the messages of `--log json`.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("capture", schema::<CaptureAccount>()),
        ("forward", schema::<ForwardAccount>()),
        ("generate", schema::<generate::report::Report>()),
        ("replay", schema::<replay::report::Record>()),
        ("profile", schema::<ProfileAccount>()),
        ("handle", schema::<HandleAccount>()),
        ("run", unworded::<RunAccount>()),
        ("interfaces", schema::<Vec<interfaces::InterfaceRecord>>()),
        ("doctor", schema::<DoctorRecord>()),
        ("size", schema::<SizeRecord<'_>>()),
        ("status", schema::<Vec<control::status::RunningCapture>>()),
        (MESSAGES, schema::<MessageRecord>()),
    ]
}

/// The schema of what the libpcap library prints, without texts for people.
fn unworded<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    word(&mut schema, "the record");
    schema
}

fn schema<T: JsonSchema>() -> Value {
    let mut schema = unworded::<T>();
    // The command adds a text to the code and the data of clocks and of a capture's diagnostics.
    for name in ["/$defs/Clock", "/$defs/Diagnostic"] {
        let Some(described) = schema.pointer_mut(name) else { continue };
        let text = json_schema!({ "type": "string", "description": "The same as text, for people; the wording may change." });
        described["properties"] = json_schema!({ "text": text }).to_value();
        described["required"] = vec!["text"].into();
    }
    schema
}

/// Turns documentation comments into prose, and requires one of each property.
fn word(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = plain(text);
            }
            // A variant of one field has its own documentation; causes, which are only counted, need none
            // here.
            let is_variant = object.get("additionalProperties") == Some(&false.into());
            let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, property) in properties.filter(|_| !is_variant) {
                let is_named = property.get("const").is_some() || place == "dropped";
                assert!(
                    is_named || property.get("description").is_some(),
                    "{name} of {place} is not documented"
                );
            }
            object.iter_mut().for_each(|(name, value)| word(value, name));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| word(value, place)),
        _ => {}
    }
}

pub(super) fn page() -> String {
    let mut page = head(
        "JSON",
        "`--json` prints one object on one line, the last line of standard output (of standard error with `-w -`). With `--stats`, and \
         for each SIGUSR1, one such line more comes before it, in which `end` is null. `wirecap interfaces --json` and `wirecap status --json` print one array. \
         When a command cannot start, standard output stays empty: the error is on standard error, and the exit code is not 0.\n\n\
         Each table lists every field by its path, as `jq` takes it; the same is in the JSON Schemas in `docs/schemas/`. New fields do not \
         change `schema`; a field that goes, or means something else, does.",
    );
    let mut unions = BTreeMap::new();
    let mut of_capture = Vec::new();
    for (command, schema) in schemas() {
        let mut fields = fields_of(command, &schema, &mut unions);
        if command == MESSAGES {
            page += "\n## Messages\n\nWith `--log json`, each message on standard error is an object on one line.\n\n";
        } else {
            let _ = write!(page, "\n## wirecap {command}\n\n");
        }
        if ["forward", "profile", "handle"].contains(&command) {
            page +=
                "All fields of [`wirecap capture`](#wirecap-capture) but `verified` and `copied`, and:\n\n";
            fields.retain(|field| !of_capture.contains(field));
        }
        if command == "run" {
            page += "`.report` has the fields `.seconds`, `.ports`, `.workers` and `.memory` of [`wirecap capture`](#wirecap-capture), in which \
                     clocks and diagnostics have no `text`.\n\n";
            fields.retain(|[path, ..]| !path.starts_with(".report."));
        }
        page += "| field | value | meaning |\n|---|---|---|\n";
        for [path, value, meaning] in &fields {
            page += &row(&[&format!("`{path}`"), value, meaning]);
        }
        if command == MESSAGES {
            page += "\nThe topics; the other codes are those of [diagnostics](#diagnostics).\n\n| topic | meaning |\n|---|---|\n";
            topics().for_each(|(name, meaning)| page += &row(&[&format!("`{name}`"), meaning]));
        }
        if command == "capture" {
            of_capture = fields;
        }
    }
    for (name, (tag, variants)) in &unions {
        let _ = write!(page, "\n## {name}\n\n| `{tag}` | meaning | further fields |\n|---|---|---|\n");
        for [code, meaning, data] in variants {
            page += &row(&[&format!("`{code}`"), meaning, data]);
        }
    }
    page
}

/// The fields of what a command prints, each with its type and its meaning; unions among them are added.
pub(super) fn fields_of(command: &str, schema: &Value, unions: &mut Unions) -> Vec<[String; 3]> {
    let mut fields = Vec::new();
    let start = if ["interfaces", "status"].contains(&command) { "." } else { "" };
    list(schema, schema, start, &mut fields, unions);
    fields
}

/// Unions that a field selects: by name, the field and the rows of their variants.
pub(super) type Unions = BTreeMap<String, (String, Vec<[String; 3]>)>;

/// Lists the fields of a schema, including those of objects in it.
fn list(root: &Value, schema: &Value, path: &str, fields: &mut Vec<[String; 3]>, unions: &mut Unions) {
    let schema = resolved(root, schema);
    if let Some(items) = schema.get("items") {
        return list(root, items, &format!("{path}[]"), fields, unions);
    }
    let of_variants = variants(root, schema).into_iter().flat_map(in_order);
    match union_of(root, schema) {
        Some((tag, variants)) => {
            let name = heading(&tag, &variants);
            // Unions that only its variants have.
            if unions.insert(name.into(), (tag, variants)).is_none() {
                of_variants.for_each(|(_, property)| list(root, property, "", &mut Vec::new(), unions));
            }
        }
        // Objects of one field, which is in the type.
        None => of_variants.for_each(|(name, property)| {
            list(root, property, &format!("{path}.{name}"), fields, unions);
        }),
    }
    let properties = if schema.get("oneOf").is_some() { Vec::new() } else { in_order(schema) };
    for (name, property) in properties {
        let path = format!("{path}.{name}");
        let own = property.get("description").and_then(Value::as_str);
        let meaning =
            own.or(resolved(root, property).get("description").and_then(Value::as_str)).unwrap_or_default();
        let is_required = required(schema).any(|required| required == name);
        let optional = if is_required { "" } else { ", or left out" };
        fields.push([path.clone(), type_of(root, property) + optional, meaning.into()]);
        list(root, property, &path, fields, unions);
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The properties in printed order, as the list of required ones has it; then the others.
fn in_order(schema: &Value) -> Vec<(&String, &Value)> {
    let mut properties: Vec<_> =
        schema.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| {
        required(schema).position(|required| required == *name).unwrap_or(usize::MAX)
    });
    properties
}

/// The definition behind references and behind `null or`.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return resolved(root, root.pointer(target.trim_start_matches('#')).expect("a definition"));
    }
    match choices(schema).as_slice() {
        [other] => resolved(root, other),
        _ => schema,
    }
}

/// The choices of a schema, except null.
fn choices(schema: &Value) -> Vec<&Value> {
    let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    choices.filter(|choice| choice["type"] != "null").collect()
}

/// The variants of a union, those of unions in it included.
fn variants<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    match schema.get("oneOf").and_then(Value::as_array) {
        Some(variants) => variants.iter().collect(),
        None => choices(schema)
            .into_iter()
            .flat_map(|choice| {
                let choice = resolved(root, choice);
                if choice.get("oneOf").is_some() { variants(root, choice) } else { vec![choice] }
            })
            .collect(),
    }
}

/// The heading of a union, by the field that selects its variant, and its first variant.
fn heading(tag: &str, variants: &[[String; 3]]) -> &'static str {
    match (tag, variants[0][0].as_str()) {
        ("code", "passive" | "beside_host") => "Diagnostics",
        ("code", "cpu_counter") => "Clocks",
        ("kind", "not_comparable") => "Kinds of long-term imbalance",
        ("kind", "no_packets") => "Kinds of short-term imbalance",
        ("kind", "address") => "Uses of an interface",
        ("code", "zero_copy_spared" | "zero_copy_unavailable") => "Fallbacks of sending",
        ("kind", "not_offered") => "Reasons for copying",
        ("how", _) => "How a trace is held",
        ("rule", _) => "Evidence of rules",
        (tag, first) => panic!("the union of {tag} that begins with {first} has no name"),
    }
}

/// The field that selects a variant, and the variants.
fn union_of(root: &Value, schema: &Value) -> Option<(String, Vec<[String; 3]>)> {
    let variants = variants(root, schema);
    let tags = variants.first()?.get("properties")?.as_object()?;
    let (tag, _) = tags.iter().find(|(_, property)| property.get("const").is_some())?;
    let describe = |variant: &Value| {
        let data =
            in_order(variant).into_iter().filter(|(name, _)| *name != tag).flat_map(|(name, property)| {
                let meaning = property["description"].as_str().unwrap_or_default();
                let mut fields = vec![[name.clone(), type_of(root, property), meaning.into()]];
                list(root, property, name, &mut fields, &mut Unions::new());
                fields
            });
        let data = data
            .map(|[path, value, meaning]| format!("`{path}`: {} ({value})", meaning.trim_end_matches('.')));
        [
            variant["properties"][tag]["const"].as_str().unwrap_or_default().to_owned(),
            variant["description"].as_str().unwrap_or_default().to_owned(),
            data.collect::<Vec<_>>().join("<br>"),
        ]
    };
    Some((tag.clone(), variants.into_iter().map(describe).collect()))
}

/// The type of a value, in a few words.
pub(super) fn type_of(root: &Value, property: &Value) -> String {
    let is_null = |choice: &Value| choice["type"] == "null";
    let choices = property.get("anyOf").and_then(Value::as_array);
    if choices.is_some_and(|choices| choices.iter().any(is_null)) {
        return format!("{} or null", type_of(root, resolved(root, property)));
    }
    let schema = resolved(root, property);
    if let Some((tag, variants)) = union_of(root, schema) {
        let name = heading(&tag, &variants).to_lowercase();
        return format!("[{name}](#{})", name.replace(' ', "-"));
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return names.iter().map(|name| format!("`{name}`").replace('"', "")).collect::<Vec<_>>().join(", ");
    }
    if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
        return variants.iter().map(|variant| variant_of(root, variant)).collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", type_of(root, &schema["items"])),
        Value::String(name) if name == "string" => "text".into(),
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(|name| if name == "string" { "text" } else { name }).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    }
}

/// One of several values: a word, several words, or an object of one field.
fn variant_of(root: &Value, variant: &Value) -> String {
    let word = |value: &Value| format!("`{}`", value.as_str().unwrap_or_default());
    if let Some(value) = variant.get("const") {
        return word(value);
    }
    if let Some(values) = variant.get("enum").and_then(Value::as_array) {
        return values.iter().map(word).collect::<Vec<_>>().join(", ");
    }
    let properties = variant["properties"].as_object().into_iter().flatten();
    let fields = properties.map(|(name, property)| {
        let inner = resolved(root, property).get("properties").and_then(Value::as_object);
        match inner {
            Some(inner) => {
                let inner: Vec<_> = inner.keys().map(|name| format!("`{name}`")).collect();
                format!("`{name}` with {}", inner.join(", "))
            }
            None => format!("`{name}` with {}", type_of(root, property)),
        }
    });
    fields.collect::<Vec<_>>().join(", ")
}
