//! XDP programs of others on an interface that is captured passively.
//!
//! ```text
//!   packet ──► XDP program ──► traffic control: a tap ──► AF_PACKET
//!                  └─ takes or drops it: neither sees it
//! ```
//!
//! Rule: programs that were there when the port was opened are among its fallbacks. Each later one is
//! reported once, up to a number: one that is replaced again and again would be reported for ever. Taps of
//! wirecap are not reported: they leave every packet to the host.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use wirecap_sys::{
    bpf,
    netdev::{Interface, LinkReader},
};

use crate::{Diagnostic, program::tap};

/// Time between two looks: each asks the kernel one question.
const PERIOD: Duration = Duration::from_secs(1);
/// Programs that are reported.
const MAX_REPORTED: usize = 32;

/// What is known of the XDP programs of an interface.
#[derive(Debug)]
pub(crate) struct XdpWatch {
    /// Of the network namespace the port was opened in. `None` if there is no socket to ask through.
    reader: Option<LinkReader>,
    ifindex: u32,
    /// The numbers of the programs that need no report any more, the port's own among them.
    known: BTreeSet<u32>,
    /// Those that came, in this order.
    came: Vec<Diagnostic>,
    /// How many of these were reported.
    reported: usize,
    looked: Instant,
}

/// The XDP programs that get the packets of an interface first, when it is opened.
pub(crate) fn programs_first(interface: &Interface) -> impl Iterator<Item = Diagnostic> {
    let others = interface.xdp_programs.iter().filter_map(|attached| name_if_not_tap(attached.program_id));
    others.map(|(program_id, program)| Diagnostic::XdpProgramFirst { program_id, program })
}

/// The number of a program and its name, if that can be found; `None` for a tap.
fn name_if_not_tap(program_id: u32) -> Option<(u32, Option<String>)> {
    let name = bpf::Program::name_by_id(program_id).ok();
    (name.as_deref() != Some(tap::NAME)).then_some((program_id, name))
}

impl XdpWatch {
    /// Watches an interface of the calling thread's network namespace. The port has the program `own` on it,
    /// if it has one.
    pub(crate) fn new(interface: &Interface, own: Option<u32>) -> Self {
        let known = interface.xdp_programs.iter().map(|attached| attached.program_id).chain(own).collect();
        Self {
            reader: LinkReader::open().ok(),
            ifindex: interface.ifindex,
            known,
            came: Vec::new(),
            reported: 0,
            looked: Instant::now(),
        }
    }

    /// Looks for new programs, once in a period at most.
    pub(crate) fn look(&mut self) {
        if self.looked.elapsed() < PERIOD {
            return;
        }
        self.looked = Instant::now();
        let attached = self.reader.as_mut().map(|reader| reader.xdp_programs(self.ifindex));
        for attached in attached.and_then(Result::ok).unwrap_or_default() {
            if self.came.len() < MAX_REPORTED && self.known.insert(attached.program_id) {
                let came = name_if_not_tap(attached.program_id);
                self.came.extend(
                    came.map(|(program_id, program)| Diagnostic::XdpProgramAttached { program_id, program }),
                );
            }
        }
    }

    /// Those that came and were not reported yet.
    pub(crate) fn report_once(&mut self) -> Vec<Diagnostic> {
        let new = self.came[self.reported..].to_vec();
        self.reported = self.came.len();
        new
    }

    /// All that came.
    pub(crate) fn warnings(&self) -> &[Diagnostic] {
        &self.came
    }
}
