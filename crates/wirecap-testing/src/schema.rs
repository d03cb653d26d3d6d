//! Checks printed JSON against its JSON Schema.
//!
//! Rule: the check knows the keywords that occur in `docs/schemas/` and panics at any other. It is stricter
//! than the schemas: a field that no schema names is a mistake, though the schemas let readers accept it.

use std::collections::BTreeSet;

use serde_json::Value;

/// The schemas of `docs/schemas/` for the output of `wirecap COMMAND --json`, and for messages of `--log
/// json`.
const SCHEMAS: [(&str, &str); 11] = [
    ("capture", include_str!("../../../docs/schemas/capture.json")),
    ("forward", include_str!("../../../docs/schemas/forward.json")),
    ("generate", include_str!("../../../docs/schemas/generate.json")),
    ("replay", include_str!("../../../docs/schemas/replay.json")),
    ("profile", include_str!("../../../docs/schemas/profile.json")),
    ("handle", include_str!("../../../docs/schemas/handle.json")),
    ("run", include_str!("../../../docs/schemas/run.json")),
    ("interfaces", include_str!("../../../docs/schemas/interfaces.json")),
    ("doctor", include_str!("../../../docs/schemas/doctor.json")),
    ("size", include_str!("../../../docs/schemas/size.json")),
    ("messages", include_str!("../../../docs/schemas/messages.json")),
];

/// Checks every record in the output of `wirecap` against the schema of its command. Returns the number of
/// records.
///
/// # Panics
/// With the mistakes, if a record does not match.
pub fn check_records(printed: &[u8]) -> usize {
    let records = printed.split(|&byte| byte == b'\n').filter_map(record);
    records.map(|(command, record)| check_record(&command, &record)).count()
}

/// Checks a record of a command against its schema.
///
/// # Panics
/// With the mistakes, if it does not match; if the command has no schema.
pub fn check_record(command: &str, record: &Value) {
    let (_, schema) = SCHEMAS.iter().find(|(name, _)| *name == command).expect("the command has a schema");
    let mistakes = mistakes(&serde_json::from_str(schema).expect("the schema is JSON"), record);
    assert!(mistakes.is_empty(), "docs/schemas/{command}.json: {mistakes:#?}\n{record:#}");
}

/// The record in a line, with its command.
fn record(line: &[u8]) -> Option<(String, Value)> {
    if line.starts_with(b"[{\"name\":") {
        return Some(("interfaces".into(), serde_json::from_slice(line).ok()?));
    }
    let record: Value = line.starts_with(b"{\"schema\":").then(|| serde_json::from_slice(line).ok())??;
    Some((record["command"].as_str()?.into(), record))
}

/// Names of the fields that a schema knows.
type KnownFields = BTreeSet<String>;

/// The mistakes in a value, each with its path; empty if the value matches the schema.
///
/// # Panics
/// If the schema has a keyword that this module does not know.
///
/// ```
/// use serde_json::json;
/// use wirecap_testing::schema::mistakes;
///
/// let schema = json!({ "type": "object", "properties": { "queue": { "type": "integer" } }, "required": ["queue"] });
/// assert!(mistakes(&schema, &json!({ "queue": 3 })).is_empty());
/// assert_eq!(mistakes(&schema, &json!({ "queue": 3, "odd": 1 })), [".odd: not in the schema"]);
/// ```
pub fn mistakes(schema: &Value, value: &Value) -> Vec<String> {
    let mut mistakes = Vec::new();
    Check { root: schema }.value(schema, value, "", &mut mistakes);
    mistakes
}

struct Check<'s> {
    root: &'s Value,
}

