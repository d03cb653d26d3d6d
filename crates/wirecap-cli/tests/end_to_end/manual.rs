//! The manual keeps up with what is printed.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use wirecap_lab::require_root;

use crate::{
    forward::{Cable, frame},
    lab::{Lab, READY, Running, WIRECAP},
};

const MANUAL: &str = include_str!("../../../../docs/MANUAL.md");

/// The names of all fields, at every depth.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.insert(name.clone());
                fields(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn every_field_and_every_column_is_in_the_manual() {
    if !require_root("every_field_and_every_column_is_in_the_manual") {
        return;
    }
    let lab = Lab::with_queues("manual", 1);
    let path = lab.path("manual.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap(), "--verify"]);
    let mut command = lab.left.command(WIRECAP);
    command.args(["generate", "-i", "l0", "-c", "100", "--json"]);
    let generated = Running::spawn(command).wait();
    let interfaces = lab.spawn(&["interfaces", "--json"]).wait();
    let mut names = BTreeSet::new();
    fields(&running.stop().account().0, &mut names);
    fields(&serde_json::from_slice(&generated.stdout).unwrap(), &mut names);
    fields(&serde_json::from_slice(&interfaces.stdout).unwrap(), &mut names);
    assert!(
        names.contains("pid")
            && names.contains("no_free_cell")
            && names.contains("bytes")
            && names.contains("too_late"),
        "{names:?}"
    );

    let table = lab.spawn(&["capture", "r0", "--duration", "100ms"]).wait();
    let table = String::from_utf8(table.stdout).unwrap();
    let heads = table.lines().filter(|line| line.starts_with("port ") || line.starts_with("worker "));
    names.extend(heads.flat_map(str::split_whitespace).map(String::from));

    let cable = Cable::quiet("manual");
    let forward = |arguments: &[&str]| {
        let running = cable.spawn(&[&["forward", "m0", "m1"], arguments].concat());
        running.wait_for(READY);
        cable.sender().send(&frame(1, 100)).unwrap();
        // Until it is there: not before are there times.
        std::thread::sleep(Duration::from_millis(300));
        running.stop()
    };
    fields(&forward(&["--json"]).account().0, &mut names);
    assert!(names.contains("forwarded") && names.contains("p999_ns") && names.contains("not_sendable"));
    let routes = cable.path("table.txt");
    std::fs::write(&routes, "192.0.2.0/24 dev m0\n").unwrap();
    fields(&forward(&["--json", "--route", routes.to_str().unwrap()]).account().0, &mut names);
    assert!(names.contains("crowded_out"));
    let table = String::from_utf8(forward(&[]).stdout).unwrap();
    // Some of these heads are two words.
    let heads = table.lines().filter(|line| line.starts_with("from "));
    let heads = heads.flat_map(|line| line.split("  ").map(|head| head.trim().to_owned()));
    names.extend(heads.filter(|head| !head.is_empty()));
    assert!(names.contains("unsent") && names.contains("p99.9 us"), "{table}");
    for name in names {
        let documented = [format!("`{name}`"), format!("`{name}[]`")];
        assert!(documented.iter().any(|name| MANUAL.contains(name)), "{name} is not in docs/MANUAL.md");
    }
}
