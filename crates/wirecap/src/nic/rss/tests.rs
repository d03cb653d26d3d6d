//! Choosing and restoring a hash, on simulated drivers; and whether the key makes hashes symmetric.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
};

use wirecap_sys::netdev::{HashFunction, HashTransform};

use super::{change::*, *};
use crate::{
    diagnostic::{RssAttempt, RssFailure, RssLoss, RssRecovery, RssUndo, RssUndoFailure, SymmetricHash},
    report::{RssReport, RssState},
};

type HashPredicate = fn(&RssHash) -> bool;

/// A driver that accepts some settings.
#[derive(Debug, Clone)]
struct Driver {
    now: Rc<RefCell<RssHash>>,
    /// Whether it accepts a hash.
    takes: HashPredicate,
    /// Whether it keeps a hash that it accepts.
    keeps: bool,
    /// How often it can still be read, and set.
    reads: u32,
    sets: u32,
}

impl RssDevice for Driver {
    fn get(&mut self) -> Result<RssHash, Cause> {
        self.reads = self.reads.checked_sub(1).ok_or_else(|| Cause::words("no such device"))?;
        Ok(self.now.borrow().clone())
    }

    fn set(&mut self, before: &RssHash, wanted: &RssHash) -> Result<(), Cause> {
        assert_eq!(*self.now.borrow(), *before, "the driver is given the hash in force");
        self.sets = self.sets.checked_sub(1).ok_or_else(|| Cause::words("no such device"))?;
        if !(self.takes)(wanted) {
            return Err(Cause::words("not supported"));
        }
        if self.keeps {
            self.now.replace(wanted.clone());
        }
        Ok(())
    }
}

fn plain() -> RssHash {
    let key = (0..40_u8).map(|byte| byte.wrapping_mul(7).wrapping_add(3)).collect();
    RssHash { function: HashFunction::XOR, transform: HashTransform::NONE, key }
}

fn report(hash: SymmetricHash, state: RssState, undo: Option<&RssUndo>) -> RssReport {
    RssReport { hash, state, undo: undo.cloned() }
}

const XOR: SymmetricHash = SymmetricHash::Transform(HashTransform::SYMMETRIC_XOR);
const OR_XOR: SymmetricHash = SymmetricHash::Transform(HashTransform::SYMMETRIC_OR_XOR);

/// Undoes a transform.
fn no_transform() -> RssUndo {
    RssUndo { interface: "eth1".into(), transform: Some(HashTransform::NONE), ..RssUndo::default() }
}

fn attempt(hash: SymmetricHash, failure: RssFailure) -> RssAttempt {
    RssAttempt { hash, failure }
}

fn driver(takes: HashPredicate) -> Driver {
    Driver { now: Rc::new(RefCell::new(plain())), takes, keeps: true, reads: u32::MAX, sets: u32::MAX }
}

#[test]
fn the_drivers_own_means_come_first_and_the_hash_is_restored() {
    let key = RssUndo {
        interface: "eth1".into(),
        key: Some(plain().key.into()),
        function: Some(HashFunction::XOR),
        transform: None,
    };
    let cases: [(HashPredicate, SymmetricHash, RssUndo); 3] = [
        (|_| true, XOR, no_transform()),
        (|hash| hash.transform != HashTransform::SYMMETRIC_XOR, OR_XOR, no_transform()),
        (|hash| hash.transform == HashTransform::NONE, SymmetricHash::ToeplitzKey, key),
    ];
    for (takes, how, undo) in cases {
        let driver = driver(takes);
        let mut change = Change::symmetric(driver.clone(), "eth1").unwrap();
        assert!(is_symmetric(&driver.now.borrow()), "{how}");
        assert_eq!(change.report(), report(how, RssState::Active, Some(&undo)));
        change.restore();
        assert_eq!(*driver.now.borrow(), plain());
        assert_eq!(change.report(), report(how, RssState::Restored, Some(&undo)));

        drop(Change::symmetric(driver.clone(), "eth1").unwrap());
        assert_eq!(*driver.now.borrow(), plain(), "dropped, as on an error");
    }
}

