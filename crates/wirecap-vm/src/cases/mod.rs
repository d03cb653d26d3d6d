//! The cases.
//!
//! | what | where |
//! |---|---|
//! | every frame once, intact, of every queue, in the right mode | `capture` |

mod capture;

use crate::machine::Machine;

/// A case has a name and passes if it returns.
pub(crate) type Case = (&'static str, fn(&Machine));

/// The cases for a machine like this.
pub(crate) fn of(_machine: &Machine) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(capture::CASES);
    cases
}
