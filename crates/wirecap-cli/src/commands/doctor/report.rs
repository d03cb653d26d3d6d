//! What was found and done, as text or as JSON.

use std::io;

use nix::errno::Errno;
use serde::Serialize;
use wirecap_core::Choice;
use wirecap_doctor::{
    Change, Evidence, Finding, Rule, Setting, Severity, Snapshot,
    fix::{Applied, ApplyOutcome, Restored, UndoOutcome},
    snapshot::{Disk, FileSystem, Interface},
};

use super::journal::JournalDirectory;
use crate::{
    print::{head::Head, layout::paragraph},
    text::{
        doctor::{
            advice::{self, Advice},
            disk, evidence, setting,
        },
        plural::counted,
    },
};

/// Changes of a finding that are printed as text; there may be one for each processor.
const MAX_CHANGES: usize = 4;

/// What was found and done.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    pub(crate) journal: JournalDirectory,
    pub(crate) snapshot: Snapshot,
    pub(crate) findings: Vec<Finding>,
    /// What `--fix` did.
    pub(crate) applied: Option<Vec<Applied>>,
    /// Rules with changes that `--fix` left out, since it did not name the rule.
    pub(crate) unrequested: Vec<Rule>,
    /// What `--undo` did.
    pub(crate) restored: Option<Vec<Restored>>,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DoctorRecord {
    #[serde(flatten)]
    head: Head,
    /// The interfaces that were examined.
    interfaces: Vec<InterfaceRecord>,
    /// The directory that packets are to be written to; null without `--disk`.
    disk: Option<DiskRecord>,
    /// What was found, the worst first.
    findings: Vec<FindingRecord>,
    /// What `--fix` did; null without it.
    applied: Option<Vec<AppliedRecord>>,
    /// What `--undo` did; null without it.
    restored: Option<Vec<RestoredRecord>>,
}

/// An interface that was examined.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InterfaceRecord {
    /// Its name.
    name: String,
    /// Its driver.
    driver: Option<String>,
    /// Whether the host uses it: it has an IP address, or is a member of a bridge or the like.
    used_by_host: bool,
    /// What the driver or the kernel does not say: rules about it have no findings.
    unknown: Vec<&'static str>,
}

/// The directory that packets are to be written to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiskRecord {
    /// Its path.
    path: String,
    /// The type of its file system.
    type_name: String,
    /// What kind of file system that is.
    kind: FileSystem,
    /// Bytes that are free.
    free_bytes: u64,
    /// Whether it takes writes past the page cache; null without `--measure`, or if that was not found out.
    takes_direct_io: Option<bool>,
    /// Bytes per second that `--measure` wrote; null without it.
    bytes_per_second: Option<u64>,
    /// Bytes per second that the links of the interfaces bring together; null if no speed is known.
    link_bytes_per_second: Option<u64>,
}

/// A finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingRecord {
    /// The interface; null if it is of the machine.
    interface: Option<String>,
    /// How much it costs.
    severity: Severity,
    /// The rule, and what it saw.
    evidence: Evidence,
    /// What it saw, as text.
    text: String,
    /// What it costs, as text.
    cost: &'static str,
    /// What helps, as text.
    remedy: String,
    /// Settings that would change it; empty if it is not a setting.
    changes: Vec<ChangeRecord>,
}

/// A change of a setting.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeRecord {
    /// The setting.
    setting: String,
    /// What it is.
    from: String,
    /// What it becomes.
    to: String,
    /// The command that makes the change by hand.
    command: String,
    /// The command that undoes it by hand.
    undo: String,
    /// What it interrupts; null if that is nothing.
    disturbs: Option<&'static str>,
    /// Whether it is made only by `--fix=RULE`.
    needs_request: bool,
}

/// What became of a change.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AppliedRecord {
    /// The setting.
    setting: String,
    /// What it was.
    from: String,
    /// What it was to become.
    to: String,
    /// What became of it: made; adjusted by the driver; stale, since it was no longer what was found;
    /// refused.
    #[cfg_attr(test, schemars(extend("enum" = ["made", "adjusted", "stale", "refused"])))]
    outcome: &'static str,
    /// What it is instead; null if that is unknown, or it is as asked.
    now: Option<String>,
    /// Why it was refused; null if it was not.
    error: Option<String>,
}