#[test]
fn a_symmetric_hash_is_left_alone() {
    let mut driver = driver(|_| false);
    driver.now.borrow_mut().transform = HashTransform::SYMMETRIC_OR_XOR;
    let mut change = Change::symmetric(driver.clone(), "eth1").unwrap();
    assert_eq!(change.report(), report(OR_XOR, RssState::Active, None));
    change.restore();
    assert_eq!(change.report(), report(OR_XOR, RssState::Restored, None));
    assert_eq!(driver.get().unwrap().transform, HashTransform::SYMMETRIC_OR_XOR);
}

#[test]
fn a_hash_changed_by_another_program_is_left_alone() {
    for was_symmetric in [true, false] {
        let driver = driver(|_| true);
        if was_symmetric {
            driver.now.borrow_mut().transform = HashTransform::SYMMETRIC_XOR;
        }
        let mut change = Change::symmetric(driver.clone(), "eth1").unwrap();
        let theirs = RssHash { function: HashFunction(4), ..plain() };
        driver.now.replace(theirs.clone());
        change.restore();
        assert_eq!(*driver.now.borrow(), theirs);
        assert_eq!(change.report().state, RssState::LeftAlone);
    }
}

#[test]
fn an_incapable_driver_is_left_unchanged() {
    let refuses = driver(|_| false);
    let reason = Change::symmetric(refuses.clone(), "eth1").unwrap_err();
    let hashes = [XOR, OR_XOR, SymmetricHash::ToeplitzKey];
    let refused = |hash| attempt(hash, RssFailure::Refused(Cause::words("not supported")));
    assert_eq!(reason, RssRefusal::NotSet { attempts: hashes.map(refused).into(), undo_failure: None });
    let forgets = Driver { keeps: false, ..driver(|_| true) };
    let reason = Change::symmetric(forgets.clone(), "eth1").unwrap_err();
    let not_kept = |hash| attempt(hash, RssFailure::NotKept);
    assert_eq!(reason, RssRefusal::NotSet { attempts: hashes.map(not_kept).into(), undo_failure: None });
    assert_eq!((&*refuses.now.borrow(), &*forgets.now.borrow()), (&plain(), &plain()));
}

#[test]
fn the_last_port_of_an_interface_restores_the_hash() {
    let (other, driver, parts) = (driver(|_| true), driver(|_| true), Parts::new());
    let take =
        |driver: &Driver, place| parts.take(place, || Change::symmetric(driver.clone(), "eth1")).unwrap();
    let place = Place::of(7);
    assert!(place.is_some() && place != Place::of(8));
    let (mut first, mut second) = (take(&driver, place), take(&driver, place));
    let elsewhere = take(&other, Place::of(8));
    first.leave();
    first.leave();
    assert!(is_symmetric(&driver.now.borrow()));
    let undo = no_transform();
    let undo = Some(&undo);
    assert_eq!(first.report(), report(XOR, RssState::Shared, undo));
    assert_eq!(second.report().state, RssState::Active);
    second.leave();
    assert_eq!(*driver.now.borrow(), plain());
    for part in [&first, &second] {
        assert_eq!(part.report(), report(XOR, RssState::Restored, undo));
    }
    assert!(is_symmetric(&other.now.borrow()));
    drop(elsewhere);
    assert_eq!(*other.now.borrow(), plain());

    // Afterwards the change starts over, even while a part of the previous one is left.
    drop(take(&driver, place));
    let third = take(&driver, place);
    assert!(is_symmetric(&driver.now.borrow()));
    drop((first, third));
    assert_eq!(*driver.now.borrow(), plain());
}

