//! `wirecap doctor`: what settings of the machine cost packets, and what helps.
//!
//! ```text
//!   machine, or a file ─► Snapshot ─► findings ─► report
//!                                        └─ --fix ─► journal, settings        --undo: journal ─► settings
//! ```
//!
//! What is found and changed is decided in `wirecap-doctor`; here are the flags and the words.

pub(crate) mod flags;
mod journal;
pub(crate) mod report;

use std::{fs, path::Path, time::SystemTime};

use anyhow::{Result, anyhow, ensure};
use wirecap_doctor::{
    Change, Finding, Rule, Severity, Snapshot,
    collect::{self, Account},
    examine,
    fix::{Applied, ApplyOutcome, apply, undo},
    snapshot::PortAccount,
};

use self::{
    flags::DoctorFlags,
    journal::{JournalDirectory, describe},
    report::Diagnosis,
};
use crate::{
    exit::{Exit, Usage},
    print::{head::Head, printable::json, stdio::print_stdout},
};

/// Examines, changes or restores, and prints what was found and done.
///
/// # Errors
/// An interface or a file cannot be read, or the journal cannot be kept.
pub(crate) fn run(flags: &DoctorFlags) -> Result<Exit> {
    let head = Head::new("doctor", SystemTime::now());
    let directory = JournalDirectory::from(flags.journal.as_path());
    let mut diagnosis = Diagnosis { journal: directory.clone(), ..Diagnosis::default() };
    if flags.undo {
        ensure!(
            flags.interfaces.is_empty(),
            usage!(
                "--undo restores the settings of all interfaces: leave out {}",
                flags.interfaces.join(" ")
            )
        );
        diagnosis.restored = Some(match directory.open_to_undo()? {
            Some((journal, settings)) => undo(&journal, &settings).map_err(|error| describe(&error))?,
            None => Vec::new(),
        });
    } else {
        diagnosis.snapshot = snapshot(flags)?;
        diagnosis.findings = examine(&diagnosis.snapshot);
        if let Some(path) = &flags.record {
            record(path, &diagnosis.snapshot)?;
        }
        if let Some(rules) = &flags.fix {
            let changes = changes(&diagnosis.findings, rules);
            diagnosis.unrequested = unrequested(&diagnosis.findings, rules);
            let (journal, settings) = directory.open()?;
            let applied = apply(&journal, &settings, changes).map_err(|error| describe(&error))?;
            diagnosis.applied = Some(applied);
        }
    }
    let text = if flags.json { json(&diagnosis.record(head)) } else { diagnosis.describe() };
    print_stdout("the report", &text)?;
    Ok(exit(&diagnosis, flags.fail_on_findings))
}

fn snapshot(flags: &DoctorFlags) -> Result<Snapshot> {
    let account = match &flags.account {
        Some(path) => Some((path.as_path(), collect::read_account(path)?)),
        None => None,
    };
    let mut snapshot = match (&flags.snapshot, &account) {
        (Some(path), _) => collect::read_snapshot(path)?,
        (None, Some((path, account))) if flags.interfaces.is_empty() => {
            let taken = collect::snapshot(interfaces_of(path, account)?).map_err(|error| {
                anyhow!("{error}; {} names this interface: name one to examine instead", path.display())
            })?;
            Snapshot { cell_bytes: flags.cell_bytes, ..taken }
        }
        (None, _) => {
            let taken = collect::snapshot(flags.interfaces.iter().map(String::as_str))?;
            Snapshot { cell_bytes: flags.cell_bytes, ..taken }
        }
    };
    if let Some(path) = &flags.disk {
        let mut disk = collect::disk(path)?;
        if flags.measure {
            collect::measure(&mut disk)?;
        }
        snapshot.disk = Some(disk);
    }
    if let Some((_, account)) = account {
        (snapshot.account, snapshot.account_settings) = (account.ports, account.settings);
        snapshot.account_stood_seconds = account.stood_seconds;
    }
    Ok(snapshot)
}

/// The interfaces that an account names, each once.
fn interfaces_of<'a>(path: &Path, account: &'a Account) -> Result<Vec<&'a str>, Usage> {
    let mut interfaces: Vec<&str> = Vec::new();
    for interface in account.ports.iter().filter_map(PortAccount::interface) {
        if !interfaces.contains(&interface) {
            interfaces.push(interface);
        }
    }
    if interfaces.is_empty() {
        let path = path.display();
        let ports: Vec<_> = account.ports.iter().map(|port| port.name.as_str()).collect();
        let ports = if ports.is_empty() { "no port".into() } else { format!("only {}", ports.join(", ")) };
        return Err(usage!(
            "{path} has no interface to examine, {ports}; name one: wirecap doctor eth1 --account {path}"
        ));
    }
    Ok(interfaces)
}