/// What became of a setting that was to be restored.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RestoredRecord {
    /// The setting.
    setting: String,
    /// What it was before.
    value: String,
    /// What became of it: restored; unchanged, since it was so already; changed by others since, and left
    /// alone; gone, with its interface; restarted, as was the machine; hidden, since it is not visible here;
    /// refused. The last two stay in the journal.
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["restored", "unchanged", "changed", "gone", "restarted", "hidden", "refused"]))
    )]
    outcome: &'static str,
    /// Why it was refused; null if it was not.
    error: Option<String>,
}

impl Diagnosis {
    pub(crate) fn record(&self, head: Head) -> DoctorRecord {
        DoctorRecord {
            head,
            interfaces: self.snapshot.interfaces.iter().map(InterfaceRecord::new).collect(),
            disk: self.snapshot.disk.as_ref().map(|disk| DiskRecord::new(disk, &self.snapshot)),
            findings: self.findings.iter().map(|finding| self.finding(finding)).collect(),
            applied: self.applied.as_ref().map(|all| all.iter().map(AppliedRecord::new).collect()),
            restored: self.restored.as_ref().map(|all| all.iter().map(RestoredRecord::new).collect()),
        }
    }

    fn finding(&self, finding: &Finding) -> FindingRecord {
        let Advice { cost, .. } = advice::of(finding.rule());
        FindingRecord {
            interface: finding.interface.clone(),
            severity: finding.severity,
            evidence: finding.evidence.clone(),
            text: evidence::describe(&finding.evidence),
            cost,
            remedy: advice::remedy(&finding.evidence),
            changes: finding.changes.iter().map(|change| self.change(change)).collect(),
        }
    }

    fn change(&self, change: &Change) -> ChangeRecord {
        ChangeRecord {
            setting: setting::name(&change.setting),
            from: setting::value(&change.from),
            to: setting::value(&change.to),
            command: setting::command(change),
            undo: setting::undo(change).unwrap_or_else(|| self.undo()),
            disturbs: setting::disturbance(&change.setting, self.host_uses(change.setting.interface())),
            needs_request: change.setting.needs_request(),
        }
    }

    fn host_uses(&self, name: Option<&str>) -> bool {
        let interface =
            self.snapshot.interfaces.iter().find(|interface| Some(interface.name.as_str()) == name);
        interface.is_some_and(|interface| interface.host_use.is_used())
    }

    /// The report as text.
    pub(crate) fn describe(&self) -> String {
        if let Some(restored) = &self.restored {
            return self.describe_restored(restored);
        }
        let mut text: String = self.findings.iter().map(|finding| self.describe_finding(finding)).collect();
        for interface in &self.snapshot.interfaces {
            let unknown = unknown(interface);
            if !unknown.is_empty() {
                text += &paragraph(&format!(
                    "{}: its driver and the kernel do not say: {}",
                    interface.name,
                    unknown.join(", ")
                ));
            }
        }
        let links = self.snapshot.link_bytes_per_second();
        let measured = self.snapshot.disk.as_ref().and_then(|measured| disk::measurement(measured, links));
        text += &measured.map(|measured| paragraph(&measured)).unwrap_or_default();
        match &self.applied {
            None => text += &paragraph(&self.summary()),
            Some(applied) if applied.is_empty() => {
                text += &paragraph(&format!("nothing was changed{}", self.on_request()));
            }
            Some(applied) => {
                text.extend(applied.iter().map(|applied| paragraph(&describe_applied(applied))));
                if applied.iter().any(Applied::is_made) {
                    // Not wrapped: it can be copied.
                    text += &format!("{} restores these settings\n", self.undo());
                }
                let rest = self.on_request();
                if !rest.is_empty() {
                    text += &paragraph(&format!("other settings were not changed{rest}"));
                }
            }
        }
        text
    }

    fn describe_finding(&self, finding: &Finding) -> String {
        let FindingRecord { severity, text, cost, remedy, changes, .. } = self.finding(finding);
        let rule = finding.rule();
        let of = finding.interface.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let mut out = paragraph(&format!("{severity}  {rule}: {of}{text}"));
        out += &paragraph(&format!("    costs: {cost}"));
        out += &paragraph(&format!("    remedy: {remedy}"));
        for change in changes.iter().take(MAX_CHANGES) {
            let flag = if change.needs_request { format!("--fix={rule}") } else { "--fix".into() };
            out += &paragraph(&format!("    {flag}: {}", change.command));
            out += &paragraph(&format!("    back: {}", change.undo));
            out +=
                &change.disturbs.map(|what| paragraph(&format!("    disturbs: {what}"))).unwrap_or_default();
        }
        if changes.len() > MAX_CHANGES {
            out += &format!("    and {}\n", counted(changes.len() - MAX_CHANGES, "such change"));
        }
        out + "\n"
    }