/// The process that set the hash ends first, then one of the two others.
#[test]
fn symmetry_lost_when_a_process_ends_is_set_again_by_the_others() {
    let driver = driver(|_| true);
    // Each process has its own list.
    let (parts, others) = (Parts::new(), Parts::new());
    let first = Change::symmetric(driver.clone(), "eth1").unwrap();
    let take = |parts: &Parts<Driver>| parts.take(Place::of(7), || Change::symmetric(driver.clone(), "eth1"));
    let (mut ours, mut ours_too, mut theirs) =
        (take(&parts).unwrap(), take(&parts).unwrap(), take(&others).unwrap());
    assert_eq!(ours.look(), None);
    assert_eq!(ours.report().undo, None);
    drop(first);
    assert!(!is_symmetric(&driver.now.borrow()));
    assert_eq!(
        (ours.look(), theirs.look()),
        (Some(RssRecovery::Restored), None),
        "one of the two sets the hash"
    );
    assert!(is_symmetric(&driver.now.borrow()));
    assert_eq!(
        (ours.look(), ours_too.look()),
        (None, Some(RssRecovery::Restored)),
        "both ports report the change, once"
    );
    assert_eq!(take(&parts).unwrap().look(), None, "the change came before this port joined");
    let undo = no_transform();
    let undo = Some(&undo);
    assert_eq!(ours.report(), report(XOR, RssState::Active, undo));
    drop((ours, ours_too));
    assert_eq!(*driver.now.borrow(), plain(), "the last process that set it restores it");
    assert_eq!(theirs.look(), Some(RssRecovery::Restored));
    theirs.leave();
    assert_eq!((&*driver.now.borrow(), theirs.look()), (&plain(), None));
}

/// Two processes have noticed the loss at the same time.
#[test]
fn symmetry_set_twice_at_once_outlives_the_first_process() {
    let driver = driver(|_| true);
    let mut first = Change::symmetric(driver.clone(), "eth1").unwrap();
    driver.now.replace(plain());
    let mut second = Change::symmetric(driver.clone(), "eth1").unwrap();
    first.restore();
    second.look();
    assert_eq!(second.lapses, [RssRecovery::Restored]);
    assert!(is_symmetric(&driver.now.borrow()));
    drop(second);
    assert_eq!(*driver.now.borrow(), plain());
}

#[test]
fn lasting_changes_are_reported_once_and_left_alone() {
    let administrators = RssHash { function: HashFunction(4), ..plain() };
    let free = driver(|_| true);
    let mut change = Change::symmetric(free.clone(), "eth1").unwrap();
    free.now.replace(administrators.clone());
    change.look();
    change.look();
    assert_eq!(change.lapses, [RssRecovery::Failed(RssLoss::SetByOthers)]);
    change.restore();
    assert_eq!(*free.now.borrow(), administrators);
    assert_eq!(change.report().state, RssState::LeftAlone);

    let refusing = driver(|_| false);
    refusing.now.borrow_mut().transform = HashTransform::SYMMETRIC_XOR;
    let mut change = Change::symmetric(refusing.clone(), "eth1").unwrap();
    refusing.now.replace(plain());
    change.look();
    change.look();
    assert!(
        matches!(&change.lapses[..], [RssRecovery::Failed(RssLoss::NotSetAgain(RssRefusal::NotSet { .. }))]),
        "{:?}",
        change.lapses
    );
    assert_eq!(*refusing.now.borrow(), plain());

    let unreadable = Driver { reads: 2, ..free };
    let mut change = Change::symmetric(unreadable, "eth1").unwrap();
    change.look();
    assert_eq!(change.lapses, [], "an interface that is gone is reported elsewhere");
}

#[test]
fn a_hash_that_is_refused_during_a_reset_is_set_again_afterwards() {
    static IS_READY: AtomicBool = AtomicBool::new(true);
    let driver = driver(|_| IS_READY.load(Ordering::Relaxed));
    let mut change = Change::symmetric(driver.clone(), "eth1").unwrap();
    let symmetric = driver.now.replace(plain());
    IS_READY.store(false, Ordering::Relaxed);
    (0..3).for_each(|_| change.look());
    IS_READY.store(true, Ordering::Relaxed);
    (0..3).for_each(|_| change.look());
    let [RssRecovery::Failed(RssLoss::NotSetAgain(_)), RssRecovery::Restored] = &change.lapses[..] else {
        panic!("each is reported once: {:?}", change.lapses)
    };
    assert_eq!(*driver.now.borrow(), symmetric);
}

