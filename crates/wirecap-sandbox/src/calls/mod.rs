//! Which system calls each kind of thread may make.
//!
//! | list | of |
//! |---|---|
//! | [`shared`] | every thread: memory, waiting, time, signals, printing, its end |
//! | [`threads`] | one kind of thread, in addition |
//! | [`never`] | no thread: these end the process |
//!
//! The lists were taken from traces (`strace -f`) of every mode, and checked by all end-to-end tests, which
//! fail if one call is refused.
//!
//! Rule: a call is listed with the narrowest arguments that its users need.

mod call;
mod never;
mod shared;
mod threads;

use self::shared::{shared, starting};
pub(crate) use self::{
    call::{Argument, Call, Calls},
    never::never,
};
use crate::profile::Profile;

/// The calls of a profile; `None` if it has no filter.
pub(crate) fn calls(profile: &Profile) -> Option<Calls> {
    let own = match profile {
        Profile::Worker => threads::worker(),
        Profile::Writer(_) => threads::writer(),
        Profile::Main(_) => threads::main(),
        Profile::Neighbours => threads::neighbours(),
        Profile::Server(directories) => threads::server(!directories.is_empty()),
        Profile::Commands => return None,
    };
    let allowed = shared().into_iter().chain(own.allowed).collect();
    Some(Calls { allowed, denied: own.denied.into_iter().chain(starting()).collect() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::profile::WritePaths;

    #[test]
    fn no_call_is_listed_twice_and_none_that_ends_the_process_is_allowed() {
        let never: BTreeSet<_> = never().into_iter().map(|call| call.number).collect();
        for profile in [
            Profile::Worker,
            Profile::Writer(WritePaths::default()),
            Profile::Main(Vec::new()),
            Profile::Neighbours,
            Profile::Server(Vec::new()),
            Profile::Server(vec![".".into()]),
        ] {
            let Calls { allowed, denied } = calls(&profile).unwrap();
            let mut seen = BTreeSet::new();
            for Call { number, .. } in allowed.iter().chain(&denied) {
                assert!(seen.insert(*number), "{profile:?}: {number} is listed twice");
                assert!(!never.contains(number), "{profile:?}: {number} is on two lists");
            }
        }
        assert!(calls(&Profile::Commands).is_none());
    }
}