fn record(path: &Path, snapshot: &Snapshot) -> Result<()> {
    fs::write(path, json(snapshot)).map_err(|cause| anyhow!("cannot write {}: {cause}", path.display()))
}

/// The changes to make: those of the rules that were named, or else those that need not be named.
fn changes(findings: &[Finding], rules: &[Rule]) -> Vec<Change> {
    let is_named = |finding: &&Finding| rules.is_empty() || rules.contains(&finding.rule());
    let all = findings.iter().filter(is_named).flat_map(|finding| &finding.changes);
    all.filter(|change| !rules.is_empty() || !change.setting.needs_request()).cloned().collect()
}

/// Rules with changes that are made only if the rule is named, where none was.
fn unrequested(findings: &[Finding], rules: &[Rule]) -> Vec<Rule> {
    let needs_request =
        |finding: &&Finding| finding.changes.iter().any(|change| change.setting.needs_request());
    let mut left: Vec<_> = findings.iter().filter(needs_request).map(Finding::rule).collect();
    left.retain(|_| rules.is_empty());
    left.sort();
    left.dedup();
    left
}

fn exit(diagnosis: &Diagnosis, fail_on_findings: bool) -> Exit {
    let applied = diagnosis.applied.iter().flatten();
    let restored = diagnosis.restored.iter().flatten();
    let is_refused = applied.map(|Applied { outcome, .. }| matches!(outcome, ApplyOutcome::Refused(_)));
    let is_left = restored.map(|restored| restored.outcome.is_left());
    if is_refused.chain(is_left).any(|failed| failed) {
        return Exit::Failed;
    }
    let is_serious = |finding: &Finding| finding.severity != Severity::Hint;
    if fail_on_findings && diagnosis.findings.iter().any(is_serious) { Exit::Found } else { Exit::Fine }
}

#[cfg(test)]
mod tests {
    use std::io;

    use wirecap_doctor::{
        Evidence, Setting, Value,
        setting::NapiFile,
        snapshot::{AccountSettings, Disk, Interface, Napi},
    };

    use super::*;

    fn finding(severity: Severity, evidence: Evidence, setting: Setting) -> Finding {
        let interface = Some("eth1".into());
        Finding { interface, severity, evidence, changes: vec![Change::text(setting, 1, 0)] }
    }

    fn findings() -> Vec<Finding> {
        let interface = || "eth1".to_owned();
        vec![
            finding(
                Severity::Hint,
                Evidence::ThreadedNapi { queues: 2 },
                Setting::Napi { interface: interface(), file: NapiFile::Threaded },
            ),
            finding(
                Severity::Hint,
                Evidence::Governor { governor: "powersave".into(), cpus: vec![0] },
                Setting::Governor { cpu: 0 },
            ),
        ]
    }

    #[test]
    fn what_is_dangerous_is_changed_only_if_its_rule_is_named() {
        let settings = |rules: &[Rule]| {
            changes(&findings(), rules).into_iter().map(|change| change.setting).collect::<Vec<_>>()
        };
        let threaded = Setting::Napi { interface: "eth1".into(), file: NapiFile::Threaded };
        assert_eq!(settings(&[]), [threaded]);
        assert_eq!(settings(&[Rule::Governor]), [Setting::Governor { cpu: 0 }]);
        assert_eq!(settings(&[Rule::Lro]), []);
    }

    #[test]
    fn the_flag_for_what_is_changed_only_on_request_is_named() {
        let after_fix = |findings: Vec<Finding>, rules: &[Rule]| {
            let unrequested = unrequested(&findings, rules);
            let interface = Interface { name: "eth1".into(), ..Interface::default() };
            let snapshot = Snapshot { interfaces: vec![interface], ..Snapshot::default() };
            let applied = Some(Vec::new());
            Diagnosis { snapshot, findings, applied, unrequested, ..Diagnosis::default() }
                .describe()
                .replace("\n    ", " ")
        };
        let only_governor = findings().split_off(1);
        let text = after_fix(only_governor.clone(), &[]);
        assert!(
            text.ends_with(
                "nothing was changed: some changes are made only if you name their rule: wirecap doctor eth1 --fix=governor\n"
            ),
            "{text}"
        );
        let named = after_fix(only_governor, &[Rule::Lro]);
        assert!(named.ends_with("\nnothing was changed\n"), "{named}");
        let none = after_fix(Vec::new(), &[]);
        assert!(none.ends_with("nothing was changed\n"), "{none}");
    }

