//! `wirecap doctor`: what settings of the machine cost packets, and what helps.
//!
//! ```text
//!   machine, or a file ─► Snapshot ─► findings ─► report
//!                                        └─ --fix ─► journal, settings        --undo: journal ─► settings
//! ```
//!
//! What is found and changed is decided in `wirecap-doctor`; here are the flags and the words.

pub(crate) mod flags;
pub(crate) mod report;
pub(crate) mod text;

use std::{fs, io, path::Path, time::SystemTime};

use anyhow::{Result, anyhow};
use wirecap_doctor::{
    Change, Finding, Severity, Snapshot, collect, examine,
    fix::{self, Applied, ApplyOutcome, Journal, LiveSettings, Place, apply, undo},
};

use self::{flags::DoctorFlags, report::Diagnosis};
use crate::{
    exit::Exit,
    print::{head::Head, printable::json, stdio::print_stdout},
};

/// Examines, changes or restores, and prints what was found and done.
///
/// # Errors
/// An interface or a file cannot be read, or the journal cannot be kept.
pub(crate) fn run(flags: &DoctorFlags) -> Result<Exit> {
    let head = Head::new("doctor", SystemTime::now());
    let mut diagnosis = Diagnosis::default();
    if flags.undo {
        let (journal, settings) = open(&flags.journal)?;
        diagnosis.restored = Some(undo(&journal, &settings).map_err(describe)?);
    } else {
        diagnosis.snapshot = snapshot(flags)?;
        diagnosis.findings = examine(&diagnosis.snapshot);
        if let Some(path) = &flags.record {
            record(path, &diagnosis.snapshot)?;
        }
        if let Some(rules) = &flags.fix {
            let changes = changes(&diagnosis.findings, rules);
            let (journal, settings) = open(&flags.journal)?;
            diagnosis.applied = Some(apply(&journal, &settings, changes).map_err(describe)?);
        }
    }
    let text = if flags.json { json(&diagnosis.record(head)) } else { diagnosis.describe() };
    print_stdout("the report", &text)?;
    Ok(exit(&diagnosis, flags.fail_on_findings))
}

fn snapshot(flags: &DoctorFlags) -> Result<Snapshot> {
    let mut snapshot = match &flags.snapshot {
        Some(path) => collect::read_snapshot(path)?,
        None => {
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
    if let Some(path) = &flags.account {
        snapshot.account = collect::read_account(path)?;
    }
    Ok(snapshot)
}

fn record(path: &Path, snapshot: &Snapshot) -> Result<()> {
    fs::write(path, json(snapshot)).map_err(|cause| anyhow!("cannot write {}: {cause}", path.display()))
}

/// The changes to make: those of the rules that were named, or else those that need not be named.
fn changes(findings: &[Finding], rules: &[wirecap_doctor::Rule]) -> Vec<Change> {
    let is_named = |finding: &&Finding| rules.is_empty() || rules.contains(&finding.rule());
    let all = findings.iter().filter(is_named).flat_map(|finding| &finding.changes);
    all.filter(|change| !rules.is_empty() || !change.setting.needs_request()).cloned().collect()
}

fn open(directory: &Path) -> Result<(Journal, LiveSettings)> {
    let place = Place::current().map_err(|cause| anyhow!("cannot read the network namespace: {cause}"))?;
    Ok((Journal::open(directory, place).map_err(describe)?, LiveSettings::open()?))
}

/// The error with what helps.
fn describe(error: fix::Error) -> anyhow::Error {
    match &error {
        fix::Error::Journal { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            anyhow!("{error}; run it as root")
        }
        fix::Error::Damaged { path, .. } => {
            anyhow!("{error}; mend or remove the line, or move {} away", path.display())
        }
        _ => error.into(),
    }
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
    use wirecap_doctor::{
        Evidence, Rule, Setting,
        finding::Finding,
        setting::NapiFile,
        snapshot::{Interface, Napi},
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
