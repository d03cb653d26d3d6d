//! A process that is killed at any moment leaves a machine that can be restored exactly.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use super::*;
use crate::{
    setting::{Change, NapiFile},
    snapshot::Sysctl,
};

/// Settings of a machine, written by a process that dies before a certain write.
struct Mortal<'m> {
    machine: &'m RefCell<BTreeMap<Setting, Value>>,
    writes_left: Cell<usize>,
    ifindex: u32,
}

struct Killed;

impl Settings for Mortal<'_> {
    fn read(&self, setting: &Setting) -> io::Result<Value> {
        self.machine.borrow().get(setting).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, setting: &Setting, value: &Value) -> io::Result<()> {
        let left = self.writes_left.get().checked_sub(1);
        self.writes_left.set(left.unwrap_or_else(|| resume_unwind(Box::new(Killed))));
        self.machine.borrow_mut().insert(setting.clone(), value.clone());
        Ok(())
    }

    fn ifindex(&self, interface: &str) -> Option<u32> {
        (interface == "eth1").then_some(self.ifindex)
    }

    fn name(&self, ifindex: u32) -> io::Result<Option<String>> {
        Ok((ifindex == self.ifindex).then(|| "eth1".into()))
    }

    fn is_void(&self, _setting: &Setting) -> bool {
        false
    }
}

fn place() -> Place {
    Place { boot: "today".into(), namespace: 4 }
}

fn changes() -> Vec<Change> {
    let interface = || "eth1".to_owned();
    vec![
        Change::text(Setting::Napi { interface: interface(), file: NapiFile::Threaded }, 1, 0),
        Change::text(Setting::Kernel { name: Sysctl::NetdevBudget }, 300, 600),
        Change {
            setting: Setting::Offload { interface: interface(), name: "rx-lro".into() },
            from: Value::Switch(true),
            to: Value::Switch(false),
        },
        Change::text(Setting::InterruptMask { number: 38 }, "3", "1"),
        Change::text(Setting::Rps { interface: interface(), queue: 0 }, "f", "0"),
    ]
}

fn machine() -> BTreeMap<Setting, Value> {
    changes().into_iter().map(|change| (change.setting, change.from)).collect()
}

/// Does something in a process that dies before its write number `writes`; returns whether it was killed.
fn until_killed(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => false,
        Err(cause) if cause.is::<Killed>() => true,
        Err(cause) => resume_unwind(cause),
    }
}

#[test]
fn whenever_it_is_killed_undoing_restores_everything() {
    let count = changes().len();
    for fixed in 0..=count {
        for undone in 0..=count {
            let directory = tempfile::tempdir().unwrap();
            let state = RefCell::new(machine());
            let mortal = |writes| Mortal { machine: &state, writes_left: Cell::new(writes), ifindex: 7 };
            let open = || Journal::open(directory.path(), place()).unwrap();
            let killed = until_killed(|| _ = apply(&open(), &mortal(fixed), changes()).unwrap());
            assert_eq!(killed, fixed < count);
            let changed =
                changes().iter().filter(|change| state.borrow()[&change.setting] == change.to).count();
            assert_eq!(changed, fixed, "the first ones");
            // The undo is killed as well; the next one finishes.
            let killed = until_killed(|| _ = undo(&open(), &mortal(undone)).unwrap());
            assert_eq!(killed, undone < fixed, "{undone} of {fixed}");
            undo(&open(), &mortal(count)).unwrap();
            assert_eq!(*state.borrow(), machine(), "killed after {fixed} and {undone} writes");
            let again = undo(&open(), &mortal(0)).unwrap();
            assert!(again.is_empty(), "nothing is left to undo");
        }
    }
}

#[test]
fn a_journal_that_ends_anywhere_belongs_to_a_machine_that_was_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let state = RefCell::new(machine());
    let settings = Mortal { machine: &state, writes_left: Cell::new(0), ifindex: 7 };
    let open = || Journal::open(directory.path(), place()).unwrap();
    assert!(until_killed(|| _ = apply(&open(), &settings, changes()).unwrap()));
    let path = directory.path().join("netns-4.jsonl");
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let restored = undo(&open(), &settings).unwrap();
        assert!(
            restored.iter().all(|restored| matches!(restored.outcome, UndoOutcome::Unchanged)),
            "{length}"
        );
    }
}

#[test]
fn the_oldest_value_is_restored_after_several_runs() {
    let directory = tempfile::tempdir().unwrap();
    let state = RefCell::new(machine());
    let settings = Mortal { machine: &state, writes_left: Cell::new(100), ifindex: 7 };
    let open = || Journal::open(directory.path(), place()).unwrap();
    apply(&open(), &settings, changes()).unwrap();
    let budget = Setting::Kernel { name: Sysctl::NetdevBudget };
    let again = Change::text(budget.clone(), 600, 900);
    let applied = apply(&open(), &settings, [again]).unwrap();
    assert!(matches!(applied[0].outcome, ApplyOutcome::Made));
    assert_eq!(state.borrow()[&budget], Value::Text("900".into()));
    let restored = undo(&open(), &settings).unwrap();
    assert_eq!((restored.len(), &*state.borrow()), (changes().len(), &machine()));
}

#[test]
fn a_setting_that_another_process_changed_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let state = RefCell::new(machine());
    let settings = Mortal { machine: &state, writes_left: Cell::new(100), ifindex: 7 };
    let journal = Journal::open(directory.path(), place()).unwrap();
    let budget = Setting::Kernel { name: Sysctl::NetdevBudget };
    let stale = apply(&journal, &settings, [Change::text(budget, 100, 600)]).unwrap();
    assert!(matches!(&stale[0].outcome, ApplyOutcome::Stale(Value::Text(now)) if now == "300"));
    assert!(undo(&journal, &settings).unwrap().is_empty());
}

#[test]
fn settings_of_a_restarted_machine_and_of_another_interface_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let state = RefCell::new(machine());
    let settings = Mortal { machine: &state, writes_left: Cell::new(100), ifindex: 7 };
    let journal = Journal::open(directory.path(), place()).unwrap();
    apply(&journal, &settings, changes()).unwrap();
    drop(journal);
    let changed = state.borrow().clone();
    let tomorrow = Place { boot: "tomorrow".into(), ..place() };
    let journal = Journal::open(directory.path(), tomorrow).unwrap();
    let restored = undo(&journal, &settings).unwrap();
    assert!(restored.iter().all(|restored| matches!(restored.outcome, UndoOutcome::Restarted)));
    assert_eq!(*state.borrow(), changed);
    *state.borrow_mut() = machine();
    apply(&journal, &settings, changes()).unwrap();
    let settings = Mortal { ifindex: 8, ..settings };
    for Restored { setting, outcome, .. } in undo(&journal, &settings).unwrap() {
        let is_gone = matches!(outcome, UndoOutcome::Gone);
        assert_eq!(is_gone, setting.interface().is_some(), "{setting:?}: {outcome:?}");
    }
}