impl Check<'_> {
    /// Checks a whole value, whose fields must all be known.
    fn value(&self, schema: &Value, value: &Value, path: &str, mistakes: &mut Vec<String>) {
        let known = self.part(schema, value, path, mistakes);
        let fields = value.as_object().into_iter().flatten();
        let unknown = fields.filter(|(name, _)| !known.contains(*name));
        mistakes.extend(unknown.map(|(name, _)| format!("{path}.{name}: not in the schema")));
    }

    /// Checks a value against one of several schemas that apply to it. Returns the fields that this schema
    /// knows.
    fn part(&self, schema: &Value, value: &Value, path: &str, mistakes: &mut Vec<String>) -> KnownFields {
        let Value::Object(schema) = schema else { panic!("{schema} is not a schema") };
        let mut known = KnownFields::new();
        for (keyword, rule) in schema {
            match keyword.as_str() {
                "$ref" => {
                    let target = rule
                        .as_str()
                        .and_then(|target| target.strip_prefix('#'))
                        .expect("the reference is local");
                    let target = self.root.pointer(target).unwrap_or_else(|| panic!("{rule} does not exist"));
                    known.extend(self.part(target, value, path, mistakes));
                }
                "type" if !is_of_type(rule, value) => {
                    mistakes.push(format!("{path}: {value} is not of type {rule}"))
                }
                "enum" if !list(rule).contains(value) => {
                    mistakes.push(format!("{path}: {value} is not one of {rule}"))
                }
                "const" if rule != value => mistakes.push(format!("{path}: {value} is not {rule}")),
                "minimum" if value.is_number() && value.as_f64() < rule.as_f64() => {
                    mistakes.push(format!("{path}: {value} is below {rule}"))
                }
                "maximum" if value.is_number() && value.as_f64() > rule.as_f64() => {
                    mistakes.push(format!("{path}: {value} is above {rule}"));
                }
                "properties" => known.extend(self.properties(rule, value, path, mistakes)),
                "required" => {
                    let missing = list(rule)
                        .iter()
                        .filter_map(Value::as_str)
                        .filter(|name| value.is_object() && value.get(name).is_none());
                    mistakes.extend(missing.map(|name| format!("{path}.{name}: missing")));
                }
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value(rule, item, &format!("{path}[{place}]"), mistakes);
                    }
                }
                "oneOf" | "anyOf" => {
                    known.extend(self.one_of(rule, keyword == "oneOf", value, path, mistakes))
                }
                "additionalProperties" => assert_eq!(*rule, false, "{path}: {keyword}"),
                "type" | "enum" | "const" | "minimum" | "maximum" | "$schema" | "$defs" | "title"
                | "description" | "format" => {}
                _ => panic!("{path}: unknown keyword {keyword}"),
            }
        }
        known
    }

    fn properties(
        &self,
        rules: &Value,
        value: &Value,
        path: &str,
        mistakes: &mut Vec<String>,
    ) -> KnownFields {
        let Value::Object(rules) = rules else { panic!("{path}: `properties` is not an object") };
        let Some(fields) = value.as_object() else { return KnownFields::new() };
        let named = rules.iter().filter_map(|(name, rule)| Some((name, rule, fields.get(name)?)));
        named
            .map(|(name, rule, field)| {
                self.value(rule, field, &format!("{path}.{name}"), mistakes);
                name.clone()
            })
            .collect()
    }

    /// The fields that the fitting schemas know. With `exactly`, only one schema may fit.
    fn one_of(
        &self,
        schemas: &Value,
        exactly: bool,
        value: &Value,
        path: &str,
        mistakes: &mut Vec<String>,
    ) -> KnownFields {
        let tried = list(schemas).iter().map(|schema| {
            let mut mistakes = Vec::new();
            let known = self.part(schema, value, path, &mut mistakes);
            (known, mistakes)
        });
        let (fits, fails): (Vec<_>, Vec<_>) = tried.partition(|(_, mistakes)| mistakes.is_empty());
        if fits.is_empty() || exactly && fits.len() > 1 {
            let fewest = fails
                .iter()
                .map(|(_, mistakes)| mistakes.join(", "))
                .min_by_key(String::len)
                .unwrap_or_default();
            mistakes.push(format!(
                "{path}: {} of {} alternatives fit: {fewest}",
                fits.len(),
                list(schemas).len()
            ));
        }
        fits.into_iter().flat_map(|(known, _)| known).collect()
    }
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("the rule is a list")
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => panic!("unknown type {name}"),
    };
    match rule {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => panic!("{rule} is not a type"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema with every feature that the schemas of the records use.
    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "end": { "enum": ["signal", null] },
                "seconds": { "type": "number" },
                "queues": { "type": "array", "items": { "$ref": "#/$defs/Queue" } },
                "driver": { "type": ["string", "null"] },
                "filter": { "anyOf": [{ "$ref": "#/$defs/Queue" }, { "type": "null" }] },
            },
            "required": ["end", "queues"],
            "$defs": {
                "Queue": {
                    "type": "object",
                    "properties": { "text": { "type": "string" } },
                    "required": ["text"],
                    "oneOf": [
                        { "type": "object", "properties": { "code": { "const": "gone" }, "queues": { "type": "integer", "minimum": 0 } }, "required": ["code", "queues"] },
                        { "type": "object", "properties": { "code": { "const": "set" } }, "required": ["code"] },
                    ],
                },
            },
        })
    }

    #[test]
    fn a_matching_value_has_no_mistakes() {
        for value in [
            json!({ "end": "signal", "seconds": 1.5, "queues": [], "driver": null, "filter": null }),
            json!({ "end": null, "queues": [{ "text": "x", "code": "gone", "queues": 3 }], "filter": { "text": "", "code": "set" } }),
        ] {
            assert_eq!(mistakes(&schema(), &value), Vec::<String>::new());
        }
    }

    #[test]
    fn each_kind_of_mistake_is_found() {
        for (value, mistake) in [
            (json!({ "queues": [] }), ".end: missing"),
            (json!({ "end": "x", "queues": [] }), ".end: \"x\" is not one of [\"signal\",null]"),
            (json!({ "end": null, "queues": [], "odd": 1 }), ".odd: not in the schema"),
            (json!({ "end": null, "queues": [], "driver": 3 }), ".driver: 3 is not of type"),
            (
                json!({ "end": null, "queues": [{ "text": "x", "code": "set", "queues": 3 }] }),
                ".queues[0].queues: not in the schema",
            ),
            (
                json!({ "end": null, "queues": [{ "text": "x", "code": "gone", "queues": -1 }] }),
                ".queues[0]: 0 of 2 alternatives fit",
            ),
            (json!({ "end": null, "queues": [{ "code": "set" }] }), ".queues[0].text: missing"),
            (json!({ "end": null, "queues": {}}), ".queues: {} is not of type"),
        ] {
            let found = mistakes(&schema(), &value);
            assert!(found.iter().any(|found| found.starts_with(mistake)), "{found:?}");
        }
    }

    #[test]
    #[should_panic(expected = "unknown keyword pattern")]
    fn an_unknown_keyword_panics() {
        mistakes(&json!({ "pattern": "x" }), &json!("x"));
    }
}
