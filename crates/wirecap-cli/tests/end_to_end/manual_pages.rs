//! The manual pages, as man(1) shows them: they have what the program and its schemas have.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::lab::{WIRECAP, install};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Help of the program itself.
fn help(arguments: &[&str]) -> String {
    stdout(&Command::new(WIRECAP).args(arguments).output().unwrap())
}

/// The names of the commands, from the help.
fn commands() -> Vec<String> {
    let help = help(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(String::from).collect()
}

/// The page of a command as text, without hyphenation.
fn page(command: &str) -> String {
    shown(&format!("wirecap-{command}.1"))
}

/// A page as man(1) shows it.
fn shown(name: &str) -> String {
    let file = repository().join("docs/man").join(name);
    let mut man = Command::new("man");
    man.args(["--no-hyphenation", "--no-justification", "--local-file"]).arg(file);
    let output = man.env("MANWIDTH", "1000").env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    stdout(&output)
}

/// The flags in a help: `-w`, `--write`.
fn flags(help: &str) -> BTreeSet<String> {
    // Behind the flags, wrapped lines may begin with one.
    let help = help.split("\nExamples:").next().unwrap_or_default();
    let declarations = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    // `- busy: …` is a value.
    let words =
        declarations.flat_map(|line| line.split("  ").next().unwrap_or_default().split([' ', ',', '[', '=']));
    let names = words.filter(|word| word.starts_with('-') && word.len() > 1);
    names.map(|name| name.trim_end_matches('.').to_owned()).collect()
}

/// The names of the fields of a record, those of each kind of value included.
fn fields(root: &Value, schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(target.trim_start_matches('#')).expect("a definition");
        return fields(root, target, found);
    }
    for choices in ["anyOf", "oneOf"] {
        for choice in schema.get(choices).and_then(Value::as_array).into_iter().flatten() {
            fields(root, choice, found);
        }
    }
    if let Some(items) = schema.get("items") {
        fields(root, items, found);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.insert(name.clone());
        fields(root, property, found);
    }
}

#[test]
fn each_command_has_a_page_with_every_flag_exit_code_and_field() {
    let commands = commands();
    assert!(commands.len() >= 6, "{commands:?}");
    let overview = fs::read_to_string(repository().join("docs/man/wirecap.1")).unwrap();
    for command in &commands {
        let page = page(command);
        assert!(overview.contains(&format!("wirecap {command}\\fR")), "wirecap(1) lacks {command}");
        let words: BTreeSet<_> =
            page.split(|letter: char| letter.is_whitespace() || ",()[]:;|'".contains(letter)).collect();
        let (head, _) = page.split_once("EXIT STATUS").expect("the section");
        let flags = flags(&help(&[command, "--help"]));
        assert!(flags.len() >= 2, "{command}: {flags:?}");
        for flag in &flags {
            let is_there = head.lines().any(|line| {
                line.trim_start().starts_with('-')
                    && line.split([' ', ',', '[', '=']).any(|word| word == flag)
            });
            assert!(is_there, "wirecap-{command}(1) lacks {flag}");
        }
        let (_, status) = page.split_once("EXIT STATUS").expect("the section");
        // Of a capture that `top` starts or `stop` ends.
        let is_of_capture = ["top", "stop"].contains(&command.as_str());
        let has = |flag| flags.contains(flag);
        let expected = [
            ("0", command != "run"),
            ("1", true),
            ("2", true),
            ("3", has("--fail-on-loss") || is_of_capture),
            ("4", has("--fail-on-findings")),
        ];
        assert_eq!(
            codes(status),
            expected.iter().filter(|(_, is_code)| *is_code).map(|(code, _)| *code).collect()
        );
        let file = repository().join(format!("docs/schemas/{command}.json"));
        let Ok(schema) = fs::read_to_string(file) else { continue };
        let mut names = BTreeSet::new();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        fields(&schema, &schema, &mut names);
        assert!(names.len() >= 5, "{command}: {names:?}");
        for name in names {
            let is_there = words.iter().any(|word| {
                word.rsplit('.').next() == Some(name.as_str())
                    || word.trim_end_matches("[]").rsplit('.').next() == Some(&name)
            });
            assert!(is_there, "wirecap-{command}(1) lacks the field {name}");
        }
    }
}

/// The exit codes that a section explains.
fn codes(status: &str) -> BTreeSet<&str> {
    let section = status.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with(' '));
    let words = section.filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.len() == 1 && word.parse::<u8>().is_ok()).collect()
}

#[test]
fn the_overview_explains_all_exit_codes_and_the_fields_and_topics_of_messages() {
    let page = shown("wirecap.1");
    let (_, status) = page.split_once("EXIT STATUS").expect("the section");
    assert_eq!(codes(status), BTreeSet::from(["0", "1", "2", "3", "4"]));
    let (_, messages) = page.split_once("\nMESSAGES").expect("the section");
    let (messages, _) = messages.split_once("\nPRIVILEGES").expect("the next section");
    let terms: BTreeSet<_> = messages.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let schema = fs::read_to_string(repository().join("docs/schemas/messages.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut names = BTreeSet::new();
    fields(&schema, &schema, &mut names);
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        assert!(terms.contains(format!(".{name}").as_str()), "wirecap(1) lacks the field {name}: {terms:?}");
    }
    for word in ["error,", "warning,", "info)"] {
        assert!(messages.contains(word), "wirecap(1) lacks the level {word}: {messages}");
    }
    for topic in ["lost", "down", "progress", "times_jump"] {
        assert!(terms.contains(topic), "wirecap(1) lacks the topic {topic}: {terms:?}");
    }
}

#[test]
fn help_shows_the_page_beside_the_program_and_else_the_long_help() {
    let root = tempfile::tempdir().unwrap();
    let pages = root.path().join("share/man/man1");
    let program = root.path().join("bin/wirecap");
    fs::create_dir_all(&pages).unwrap();
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    install(WIRECAP, &program);
    let help =
        |path: &str| Command::new(&program).args(["help", "replay"]).env("PATH", path).output().unwrap();
    let path = std::env::var("PATH").unwrap();

    let long = help(&path);
    assert_eq!((long.status.code(), stdout(&long)), (Some(0), self::help(&["replay", "--help"])));
    fs::copy(repository().join("docs/man/wirecap-replay.1"), pages.join("wirecap-replay.1")).unwrap();
    let page = help(&path);
    assert!(page.status.success() && stdout(&page).contains("JSON OUTPUT"), "{page:?}");
    // Without man, the page is of no use.
    assert_eq!(stdout(&help("/nowhere")), stdout(&long));
    // A page of another command is not shown.
    let other = Command::new(&program).args(["help", "capture"]).output().unwrap();
    assert!(!stdout(&other).contains("JSON OUTPUT") && stdout(&other).contains("--direct-io"), "{other:?}");
}
