//! A program that was taken off its interface by force (`bpftool link detach`), or replaced: seen, and
//! attached again.
//!
//! ```text
//!   look, about once a second
//!     whole:  our link ── has our program ─► nothing to do
//!                      ├─ has another ─────► ours is put back into it
//!                      └─ has none ────────► attached by a new link, unless another program is there now
//!     shared: the dispatcher's link, in the same way; the interface may also have
//!                      ├─ our dispatcher, attached again by another member ─► its link is held
//!                      └─ a dispatcher of a newcomer ──────────────────────► entered into its table
//! ```
//!
//! Rule: until it is attached again packets go to the host, uncounted. So this is always reported, also at
//! the end.

use std::sync::Arc;

use wirecap_sys::{
    bpf::{self, Link, Program},
    netdev,
};

use super::{
    attachment::{Attachment, Membership},
    dispatcher::{Dispatcher, JoinOutcome},
};
use crate::{
    HostUse,
    diagnostic::{Cause, Recovery},
    nic::host_use::watch::HostWatch,
};

/// How often a dispatcher that others attach at the same moment is looked for; after that, the next look will
/// do.
const ATTEMPTS: u32 = 5;

/// What a link has.
enum LinkOccupant {
    Ours,
    Another,
    Nothing,
}

fn found(link: &Link, program_id: u32) -> LinkOccupant {
    match link.attached_program() {
        Ok(None) => LinkOccupant::Nothing,
        Ok(Some(id)) if id != program_id => LinkOccupant::Another,
        // What cannot be asked may be as it was.
        Ok(Some(_)) | Err(_) => LinkOccupant::Ours,
    }
}

impl Attachment {
    /// Looks whether `program`, whose attachment this is, still gets packets, and attaches it again if not.
    /// `None` if it did, or the interface is gone.
    pub(crate) fn look(&mut self, program: &Program) -> Option<Recovery> {
        let attached = match self {
            Attachment::Whole { link, program_id, site } => match found(link, *program_id) {
                LinkOccupant::Ours => return None,
                LinkOccupant::Another => link.update(program).map(Some).map_err(Cause::from),
                LinkOccupant::Nothing => {
                    let again = site.enter(|| site.attach(program).map_err(Cause::from));
                    again.map(|again| again.map(|again| *link = again))
                }
            },
            Attachment::Shared(membership) => membership.look_at_dispatcher(program)?,
        };
        match attached {
            Ok(Some(())) => Some(Recovery::Restored),
            Ok(None) => None,
            Err(reason) => Some(Recovery::Failed(reason)),
        }
    }

    /// Uses of the interface by others that have begun since `watch` has last looked.
    pub(crate) fn new_uses(&self, watch: &mut HostWatch) -> Vec<HostUse> {
        match self {
            Attachment::Whole { site, .. } | Attachment::Shared(Membership { site, .. }) => {
                site.new_uses(watch)
            }
        }
    }

    /// Looks for the last time.
    pub(crate) fn look_at_end(&self) -> Option<Recovery> {
        let (found, site) = match self {
            Attachment::Whole { link, program_id, site } => (found(link, *program_id), site),
            Attachment::Shared(Membership { dispatcher, site, .. }) => {
                (found(&dispatcher.link, dispatcher.table.program_id), site)
            }
        };
        let is_lost = match found {
            LinkOccupant::Ours => false,
            LinkOccupant::Another => true,
            // Not if the interface is gone.
            LinkOccupant::Nothing => matches!(site.enter(|| Ok(())), Ok(Some(())) | Err(_)),
        };
        is_lost.then_some(Recovery::Ended)
    }
}

impl Membership {
    /// `None` if the dispatcher is where it should be.
    fn look_at_dispatcher(&mut self, program: &Program) -> Option<Result<Option<()>, Cause>> {
        let Dispatcher { link, table, .. } = &*self.dispatcher;
        match found(link, table.program_id) {
            LinkOccupant::Ours => None,
            LinkOccupant::Another => Some(link.update(&table.program).map(Some).map_err(Cause::from)),
            LinkOccupant::Nothing => {
                let again = self.site.enter(|| self.attach_again(program));
                Some(again.map(|again| again.map(|again| self.dispatcher = Arc::new(again))))
            }
        }
    }

    /// The dispatcher that is on the interface from now on, with the entries of `program` in its table.
    fn attach_again(&self, program: &Program) -> Result<Dispatcher, Cause> {
        let (ours, site) = (&self.dispatcher.table, &self.site);
        let attached_by = |link| Dispatcher::new(ours.clone(), link, site.mode).map_err(Cause::from);
        for _ in 0..ATTEMPTS {
            let attached = netdev::xdp_programs(site.ifindex).map_err(Cause::from)?;
            let Some(&attached) = attached.first() else {
                match site.attach(&ours.program) {
                    Err(bpf::Error::Busy { .. }) => continue,
                    link => return link.map_err(Cause::from).and_then(attached_by),
                }
            };
            if attached.program_id == ours.program_id {
                match Link::of_program(ours.program_id).map_err(Cause::from)? {
                    None => continue,
                    Some(link) => return attached_by(link),
                }
            }
            match Dispatcher::join(attached, site.ifindex).map_err(Cause::from)? {
                JoinOutcome::Gone => continue,
                JoinOutcome::Yes(other) => return self.enter_into(other, program),
                // Its name is in the refusal.
                JoinOutcome::Other => {
                    return site.attach(&ours.program).map_err(Cause::from).and_then(attached_by);
                }
            }
        }
        Err(Cause::words("others attach and detach programs at the same time"))
    }

    /// Our entries into the table of another dispatcher: the queues' sockets are ours.
    fn enter_into(&self, other: Dispatcher, program: &Program) -> Result<Dispatcher, Cause> {
        if other.mode != self.site.mode {
            let (ours, theirs) = (self.site.mode, other.mode);
            return Err(Cause::words(format!(
                "others now share the interface in {theirs} mode, and this capture has it in {ours} mode"
            )));
        }
        for &(queue, _) in &self.entries {
            other.table.programs.set_program(queue, program).map_err(Cause::from)?;
        }
        Ok(other)
    }
}
