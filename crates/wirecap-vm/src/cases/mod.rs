//! The cases.
//!
//! | what | where |
//! |---|---|
//! | every frame once, intact, of every queue, in the right mode | `capture` |
//! | the command: files byte for byte, snap length | `command` |
//! | buddies help, chunks go home, pools that are too small | `offload` |
//! | packets sent on by the other NIC, from where they lie | `forward` |
//! | filters, kernel timestamps, what the driver offers of metadata: tags, times, hashes | `kernel_side` |
//! | links that fail, queues that change, drivers that go, processes that are killed | `faults` |
//! | cells of 4 KiB, huge pages, packets at any address, large frames | `memory` |
//! | where there is no zero-copy | `fallback` |
//! | the library's end-to-end tests, on veth pairs | `end_to_end` |

mod capture;
mod command;
mod end_to_end;
mod fallback;
mod faults;
mod forward;
mod kernel_side;
mod memory;
mod offload;

use crate::machine::Machine;

/// A case has a name and passes if it returns.
pub(crate) type Case = (&'static str, fn(&Machine));

/// The cases for a machine like this.
pub(crate) fn of(machine: &Machine) -> Vec<Case> {
    those(!machine.zero_copy, machine.end_to_end)
}

/// The names of all cases there are.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    those(true, true).into_iter().map(|(name, _)| name)
}

fn those(fallbacks: bool, end_to_end: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(capture::CASES);
    cases.extend(command::CASES);
    cases.extend(offload::CASES);
    cases.extend(forward::CASES);
    cases.extend(kernel_side::CASES);
    cases.extend(memory::CASES);
    if fallbacks {
        cases.extend(fallback::CASES);
    }
    if end_to_end {
        cases.extend(end_to_end::CASES);
    }
    // Last, since they are hard on the machine.
    cases.extend(faults::CASES);
    cases
}