    #[test]
    fn commands_that_are_printed_name_a_journal_that_is_not_the_usual_one() {
        let change = findings().remove(0).changes.remove(0);
        let text = |journal: &str, outcome| {
            let applied = Some(vec![Applied { change: change.clone(), outcome }]);
            let journal = JournalDirectory::from(Path::new(journal));
            let findings = findings().split_off(1);
            let unrequested = unrequested(&findings, &[]);
            Diagnosis { journal, applied, unrequested, ..Diagnosis::default() }.describe()
        };
        let made = text("/j", ApplyOutcome::Made).replace("\n    ", " ");
        assert!(made.contains("wirecap doctor --undo --journal /j restores these settings\n"), "{made}");
        assert!(made.ends_with("wirecap doctor --journal /j --fix=governor\n"), "{made}");
        let usual = text(journal::USUAL, ApplyOutcome::Made);
        assert!(usual.contains("wirecap doctor --undo restores these settings\n"), "{usual}");
        let stale = text("/j", ApplyOutcome::Stale(Value::Switch(true)));
        assert!(!stale.contains("restores"), "{stale}");
    }

    #[test]
    fn an_account_names_the_interfaces_to_examine() {
        let of = |ports: &[&str]| {
            let ports: Vec<_> = ports
                .iter()
                .map(|name| PortAccount { name: (*name).into(), ..PortAccount::default() })
                .collect();
            let account = Account { settings: AccountSettings::default(), ports, stood_seconds: 0.0 };
            interfaces_of(Path::new("a.json"), &account)
                .map(|interfaces| interfaces.join(" "))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&["eth1@0", "eth1@1-3", "trace:x.pcap", "eth2"]), Ok("eth1 eth2".into()));
        let words = "; name one: wirecap doctor eth1 --account a.json";
        assert_eq!(
            of(&["trace:x.pcap", "trace:y.pcap"]),
            Err(format!("a.json has no interface to examine, only trace:x.pcap, trace:y.pcap{words}"))
        );
        assert_eq!(of(&[]), Err(format!("a.json has no interface to examine, no port{words}")));
    }

    #[test]
    fn what_was_measured_is_printed_even_if_no_rule_has_a_finding() {
        let disk = Disk { path: "/data".into(), bytes_per_second: Some(90_000_000), ..Disk::default() };
        let snapshot = Snapshot { disk: Some(disk), ..Snapshot::default() };
        assert_eq!(examine(&snapshot), []);
        let diagnosis = Diagnosis { snapshot, ..Diagnosis::default() };
        let text = diagnosis.describe().replace("\n    ", " ");
        assert!(text.starts_with("/data took 90 MB/s in a test, "), "{text}");
        let head = Head::new("doctor", SystemTime::UNIX_EPOCH);
        let record = serde_json::to_value(diagnosis.record(head)).unwrap();
        assert_eq!(record["disk"]["bytes_per_second"], 90_000_000);
        assert_eq!(record["disk"]["link_bytes_per_second"], serde_json::Value::Null);
    }

    #[test]
    fn findings_change_the_exit_code_on_request() {
        let mut diagnosis = Diagnosis { findings: findings(), ..Diagnosis::default() };
        assert_eq!(exit(&diagnosis, true), Exit::Fine, "hints");
        diagnosis.findings[0].severity = Severity::Warning;
        assert_eq!((exit(&diagnosis, true), exit(&diagnosis, false)), (Exit::Found, Exit::Fine));
        let change = findings().remove(0).changes.remove(0);
        let outcome = ApplyOutcome::Refused(io::ErrorKind::PermissionDenied.into());
        diagnosis.applied = Some(vec![Applied { change, outcome }]);
        assert_eq!(exit(&diagnosis, true), Exit::Failed);
    }

    #[test]
    fn the_report_has_the_finding_the_cost_the_remedy_and_the_way_back() {
        let napi = Napi { threaded: Some(true), ..Napi::default() };
        let interface = Interface { name: "eth1".into(), queues: 2, napi, ..Interface::default() };
        let snapshot = Snapshot { interfaces: vec![interface], ..Snapshot::default() };
        let findings = examine(&snapshot);
        let text = Diagnosis { snapshot, findings, ..Diagnosis::default() }.describe();
        for expected in [
            "hint  threaded-napi: eth1: kernel threads poll its 2 queues (threaded)\n",
            "    costs: the scheduler decides when a queue is polled",
            "    remedy: switch it off",
            "    --fix: echo 0 > /sys/class/net/eth1/threaded\n",
            "    back: echo 1 > /sys/class/net/eth1/threaded\n",
            "1 finding: 1 hint; wirecap doctor eth1 --fix changes 1 setting\n",
        ] {
            assert!(text.contains(expected), "{expected:?}: {text}");
        }
        let healthy = Diagnosis::default().describe();
        assert!(healthy.starts_with("nothing found: "), "{healthy}");
    }
}
