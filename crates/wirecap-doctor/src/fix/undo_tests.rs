//! What undoing does where not all is as it was: elsewhere, later, and after others have changed settings.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io,
    path::Path,
};

use wirecap_sys::netdev::RingSizes;

use super::*;
use crate::{
    setting::{Change, NapiFile},
    snapshot::Sysctl,
};

/// A machine with the settings that are visible, and interfaces by their indices.
#[derive(Default)]
struct Machine {
    settings: RefCell<BTreeMap<Setting, Value>>,
    interfaces: BTreeMap<u32, &'static str>,
    /// Refuses all changes.
    refuses: bool,
    /// What is written is seen after as many reads.
    restart: Cell<u32>,
    /// What is not seen yet, and after how many reads it is.
    written: RefCell<Option<(Setting, Value, u32)>>,
}

impl Machine {
    fn new(changes: &[Change]) -> Self {
        let settings = changes.iter().map(|change| (change.setting.clone(), change.from.clone()));
        let settings = RefCell::new(settings.collect());
        Self { settings, interfaces: [(7, "eth1")].into(), ..Self::default() }
    }

    fn set(&self, setting: &Setting, value: &str) {
        self.settings.borrow_mut().insert(setting.clone(), Value::Text(value.into()));
    }

    fn hide(&self, setting: &Setting) {
        self.settings.borrow_mut().remove(setting);
    }

    fn get(&self, setting: &Setting) -> Option<String> {
        self.settings.borrow().get(setting).map(|value| match value {
            Value::Text(text) => text.clone(),
            value => panic!("{value:?}"),
        })
    }
}

impl Settings for Machine {
    fn read(&self, setting: &Setting) -> io::Result<Value> {
        if let Some((setting, value, reads)) = self.written.take() {
            match reads.checked_sub(1) {
                Some(reads) => self.written.replace(Some((setting, value, reads))),
                None => {
                    self.settings.borrow_mut().insert(setting, value);
                    None
                }
            };
        }
        self.settings.borrow().get(setting).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, setting: &Setting, value: &Value) -> io::Result<()> {
        self.read(setting)?;
        if self.refuses {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.written.replace(Some((setting.clone(), value.clone(), self.restart.get())));
        Ok(())
    }

    fn ifindex(&self, interface: &str) -> Option<u32> {
        self.interfaces.iter().find(|(_, name)| **name == interface).map(|(index, _)| *index)
    }

    fn name(&self, ifindex: u32) -> io::Result<Option<String>> {
        Ok(self.interfaces.get(&ifindex).map(ToString::to_string))
    }

    fn is_void(&self, setting: &Setting) -> bool {
        matches!(setting, Setting::InterruptMask { .. })
    }
}

fn open(directory: &Path, namespace: u64) -> Journal {
    Journal::open(directory, Place { boot: "today".into(), namespace }).unwrap()
}

fn budget() -> Setting {
    Setting::Kernel { name: Sysctl::NetdevBudget }
}

fn threaded(interface: &str) -> Setting {
    Setting::Napi { interface: interface.into(), file: NapiFile::Threaded }
}

/// The outcome of undoing for the only setting.
fn outcome(directory: &Path, namespace: u64, machine: &Machine) -> UndoOutcome {
    let mut restored = undo(&open(directory, namespace), machine).unwrap();
    assert_eq!(restored.len(), 1, "{restored:?}");
    restored.remove(0).outcome
}

#[test]
fn what_another_namespace_does_not_show_can_still_be_undone_where_it_was_changed() {
    let directory = tempfile::tempdir().unwrap();
    let changes = [Change::text(budget(), 300, 600), Change::text(threaded("eth1"), 1, 0)];
    let machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    let elsewhere = Machine::default();
    for _ in 0..2 {
        let restored = undo(&open(directory.path(), 9), &elsewhere).unwrap();
        let [of_the_machine, of_eth1] = &restored[..] else { panic!("{restored:?}") };
        assert!(matches!(of_the_machine.outcome, UndoOutcome::Hidden { namespace: Some(4) }), "{restored:?}");
        assert_eq!((&of_eth1.setting, &of_eth1.value), (&threaded("eth1"), &Value::Text("1".into())));
        let UndoOutcome::Elsewhere { namespace: 4, file } = &of_eth1.outcome else { panic!("{restored:?}") };
        assert_eq!(file, &directory.path().join("netns-4.jsonl"));
        assert!(restored.iter().all(|one| one.outcome.is_left()));
    }
    let restored = undo(&open(directory.path(), 4), &machine).unwrap();
    assert!(restored.iter().all(|one| matches!(one.outcome, UndoOutcome::Restored)), "{restored:?}");
    assert_eq!(
        (machine.get(&budget()).unwrap(), machine.get(&threaded("eth1")).unwrap()),
        ("300".into(), "1".into())
    );
    assert!(undo(&open(directory.path(), 4), &machine).unwrap().is_empty());
}

#[test]
fn what_another_namespace_had_before_a_restart_is_void() {
    let directory = tempfile::tempdir().unwrap();
    let changes = [Change::text(threaded("eth1"), 1, 0)];
    let machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    let tomorrow = Place { boot: "tomorrow".into(), namespace: 9 };
    let restored = undo(&Journal::open(directory.path(), tomorrow).unwrap(), &machine).unwrap();
    assert!(restored.is_empty(), "{restored:?}");
}

#[test]
fn a_processor_that_is_off_keeps_its_line_and_the_others_are_settled() {
    let directory = tempfile::tempdir().unwrap();
    let governor = Setting::Governor { cpu: 1 };
    let changes =
        [Change::text(budget(), 300, 600), Change::text(governor.clone(), "powersave", "performance")];
    let machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    machine.hide(&governor);
    let restored = undo(&open(directory.path(), 4), &machine).unwrap();
    assert!(matches!(restored[0].outcome, UndoOutcome::Hidden { namespace: None }), "{restored:?}");
    assert!(matches!(restored[1].outcome, UndoOutcome::Restored), "{restored:?}");
    // What is restored is the operator's again.
    machine.set(&budget(), "600");
    machine.set(&governor, "performance");
    assert!(matches!(outcome(directory.path(), 4, &machine), UndoOutcome::Restored));
    assert_eq!(
        (machine.get(&governor).unwrap(), machine.get(&budget()).unwrap()),
        ("powersave".into(), "600".into())
    );
}

#[test]
fn an_interface_is_found_by_its_index_whatever_it_is_called_now() {
    let directory = tempfile::tempdir().unwrap();
    let changes = [Change::text(threaded("eth1"), 1, 0)];
    let mut machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    // Another interface has its name now.
    machine.interfaces = [(7, "mon0"), (8, "eth1")].into();
    machine.set(&threaded("mon0"), "0");
    let again = [Change::text(threaded("mon0"), 0, 2)];
    apply(&open(directory.path(), 4), &machine, again).unwrap();
    let restored = undo(&open(directory.path(), 4), &machine).unwrap();
    assert_eq!((restored.len(), &restored[0].setting), (1, &threaded("mon0")), "{restored:?}");
    let now = |name| machine.get(&threaded(name)).unwrap();
    assert_eq!((now("mon0"), now("eth1")), ("1".into(), "0".into()));
}

#[test]
fn only_what_is_gone_for_good_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let interrupt = Setting::InterruptMask { number: 38 };
    let changes = [Change::text(threaded("eth1"), 1, 0), Change::text(interrupt.clone(), "3", "1")];
    let mut machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    machine.hide(&interrupt);
    machine.interfaces = [(8, "eth1")].into();
    let restored = undo(&open(directory.path(), 4), &machine).unwrap();
    assert!(restored.iter().all(|one| matches!(one.outcome, UndoOutcome::Gone)), "{restored:?}");
    assert!(undo(&open(directory.path(), 4), &machine).unwrap().is_empty());
}

