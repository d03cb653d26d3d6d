//! The sandbox of a command that captures: what its threads give up once everything is open.
//!
//! | thread | enters it |
//! |---|---|
//! | worker, writer | when it gets its work, `capture/threads.rs` |
//! | capture thread (push), next hops of a router, the commands of `-z`, clients of sockets | when it starts |
//! | main | when all others work, `capture/mod.rs` |
//!
//! Rule: whatever is opened with privileges is opened before. The crate `wirecap-sandbox` has the rest.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use wirecap::{Config, PortSpec, Report, report::QueueMode};
use wirecap_sandbox::{Need, Sandbox, User, UserError};

use crate::{message::Message, settings::ProcessSettings};

/// The sandbox that is set, which no thread has entered yet.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) for an unknown user, or one that this process cannot become.
pub(crate) fn open(settings: &ProcessSettings, quiet: bool) -> Result<Sandbox> {
    let user = settings.user.as_deref().map(look_up).transpose()?;
    if !settings.sandbox && !quiet {
        warn!("the sandbox is off: every thread keeps its privileges while it works");
    }
    let name = settings.user.as_deref().unwrap_or("this one");
    Sandbox::new(settings.sandbox, user)
        .map_err(|cause| anyhow!("the kernel refuses to change the process for the user {name}: {cause}"))
}

fn look_up(name: &str) -> Result<User> {
    User::look_up(name).map_err(|error| match error {
        UserError::Unknown(name) => {
            usage!("-Z {name}: there is no such user; getent passwd lists them").into()
        }
        UserError::NotPermitted => usage!("-Z {name}: {error}; leave -Z out, or use sudo").into(),
        error @ UserError::LookUp { .. } => anyhow!("-Z: {error}"),
    })
}

/// Warns once about parts of the sandbox that are not in force because a call was refused. Threads enter it
/// while others work already.
#[derive(Debug)]
pub(crate) struct RefusedParts {
    sandbox: Sandbox,
    /// Those that the warning has named.
    named: BTreeSet<&'static str>,
}

impl RefusedParts {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        Self { sandbox: sandbox.clone(), named: BTreeSet::new() }
    }

    /// A warning about those that it has not named yet.
    pub(crate) fn warning(&mut self) -> Option<Message> {
        let report = self.sandbox.report();
        let new = report.refused().into_iter().filter(|(part, _)| self.named.insert(part));
        incomplete(new)
    }
}

fn incomplete<'a>(refused: impl Iterator<Item = (&'static str, &'a str)>) -> Option<Message> {
    let parts: Vec<_> = refused.map(|(part, error)| format!("{part}: {error}")).collect();
    let text = format!(
        "the sandbox is incomplete, since calls were refused ({}); if a service or a container filters system calls, \
         let it allow seccomp, landlock_create_ruleset, landlock_add_rule and landlock_restrict_self",
        parts.join("; ")
    );
    (!parts.is_empty()).then(|| Message::warning(text))
}

/// What the main thread of a capture has to do later that takes capabilities. `prints` is whether a tcpdump
/// prints the packets.
pub(crate) fn needs(config: &Config, report: &Report, prints: bool) -> Vec<Need> {
    let mut needs = Vec::new();
    for (spec, port) in config.ports.iter().zip(&report.ports) {
        let modes = || port.queues.iter().map(|queue| queue.mode);
        if modes().all(|mode| matches!(mode, QueueMode::Trace | QueueMode::Memory)) {
            continue;
        }
        needs.push(Need::Interfaces);
        // Who listens on an interface that is taken gets nothing, and is named.
        needs.extend((!port.is_passive()).then_some(Need::NamesOfProcesses));
        // Others share the dispatcher of an interface whose queues are captured by several processes.
        let is_shared = matches!(spec, PortSpec::Interface { queues: Some(_), .. });
        needs.extend(is_shared.then_some(Need::ProgramsOfOthers));
    }
    needs.extend(prints.then_some(Need::EndPrograms));
    needs.sort_unstable();
    needs.dedup();
    needs
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::*;
    use crate::exit::Usage;

    #[test]
    fn only_interfaces_need_capabilities() {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        let mut needs_of = |port: &str, mode| {
            report.ports[0].queues[0].mode = mode;
            needs(&Config { ports: vec![port.into()], ..Config::default() }, &report, false)
        };
        assert_eq!(needs_of("trace:x.pcap", QueueMode::Trace), []);
        assert_eq!(needs_of("tap:eth1", QueueMode::Tap), [Need::Interfaces]);
        assert_eq!(needs_of("eth1", QueueMode::Packed), [Need::Interfaces, Need::NamesOfProcesses]);
        let shared = [Need::Interfaces, Need::ProgramsOfOthers, Need::NamesOfProcesses];
        assert_eq!(needs_of("eth1@0", QueueMode::Copy), shared);
    }

    #[test]
    fn unknown_users_are_wrong_usage() {
        let settings = ProcessSettings { user: Some("no-such-user".into()), ..ProcessSettings::default() };
        let error = open(&settings, true).unwrap_err();
        assert!(error.is::<Usage>(), "{error}");
        assert!(error.to_string().starts_with("-Z no-such-user: there is no such user"), "{error}");
    }

    #[test]
    fn a_refused_part_is_a_warning_that_names_the_calls() {
        let refused = [("files (Landlock)", "EPERM"), ("system calls (seccomp)", "EPERM")];
        let text = incomplete(refused.into_iter()).unwrap().to_string();
        assert!(text.contains("(files (Landlock): EPERM; system calls (seccomp): EPERM)"), "{text}");
        assert!(incomplete([].into_iter()).is_none());
        assert!(RefusedParts::new(&Sandbox::off()).warning().is_none());
    }

    #[test]
    fn the_units_allow_the_calls_of_the_sandbox() {
        for unit in [
            include_str!("../../../../dist/systemd/wirecap-capture@.service"),
            include_str!("../../../../dist/systemd/wirecap-forward@.service"),
        ] {
            let allowed = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).unwrap();
            for call in
                ["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "bpf"]
            {
                assert!(allowed.split(' ').any(|word| word == call), "{call} is not in {allowed}");
            }
        }
    }
}