#[test]
fn a_hash_that_cannot_be_read_back_is_restored() {
    let driver = Driver { reads: 1, ..driver(|_| true) };
    let reason = Change::symmetric(driver.clone(), "eth1").unwrap_err();
    let gone = || Cause::words("no such device");
    let RssRefusal::NotSet { attempts, undo_failure: None } = &reason else { panic!("{reason:?}") };
    assert_eq!(attempts[0], attempt(XOR, RssFailure::NotReadBack(gone())));
    assert_eq!(*driver.now.borrow(), plain());

    let stuck = Driver { sets: 1, ..driver };
    let reason = Change::symmetric(stuck.clone(), "eth1").unwrap_err();
    let attempts = vec![attempt(XOR, RssFailure::NotReadBack(gone()))];
    let failure = RssUndoFailure { cause: gone(), undo: no_transform() };
    assert_eq!(reason, RssRefusal::NotSet { attempts, undo_failure: Some(Box::new(failure)) });
    assert_eq!(
        stuck.now.borrow().transform,
        HashTransform::SYMMETRIC_XOR,
        "the hash stays, as the reason says"
    );
}

#[test]
fn a_change_that_is_left_to_a_forked_process_stays() {
    let (driver, parts) = (driver(|_| true), Parts::new());
    let take =
        || parts.take(Place::of(9), || Change::symmetric(driver.clone(), "eth1")).expect("a driver that can");
    let mut left = take();
    left.abandon();
    left.abandon();
    assert_eq!((left.report().state, left.look()), (RssState::Shared, None));
    drop(left);
    assert_eq!(driver.now.borrow().transform, HashTransform::SYMMETRIC_XOR);

    driver.now.replace(plain());
    let (mut left, stays) = (take(), take());
    left.abandon();
    drop(left);
    assert_eq!(driver.now.borrow().transform, HashTransform::SYMMETRIC_XOR, "another port wants it");
    drop(stays);
    assert_eq!(*driver.now.borrow(), plain());
}

#[test]
fn keys_that_do_not_repeat_or_are_empty_are_not_symmetric() {
    let with = |key: &[u8]| RssHash {
        function: HashFunction::TOEPLITZ,
        transform: HashTransform::NONE,
        key: key.into(),
    };
    assert!(is_symmetric(&with(&[0x6d, 0x5a, 0x6d, 0x5a])));
    assert!(!is_symmetric(&with(&[0x6d, 0x5a, 0x6d, 0x5b])));
    assert!(!is_symmetric(&with(&[0; 40])));
    assert!(!is_symmetric(&with(&[])));
    let no_toeplitz = RssHash { function: HashFunction(4), ..with(&[0x6d, 0x5a, 0x6d, 0x5a]) };
    assert!(!is_symmetric(&no_toeplitz));
    assert_eq!(candidates(&with(&[])).len(), 2, "without a key, no key can be set");
}

/// The hash function of Microsoft's specification of RSS.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], index: usize| u32::from((bytes[index / 8] >> (7 - index % 8)) & 1);
    let window = |at: usize| (0..32).fold(0, |window, offset| (window << 1) | bit(key, at + offset));
    (0..input.len() * 8).filter(|&index| bit(input, index) == 1).fold(0, |hash, index| hash ^ window(index))
}

#[test]
fn the_key_makes_toeplitz_symmetric_for_both_versions_of_ip() {
    // From the verification suite of the specification.
    let theirs = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
    assert_eq!(toeplitz(&theirs, &input), 0x51cc_c178, "`toeplitz` is correct");

    let ours = &candidates(&RssHash { key: vec![0; 40], ..plain() })[2].key;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = |count: usize| -> Vec<u8> {
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        };
        (0..count).map(|_| next()).collect()
    };
    let mut hashes = std::collections::HashSet::new();
    for address_bytes in [4, 16] {
        for _ in 0..500 {
            let (source, destination) = (bytes(address_bytes), bytes(address_bytes));
            let (source_port, destination_port) = (bytes(2), bytes(2));
            let there = [&source[..], &destination, &source_port, &destination_port].concat();
            let back = [&destination[..], &source, &destination_port, &source_port].concat();
            assert_eq!(toeplitz(ours, &there), toeplitz(ours, &back));
            assert_ne!(toeplitz(&theirs, &there), toeplitz(&theirs, &back), "only our key is symmetric");
            hashes.insert(toeplitz(ours, &there));
        }
    }
    assert!(hashes.len() > 900, "connections still have different hashes: {} of 1,000", hashes.len());
}