#[test]
fn a_change_that_was_refused_is_not_undone() {
    let directory = tempfile::tempdir().unwrap();
    let change = |from, to| [Change::text(budget(), from, to)];
    let mut machine = Machine { refuses: true, ..Machine::new(&change(300, 600)) };
    let applied = apply(&open(directory.path(), 4), &machine, change(300, 600)).unwrap();
    assert!(matches!(applied[0].outcome, ApplyOutcome::Refused(_)));
    machine.set(&budget(), "700");
    assert!(undo(&open(directory.path(), 4), &machine).unwrap().is_empty());
    assert_eq!(machine.get(&budget()).unwrap(), "700");
    // Nor does it hide an earlier one that was made.
    machine.refuses = false;
    apply(&open(directory.path(), 4), &machine, change(700, 800)).unwrap();
    machine.refuses = true;
    apply(&open(directory.path(), 4), &machine, change(800, 900)).unwrap();
    machine.refuses = false;
    assert!(matches!(outcome(directory.path(), 4, &machine), UndoOutcome::Restored));
    assert_eq!(machine.get(&budget()).unwrap(), "700");
}

#[test]
fn what_the_operator_has_set_since_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let changes = [Change::text(budget(), 300, 600)];
    let machine = Machine::new(&changes);
    apply(&open(directory.path(), 4), &machine, changes).unwrap();
    machine.set(&budget(), "1000");
    let changed = outcome(directory.path(), 4, &machine);
    assert!(matches!(&changed, UndoOutcome::Changed(Value::Text(now)) if now == "1000"), "{changed:?}");
    assert_eq!(machine.get(&budget()).unwrap(), "1000");
    assert!(undo(&open(directory.path(), 4), &machine).unwrap().is_empty());
}

#[test]
fn a_link_that_restarts_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let rings = |rx| Value::Rings(RingSizes { rx, rx_max: 4096, ..RingSizes::default() });
    let setting = Setting::Rings { interface: "eth1".into() };
    let changes = [Change { setting: setting.clone(), from: rings(512), to: rings(4096) }];
    let machine = Machine::new(&changes);
    machine.restart.set(2);
    let applied = apply(&open(directory.path(), 4), &machine, changes).unwrap();
    assert!(matches!(applied[0].outcome, ApplyOutcome::Made), "{applied:?}");
    let restored = outcome(directory.path(), 4, &machine);
    assert!(matches!(restored, UndoOutcome::Restored), "{restored:?}");
    assert_eq!(machine.read(&setting).unwrap(), rings(512));
}
