//! The cases.
//!
//! | subject | module |
//! |---|---|
//! | every frame of every queue once, intact, in the right mode | `capture` |
//! | the command: files byte for byte, snap length | `command` |
//! | buddies help, chunks go home, pools that are too small | `offload` |
//! | the other NIC forwards packets from the cells they were captured into | `forward` |
//! | filters, kernel timestamps, the driver's metadata: tags, times, hashes | `kernel_side` |
//! | interfaces deleted under programs that ask the driver | `bound` |
//! | failing links, changing queues, unbound drivers, killed processes | `faults` |
//! | what copying a packet costs in the program | `load_bytes` |
//! | cells of 4 KiB, huge pages, packets at any address, large frames | `memory` |
//! | packets that the XDP program packs into blocks | `packed` |
//! | packets that programs of traffic control copy into blocks | `tap` |
//! | a bond, whose members run the program | `bond` |
//! | kernels without zero-copy | `fallback` |
//! | what the doctor mends in a driver's settings is undone | `doctor` |
//! | the library's end-to-end tests, on veth pairs | `end_to_end` |

mod bond;
mod bound;
mod capture;
mod command;
mod doctor;
mod end_to_end;
mod fallback;
mod faults;
mod forward;
mod kernel_side;
mod load_bytes;
mod memory;
mod offload;
mod packed;
mod tap;

use crate::machine::Machine;

/// The name of a case and its function, which panics if the case fails.
pub(crate) type Case = (&'static str, fn(&Machine));

/// The cases that apply to this machine.
pub(crate) fn of(machine: &Machine) -> Vec<Case> {
    select(!machine.zero_copy, machine.end_to_end)
}

/// The names of all cases.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    select(true, true).into_iter().map(|(name, _)| name)
}

fn select(fallbacks: bool, end_to_end: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(capture::CASES);
    cases.extend(command::CASES);
    cases.extend(offload::CASES);
    cases.extend(forward::CASES);
    cases.extend(kernel_side::CASES);
    cases.extend(bound::CASES);
    cases.extend(load_bytes::CASES);
    cases.extend(memory::CASES);
    cases.extend(packed::CASES);
    cases.extend(tap::CASES);
    if fallbacks {
        cases.extend(fallback::CASES);
    }
    if end_to_end {
        cases.extend(end_to_end::CASES);
    }
    // Last, because they disturb the NICs most.
    cases.extend(bond::CASES);
    cases.extend(doctor::CASES);
    cases.extend(faults::CASES);
    cases
}
