//! A device that is made symmetric, looked after, and put back.
//!
//! Rule: what an administrator has set is left alone.

use wirecap_sys::netdev::{HashFunction, HashTransform, RssHash};

use crate::{
    diagnostic::{Cause, Recovery},
    report::{RssReport, RssState},
};

/// The two bytes that the key repeats.
const KEY_PERIOD: [u8; 2] = [0x6d, 0x5a];

/// A device whose hash can be read and set.
pub(crate) trait Hashing {
    fn get(&mut self) -> Result<RssHash, Cause>;
    fn set(&mut self, before: &RssHash, wanted: &RssHash) -> Result<(), Cause>;
}

/// A device that hashes symmetrically, and what it did before.
#[derive(Debug)]
pub(crate) struct Change<D: Hashing> {
    device: D,
    interface: String,
    before: RssHash,
    set: RssHash,
    /// Ports that want it and have not left. INVARIANT: once it is 0, it stays so.
    pub(super) ports: usize,
    pub(super) state: RssState,
    /// In order. After one that is left alone it is not looked at any more.
    pub(super) lapses: Vec<Recovery>,
}

impl<D: Hashing> Change<D> {
    /// Makes the device of an interface symmetric, or says why that cannot be. Then it is as before, or the
    /// reason has the command that makes it so.
    pub(super) fn symmetric(mut device: D, interface: &str) -> Result<Self, Cause> {
        let (before, set) = Self::set(&mut device, interface)?;
        let (interface, state) = (interface.into(), RssState::Active);
        Ok(Self { device, interface, before, set, ports: 1, state, lapses: Vec::new() })
    }

    /// What was before, and what is now.
    fn set(device: &mut D, interface: &str) -> Result<(RssHash, RssHash), Cause> {
        let before = device.get()?;
        if is_symmetric(&before) {
            return Ok((before.clone(), before));
        }
        let mut refusals = Vec::new();
        for wanted in candidates(&before) {
            let what = name(&wanted);
            if let Err(reason) = device.set(&before, &wanted) {
                refusals.push(format!("{what}: {reason}"));
                continue;
            }
            let (now, reason) = match device.get() {
                Ok(set) if is_symmetric(&set) => return Ok((before, set)),
                // The driver took it and did something else.
                Ok(other) => (other, "the driver does not keep it".to_owned()),
                Err(reason) => (wanted, format!("it cannot be read back: {reason}")),
            };
            refusals.push(format!("{what}: {reason}"));
            if let Err(reason) = device.set(&now, &before) {
                let undo = undo(interface, &before, &now);
                refusals
                    .push(format!("the hash from before cannot be restored ({reason}); do it by: {undo}"));
                break;
            }
        }
        Err(Cause::words(refusals.join("; ")))
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
    /// setting is left alone; one that was there before is what a process that has ended puts back.
    pub(super) fn look(&mut self) {
        if self.state != RssState::Active || matches!(self.lapses.last(), Some(Recovery::Failed(_))) {
            return;
        }
        let Some(now) = self.device.get().ok().filter(|now| !is_symmetric(now)) else { return };
        let is_ours = self.set != self.before;
        self.lapses.push(if is_ours && now != self.before {
            Recovery::Failed(Cause::words("what was set is neither what was before nor ours"))
        } else {
            match Self::set(&mut self.device, &self.interface) {
                Ok((before, set)) => {
                    (self.before, self.set) = (before, set);
                    Recovery::Restored
                }
                Err(reason) => Recovery::Failed(Cause::words(format!("it cannot be set again: {reason}"))),
            }
        });
    }

    pub(super) fn report(&self) -> RssReport {
        let undo = (self.set != self.before).then(|| undo(&self.interface, &self.before, &self.set));
        RssReport { hash: name(&self.set), state: self.state.clone(), undo }
    }
}

impl<D: Hashing> Drop for Change<D> {
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

/// What makes a hash symmetric, in words.
fn name(hash: &RssHash) -> String {
    if hash.transform == HashTransform::NONE {
        "Toeplitz with a symmetric key".into()
    } else {
        hash.transform.to_string()
    }
}

/// The command that does what [`Change::restore`] does.
fn undo(interface: &str, before: &RssHash, set: &RssHash) -> String {
    let mut command = format!("ethtool -X {interface}");
    if before.key != set.key {
        let bytes: Vec<_> = before.key.iter().map(|byte| format!("{byte:02x}")).collect();
        command += &format!(" hkey {}", bytes.join(":"));
    }
    if before.function != set.function {
        command += &format!(" hfunc {}", before.function);
    }
    if before.transform != set.transform {
        command += &format!(" xfrm {}", before.transform);
    }
    command
}