    /// How many findings there are, and what `--fix` would do.
    fn summary(&self) -> String {
        if self.findings.is_empty() {
            return format!("nothing found: {} were applied", counted(Rule::ALL.len(), "rule"));
        }
        let counts = Severity::ALL.iter().filter_map(|severity| {
            let count = self.findings.iter().filter(|finding| finding.severity == severity.value).count();
            (count > 0).then(|| counted(count, severity.name))
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        let mut settings: Vec<_> = self.findings.iter().flat_map(|finding| &finding.changes).collect();
        settings.retain(|change| !change.setting.needs_request());
        settings.sort_by(|a, b| a.setting.cmp(&b.setting));
        settings.dedup_by(|a, b| a.setting == b.setting);
        let fix = match settings.len() {
            0 => String::new(),
            count => format!("; {} --fix changes {}", self.command(), counted(count, "setting")),
        };
        format!("{}: {counts}{fix}", counted(self.findings.len(), "finding"))
    }

    /// What makes the changes that are made only if their rule is named; empty if there are none.
    fn on_request(&self) -> String {
        if self.unrequested.is_empty() {
            return String::new();
        }
        let rules = self.unrequested.iter().map(|rule| rule.as_str()).collect::<Vec<_>>().join(",");
        format!(": some changes are made only if you name their rule: {} --fix={rules}", self.command())
    }

    /// The command that examines the same interfaces, with the same journal.
    fn command(&self) -> String {
        let names = self.snapshot.interfaces.iter().map(|interface| interface.name.as_str());
        let command = ["wirecap doctor"].into_iter().chain(names).collect::<Vec<_>>().join(" ");
        command + &self.journal.flag()
    }

    /// The command that restores what the journal has.
    fn undo(&self) -> String {
        format!("wirecap doctor --undo{}", self.journal.flag())
    }

    fn describe_restored(&self, restored: &[Restored]) -> String {
        if restored.is_empty() {
            let hint = match self.journal == JournalDirectory::default() {
                true => "; if --fix was given a --journal DIR, name it here, too",
                false => "",
            };
            return paragraph(&format!("nothing to restore by the journal in {}{hint}", self.journal));
        }
        restored.iter().map(|restored| paragraph(&self.describe_one_restored(restored))).collect()
    }

    fn describe_one_restored(&self, restored: &Restored) -> String {
        let (name, value) = (setting::name(&restored.setting), setting::value(&restored.value));
        let undo = self.undo();
        match &restored.outcome {
            UndoOutcome::Restored => format!("restored: {name} is {value}"),
            UndoOutcome::Unchanged => format!("unchanged: {name} is {value} already"),
            UndoOutcome::Gone => format!("gone: {name}"),
            UndoOutcome::Restarted => {
                format!("left alone: {name}: the machine was restarted since, which resets it")
            }
            UndoOutcome::Changed(now) => {
                let now = setting::value(now);
                format!("left alone: {name} was {value}, and has become {now} by other hands since")
            }
            UndoOutcome::Hidden { namespace: Some(inode) } => format!(
                "not restored: {name} to {value}: it is not visible in this network namespace; run {undo} in \
                 net:[{inode}], where it was changed (lsns -t net)"
            ),
            UndoOutcome::Elsewhere { namespace, file } => format!(
                "not restored: {name} to {value}: its interface is in another network namespace; run {undo} in \
                 net:[{namespace}] (lsns -t net), or if that is gone, remove {}",
                file.display()
            ),
            UndoOutcome::Hidden { namespace: None } => {
                format!(
                    "not restored: {name} to {value}: it is not visible now; once it is, run {undo} again"
                )
            }
            UndoOutcome::Refused(cause) => format!("not restored: {name} to {value}: {cause}"),
        }
    }
}

impl InterfaceRecord {
    fn new(interface: &Interface) -> Self {
        Self {
            name: interface.name.clone(),
            driver: interface.driver.clone(),
            used_by_host: interface.host_use.is_used(),
            unknown: unknown(interface),
        }
    }
}

impl DiskRecord {
    fn new(disk: &Disk, snapshot: &Snapshot) -> Self {
        Self {
            path: disk.path.clone(),
            type_name: disk.type_name.clone(),
            kind: disk.kind,
            free_bytes: disk.free_bytes,
            takes_direct_io: disk.takes_direct_io,
            bytes_per_second: disk.bytes_per_second,
            link_bytes_per_second: snapshot.link_bytes_per_second(),
        }
    }
}

/// What is not known of an interface.
fn unknown(interface: &Interface) -> Vec<&'static str> {
    let known = [
        ("numbers of queues", interface.channels.is_some()),
        ("rings", interface.rings.is_some()),
        ("interrupt coalescing", interface.coalescing.is_some()),
        ("flow control", interface.pause.is_some()),
        ("RSS", interface.rss.is_some() || interface.queues <= 1),
        ("XDP", interface.xdp.is_some()),
        ("interrupts", !interface.interrupts.is_empty()),
        ("speed", interface.speed_mbps.is_some()),
    ];
    known.into_iter().filter(|(_, is_known)| !is_known).map(|(name, _)| name).collect()
}

impl AppliedRecord {
    fn new(Applied { change, outcome }: &Applied) -> Self {
        let (outcome, now, error) = match outcome {
            ApplyOutcome::Made => ("made", None, None),
            ApplyOutcome::Adjusted(now) => ("adjusted", Some(setting::value(now)), None),
            ApplyOutcome::Stale(now) => ("stale", Some(setting::value(now)), None),
            ApplyOutcome::Refused(cause) => ("refused", None, Some(cause.to_string())),
        };
        let name = setting::name(&change.setting);
        Self {
            setting: name,
            from: setting::value(&change.from),
            to: setting::value(&change.to),
            outcome,
            now,
            error,
        }
    }
}

/// Whether an XDP program on the interface may be the reason.
fn is_refused_for_xdp(setting: &Setting, cause: &io::Error) -> bool {
    let depends =
        matches!(setting, Setting::Rings { .. } | Setting::Channels { .. } | Setting::Offload { .. });
    let errors = [Errno::EINVAL, Errno::EBUSY, Errno::EOPNOTSUPP].map(|errno| errno as i32);
    depends && cause.raw_os_error().is_some_and(|errno| errors.contains(&errno))
}

fn describe_applied(applied: &Applied) -> String {
    let (name, from, to) = (
        setting::name(&applied.change.setting),
        setting::value(&applied.change.from),
        setting::value(&applied.change.to),
    );
    match &applied.outcome {
        ApplyOutcome::Made => format!("changed: {name}: {from} became {to}"),
        ApplyOutcome::Adjusted(now) => {
            format!("changed: {name}: {from} became {}, not {to}: its driver chose so", setting::value(now))
        }
        ApplyOutcome::Stale(now) => {
            format!("left alone: {name} has become {}: examine it again", setting::value(now))
        }
        ApplyOutcome::Refused(cause) => {
            let hint = match is_refused_for_xdp(&applied.change.setting, cause) {
                true => {
                    "; drivers refuse this while an XDP program is attached, for example by a capture: end it first"
                }
                false => "",
            };
            format!("not changed: {name} from {from} to {to}: {cause}{hint}")
        }
    }
}

impl RestoredRecord {
    fn new(restored: &Restored) -> Self {
        let (outcome, error) = match &restored.outcome {
            UndoOutcome::Restored => ("restored", None),
            UndoOutcome::Unchanged => ("unchanged", None),
            UndoOutcome::Gone => ("gone", None),
            UndoOutcome::Changed(_) => ("changed", None),
            UndoOutcome::Restarted => ("restarted", None),
            UndoOutcome::Hidden { .. } | UndoOutcome::Elsewhere { .. } => ("hidden", None),
            UndoOutcome::Refused(cause) => ("refused", Some(cause.to_string())),
        };
        let value = setting::value(&restored.value);
        Self { setting: setting::name(&restored.setting), value, outcome, error }
    }
}

#[cfg(test)]
mod tests {
    use wirecap_doctor::Value;

    use super::*;

    #[test]
    fn a_refusal_that_a_program_may_cause_says_so() {
        let refused = |setting: Setting, errno: Errno| {
            let change = Change { setting, from: Value::Switch(true), to: Value::Switch(false) };
            describe_applied(&Applied { change, outcome: ApplyOutcome::Refused(errno.into()) })
        };
        let (interface, name) = ("eth1".to_owned(), "rx-lro".to_owned());
        let (rings, offload) = (
            Setting::Rings { interface: interface.clone() },
            Setting::Offload { interface: interface.clone(), name },
        );
        for (setting, errno, named) in [
            (rings.clone(), Errno::EINVAL, true),
            (rings, Errno::EPERM, false),
            (offload, Errno::EBUSY, true),
            (Setting::Pause { interface }, Errno::EINVAL, false),
        ] {
            let text = refused(setting, errno);
            assert_eq!(text.contains("while an XDP program is attached"), named, "{text}");
        }
    }
}
