//! `wirecap doctor` on a real driver: faults that are planted with ethtool are found, mended, and the mending
//! is undone exactly, also after a kill.

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    thread,
    time::Instant,
};

use serde_json::Value;
use wirecap_testing::running_command::RunningCommand;

use super::{Case, faults::Driver};
use crate::{
    machine::{CAPTURED, Machine, try_run},
    program,
};

pub(super) const CASES: [Case; 2] = [("doctor", mends_and_undoes), ("doctor-killed", undoes_after_a_kill)];

/// A fault that ethtool plants where the driver has the setting.
struct Fault {
    /// The rule that finds it.
    rule: &'static str,
    flags: &'static [&'static str],
    /// How `ethtool -k` shows it: an offload may be switched on and remain inactive.
    shown: Option<&'static str>,
}

const FAULTS: [Fault; 6] = [
    Fault {
        rule: "vlan-stripping",
        flags: &["-K", CAPTURED, "rxvlan", "on"],
        shown: Some("rx-vlan-offload: on"),
    },
    Fault { rule: "hardware-gro", flags: &["-K", CAPTURED, "rx-gro-hw", "on"], shown: Some("rx-gro-hw: on") },
    Fault { rule: "ring-size", flags: &["-G", CAPTURED, "rx", "128"], shown: None },
    Fault { rule: "rss-table", flags: &["-X", CAPTURED, "equal", "1"], shown: None },
    Fault { rule: "long-coalescing", flags: &["-C", CAPTURED, "rx-usecs", "1000"], shown: None },
    Fault {
        rule: "pause-frames",
        flags: &["-A", CAPTURED, "autoneg", "off", "rx", "on", "tx", "on"],
        shown: None,
    },
];
/// Faults in files of the interface in sysfs, which every driver has.
const FILES: [(&str, &str, &str); 2] =
    [("threaded-napi", "threaded", "1"), ("rps", "queues/rx-0/rps_cpus", "1")];
/// Those of ethtool that each driver of the guests has at least.
const FEWEST: usize = 2;
const JOURNAL: &str = "/tmp/doctor-journal";
/// Kills, at different moments of a run.
const KILLS: u32 = 8;

fn mends_and_undoes(machine: &Machine) {
    with_faults(machine, |planted| {
        let before = settings();
        let found_before = found();
        let missed: Vec<_> = planted.iter().filter(|rule| !found_before.contains(rule)).collect();
        assert!(missed.is_empty(), "not found: {missed:?}");

        let fixed = record(start(&[CAPTURED, &fix(planted), "--json"]));
        let outcomes = outcomes(&fixed, "applied");
        assert!(outcomes.len() >= planted.len() && outcomes.iter().all(|one| one == "made"), "{fixed:#}");
        let left: Vec<_> = found().into_iter().filter(|rule| planted.contains(rule)).collect();
        assert!(left.is_empty(), "not mended: {left:?}");
        assert_ne!(settings(), before);

        let undone = record(start(&["--undo", "--json"]));
        assert!(self::outcomes(&undone, "restored").iter().all(|one| one == "restored"), "{undone:#}");
        assert_eq!(settings(), before, "{undone:#}");
    });
}

fn undoes_after_a_kill(machine: &Machine) {
    with_faults(machine, |planted| {
        let before = settings();
        let begun = Instant::now();
        record(start(&[CAPTURED, &fix(planted), "--json"]));
        let whole_run = begun.elapsed();
        record(start(&["--undo", "--json"]));
        let mut changed = 0;
        for round in 1..=KILLS {
            let running = start(&[CAPTURED, &fix(planted)]);
            thread::sleep(whole_run * round / KILLS);
            running.kill();
            changed += u32::from(settings() != before);
            record(start(&["--undo", "--json"]));
            assert_eq!(settings(), before, "round {round}");
        }
        assert!(changed > 0, "no run was killed after its first change");
    });
}

/// Plants the faults that the driver can have, and calls `check` with their rules. However that ends, the
/// driver starts anew, and the journal is gone.
fn with_faults(machine: &Machine, check: impl FnOnce(&[String])) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let planted = plant();
        // Some settings reset the NIC, and without a link its rate is unknown.
        machine.wait_for_links();
        check(&planted);
    }));
    Driver::unbind().bind_again(machine);
    let _ = fs::remove_dir_all(JOURNAL);
    if let Err(failure) = outcome {
        panic::resume_unwind(failure);
    }
}

/// Plants the faults that the driver can have. Returns their rules.
fn plant() -> Vec<String> {
    let mut planted = Vec::new();
    for Fault { rule, flags, .. } in FAULTS {
        match try_run("ethtool", flags) {
            Ok(_) => planted.push(rule.to_owned()),
            // It may have the fault already, which ethtool reports in another way for each setting.
            Err(said) => eprintln!("{rule}: {said}"),
        }
    }
    let offloads = try_run("ethtool", &["-k", CAPTURED]).unwrap();
    for Fault { rule, shown, .. } in FAULTS {
        if shown.is_some_and(|shown| !offloads.contains(shown)) {
            planted.retain(|planted| planted != rule);
        }
    }
    assert!(planted.len() >= FEWEST, "planted only {planted:?}");
    for (rule, file, fault) in FILES {
        fs::write(format!("/sys/class/net/{CAPTURED}/{file}"), fault).unwrap();
        planted.push(rule.to_owned());
    }
    eprintln!("planted: {}", planted.join(", "));
    planted
}

/// All that the doctor may change, as ethtool and the kernel show it.
fn settings() -> String {
    let shown =
        ["-g", "-l", "-c", "-k", "-x", "-a"].map(|flag| match try_run("ethtool", &[flag, CAPTURED]) {
            Ok(text) | Err(text) => text,
        });
    let file = |(_, file, _)| fs::read_to_string(format!("/sys/class/net/{CAPTURED}/{file}")).unwrap();
    shown.into_iter().chain(FILES.map(file)).collect::<Vec<_>>().join("\n")
}

fn start(arguments: &[&str]) -> RunningCommand {
    program::spawn(&[&["doctor", "--journal", JOURNAL], arguments].concat())
}

fn record(running: RunningCommand) -> Value {
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// The rules with a finding about the interface.
fn found() -> Vec<String> {
    let record = record(start(&[CAPTURED, "--json"]));
    let findings = record["findings"].as_array().unwrap().iter();
    let of_interface = findings.filter(|finding| finding["interface"] == CAPTURED);
    of_interface.map(|finding| finding["evidence"]["rule"].as_str().unwrap().to_owned()).collect()
}

fn fix(rules: &[String]) -> String {
    format!("--fix={}", rules.join(","))
}

/// What became of each change.
fn outcomes(record: &Value, changes: &str) -> Vec<String> {
    let changes = record[changes].as_array().unwrap().iter();
    changes.map(|change| change["outcome"].as_str().unwrap().to_owned()).collect()
}
