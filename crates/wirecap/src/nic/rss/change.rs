//! A device that is made symmetric, looked after, and put back.
//!
//! Rule: what an administrator has set is left alone.

use wirecap_sys::netdev::{HashFunction, HashTransform, RssHash};

use crate::{
    diagnostic::{
        Cause, RssAttempt, RssFailure, RssLoss, RssRecovery, RssRefusal, RssUndo, RssUndoFailure,
        SymmetricHash,
    },
    report::{RssReport, RssState},
};

/// The two bytes that the key repeats.
const KEY_PERIOD: [u8; 2] = [0x6d, 0x5a];

/// A device whose hash can be read and set.
pub(crate) trait RssDevice {
    fn get(&mut self) -> Result<RssHash, Cause>;
    fn set(&mut self, before: &RssHash, wanted: &RssHash) -> Result<(), Cause>;
}

/// A device that hashes symmetrically, and what it did before.
#[derive(Debug)]
pub(crate) struct Change<D: RssDevice> {
    device: D,
    interface: String,
    before: RssHash,
    set: RssHash,
    /// Ports that want it and have not left. INVARIANT: once it is 0, it stays so.
    pub(super) ports: usize,
    pub(super) state: RssState,
    /// In order. After one that is left alone it is not looked at any more.
    pub(super) lapses: Vec<RssRecovery>,
}

impl<D: RssDevice> Change<D> {
    /// Makes the device of an interface symmetric, or says why that cannot be. Then it is as before, or the
    /// reason has what makes it so.
    pub(super) fn symmetric(mut device: D, interface: &str) -> Result<Self, RssRefusal> {
        let (before, set) = Self::set(&mut device, interface)?;
        let (interface, state) = (interface.into(), RssState::Active);
        Ok(Self { device, interface, before, set, ports: 1, state, lapses: Vec::new() })
    }

    /// What was before, and what is now.
    fn set(device: &mut D, interface: &str) -> Result<(RssHash, RssHash), RssRefusal> {
        let before = device.get().map_err(RssRefusal::NotReadable)?;
        if is_symmetric(&before) {
            return Ok((before.clone(), before));
        }
        let mut attempts = Vec::new();
        for wanted in candidates(&before) {
            let hash = kind(&wanted);
            if let Err(cause) = device.set(&before, &wanted) {
                attempts.push(RssAttempt { hash, failure: RssFailure::Refused(cause) });
                continue;
            }
            let (now, failure) = match device.get() {
                Ok(set) if is_symmetric(&set) => return Ok((before, set)),
                Ok(other) => (other, RssFailure::NotKept),
                Err(cause) => (wanted, RssFailure::NotReadBack(cause)),
            };
            attempts.push(RssAttempt { hash, failure });
            if let Err(cause) = device.set(&now, &before) {
                let failure = RssUndoFailure { cause, undo: undo(interface, &before, &now) };
                return Err(RssRefusal::NotSet { attempts, undo_failure: Some(Box::new(failure)) });
            }
        }
        Err(RssRefusal::NotSet { attempts, undo_failure: None })
    }

    /// A port leaves. The last one undoes the change.
    pub(super) fn leave_one(&mut self) {
        self.ports -= 1;
        if self.ports == 0 {
            self.restore();
        }
    }

    /// A port leaves the change to a forked process. Without other ports here, that one undoes it.
    pub(super) fn abandon_one(&mut self) {
        self.ports -= 1;
        if self.ports == 0 && self.state == RssState::Active {
            self.state = RssState::Shared;
        }
    }

    pub(super) fn restore(&mut self) {
        if self.state != RssState::Active {
            return;
        }
        let restored = match self.device.get() {
            Ok(now) if now != self.set => Ok(RssState::LeftAlone),
            Ok(now) if now == self.before => Ok(RssState::Restored),
            now => now.and_then(|now| self.device.set(&now, &self.before)).map(|()| RssState::Restored),
        };
        self.state = restored.unwrap_or_else(RssState::Failed);
    }

    /// Sets it again if it is not symmetric any more, as far as the device tells. An administrator's own
    /// setting is left alone; one that was there before is what a process that has ended puts back. What the
    /// device refuses, for instance while it is being reset, is tried again at each look, and reported once.
    pub(super) fn look(&mut self) {
        // If an attempt could not be undone, the present hash is neither ours nor an administrator's.
        let is_left_alone = match self.lapses.last() {
            Some(RssRecovery::Failed(RssLoss::SetByOthers)) => true,
            Some(RssRecovery::Failed(RssLoss::NotSetAgain(RssRefusal::NotSet { undo_failure, .. }))) => {
                undo_failure.is_some()
            }
            _ => false,
        };
        if self.state != RssState::Active || is_left_alone {
            return;
        }
        let was_refused = matches!(self.lapses.last(), Some(RssRecovery::Failed(RssLoss::NotSetAgain(_))));
        let Some(now) = self.device.get().ok().filter(|now| !is_symmetric(now)) else { return };
        let is_ours = self.set != self.before;
        self.lapses.push(if is_ours && now != self.before {
            RssRecovery::Failed(RssLoss::SetByOthers)
        } else {
            match Self::set(&mut self.device, &self.interface) {
                Ok((before, set)) => {
                    (self.before, self.set) = (before, set);
                    RssRecovery::Restored
                }
                Err(_) if was_refused => return,
                Err(refusal) => RssRecovery::Failed(RssLoss::NotSetAgain(refusal)),
            }
        });
    }

    pub(super) fn report(&self) -> RssReport {
        let undo = (self.set != self.before).then(|| undo(&self.interface, &self.before, &self.set));
        RssReport { hash: kind(&self.set), state: self.state.clone(), undo }
    }
}

impl<D: RssDevice> Drop for Change<D> {
    fn drop(&mut self) {
        self.restore();
    }
}

/// What makes a hash symmetric, the driver's own means first.
pub(super) fn candidates(before: &RssHash) -> Vec<RssHash> {
    let transforms = [HashTransform::SYMMETRIC_XOR, HashTransform::SYMMETRIC_OR_XOR];
    let mut candidates = transforms.map(|transform| RssHash { transform, ..before.clone() }).to_vec();
    if !before.key.is_empty() {
        let key = KEY_PERIOD.into_iter().cycle().take(before.key.len()).collect();
        candidates.push(RssHash { key, function: HashFunction::TOEPLITZ, transform: HashTransform::NONE });
    }
    candidates
}

/// Whether both directions of a connection have the same hash.
pub(super) fn is_symmetric(hash: &RssHash) -> bool {
    let repeats = hash.key.len() > 2 && hash.key.windows(3).all(|bytes| bytes[0] == bytes[2]);
    // A key of zeros hashes everything to 0.
    let is_key = repeats && hash.key.iter().any(|&byte| byte != 0);
    hash.transform != HashTransform::NONE || (hash.function == HashFunction::TOEPLITZ && is_key)
}

/// What makes a hash symmetric.
fn kind(hash: &RssHash) -> SymmetricHash {
    if hash.transform == HashTransform::NONE {
        SymmetricHash::ToeplitzKey
    } else {
        SymmetricHash::Transform(hash.transform)
    }
}

/// What does the same as [`Change::restore`].
fn undo(interface: &str, before: &RssHash, set: &RssHash) -> RssUndo {
    RssUndo {
        interface: interface.into(),
        key: (before.key != set.key).then(|| before.key.as_slice().into()),
        function: (before.function != set.function).then_some(before.function),
        transform: (before.transform != set.transform).then_some(before.transform),
    }
}
