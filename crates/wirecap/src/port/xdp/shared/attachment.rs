//! What keeps the program of a port at work: attached itself, or an entry in a dispatcher's table for each
//! queue.

use std::sync::Arc;

use wirecap_sys::{
    bpf::{self, Link, Map, Program, XdpMode},
    netdev::Interface,
};

use super::{
    dispatcher::{self, Dispatcher, Table},
    site::Site,
};
use crate::{
    Diagnostic, Error,
    nic::{holders, preflight},
};

/// How the program of a port gets to its packets.
#[derive(Debug)]
pub(crate) enum AttachPlan {
    /// It is attached itself: the whole interface.
    Whole,
    /// By a dispatcher that this process makes.
    Found,
    /// By the dispatcher of others.
    Join(Arc<Dispatcher>),
}

impl AttachPlan {
    /// For all queues of an interface.
    ///
    /// # Errors
    /// When another process has it, or some of its queues.
    pub(crate) fn of_whole(interface: &Interface) -> Result<Self, Error> {
        preflight::check_holder(interface).map(|()| Self::Whole)
    }

    /// For some queues of an interface.
    ///
    /// # Errors
    /// When another process has one of them, or the whole interface.
    pub(crate) fn of_queues(
        interface: &Interface,
        queues: impl IntoIterator<Item = u16>,
    ) -> Result<Self, Error> {
        let Some(dispatcher) = dispatcher::find(interface)? else { return Ok(Self::Found) };
        match holders::holder_of(&dispatcher.table.programs, queues) {
            Some((queue, holder)) => Err(Error::QueueTaken { name: interface.name.clone(), queue, holder }),
            None => Ok(Self::Join(Arc::new(dispatcher))),
        }
    }

    /// That this mode is not available, since others have chosen another.
    pub(crate) fn refuses(&self, wanted: XdpMode) -> Option<Diagnostic> {
        match self {
            AttachPlan::Join(dispatcher) if dispatcher.mode != wanted => {
                Some(Diagnostic::SharedXdpMode { wanted, shared: dispatcher.mode })
            }
            _ => None,
        }
    }

    /// What is not as it was asked for since others have chosen.
    pub(crate) fn restriction(&self, multi_buffer: bool) -> Option<Diagnostic> {
        match self {
            AttachPlan::Join(dispatcher) if multi_buffer && !dispatcher.table.frags => {
                Some(Diagnostic::SharedWithoutFrames)
            }
            _ => None,
        }
    }

    /// Where the program of a port that can have `queues` queues is hooked in.
    ///
    /// # Errors
    /// When there is no dispatcher and none can be made.
    pub(crate) fn hook(&self, queues: u32, multi_buffer: bool) -> Result<Hook<'_>, bpf::Error> {
        Ok(match self {
            AttachPlan::Whole => Hook::Whole,
            AttachPlan::Found => Hook::Founder(Table::load(queues, multi_buffer)?),
            AttachPlan::Join(dispatcher) => Hook::Member(dispatcher),
        })
    }
}

/// Where a program is hooked in.
#[derive(Debug)]
pub(crate) enum Hook<'a> {
    Whole,
    Founder(Table),
    Member(&'a Arc<Dispatcher>),
}

impl Hook<'_> {
    /// The table of the dispatcher, if there is one.
    fn table(&self) -> Option<&Table> {
        match self {
            Hook::Whole => None,
            Hook::Founder(table) => Some(table),
            Hook::Member(dispatcher) => Some(&dispatcher.table),
        }
    }

    /// Whether the dispatcher takes packets of several buffers; `None` where the program is attached itself.
    pub(crate) fn share(&self) -> Option<bool> {
        self.table().map(|table| table.frags)
    }

    /// Has `program` get the packets of `queue`, whose socket is ours, as soon as there is a dispatcher.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn entry(&self, queue: u32, program: &Program) -> Result<Option<Entry>, bpf::Error> {
        self.table().map(|table| Entry::new(&table.programs, queue, program)).transpose()
    }

    /// From now on packets come.
    ///
    /// # Errors
    /// [`bpf::Error::Busy`] if another process was first.
    pub(crate) fn attach<'a>(
        &self,
        program: &Program,
        ifindex: u32,
        mode: XdpMode,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Attachment, bpf::Error> {
        let site = Site::new(ifindex, mode);
        let dispatcher = match self {
            Hook::Whole => {
                let link = Link::attach_xdp(program, ifindex, mode)?;
                return Ok(Attachment::Whole { link, program_id: program.id()?, site });
            }
            Hook::Founder(table) => {
                let link = Link::attach_xdp(&table.program, ifindex, mode)?;
                Arc::new(Dispatcher::new(table.clone(), link, mode)?)
            }
            Hook::Member(dispatcher) => Arc::clone(dispatcher),
        };
        let entries = entries.into_iter().map(|entry| (entry.queue, entry.program_id)).collect();
        Ok(Attachment::Shared(Membership { dispatcher, entries, site }))
    }
}

/// The number of no program: the kernel begins with 1.
const NO_PROGRAM: u32 = 0;

/// The entry of one queue. Dropping it takes our program out of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    programs: Arc<Map>,
    queue: u32,
    program_id: u32,
}

impl Entry {
    /// Has `program` get the packets of `queue`, whose socket is ours.
    pub(crate) fn new(programs: &Arc<Map>, queue: u32, program: &Program) -> Result<Self, bpf::Error> {
        let entry = Self { programs: Arc::clone(programs), queue, program_id: program.id()? };
        programs.set_program(queue, program)?;
        Ok(entry)
    }

    /// Leaves our program in the table for a forked process.
    pub(crate) fn abandon(mut self) {
        self.program_id = NO_PROGRAM;
    }
}

impl Drop for Entry {
    /// Takes the entry back, if it is ours still. No other process can write it between the look and the
    /// deletion: the queue's socket is ours.
    fn drop(&mut self) {
        if self.programs.program_id(self.queue).is_ok_and(|id| id == Some(self.program_id)) {
            // What stays behind if it fails leaves all packets to the host once our sockets are gone.
            let _ = self.programs.delete(&self.queue.to_ne_bytes());
        }
    }
}

/// What keeps the program of a port at work.
#[derive(Debug)]
pub(crate) enum Attachment {
    /// The program itself is attached: all queues.
    Whole {
        /// By this link.
        link: Link,
        /// Number of the program.
        program_id: u32,
        site: Site,
    },
    /// It is run by a dispatcher, for some queues.
    Shared(Membership),
}

impl Attachment {
    /// From now on packets go to the host, and the program sees no more of them. Those it has seen still
    /// reach their sockets: wait for a grace period before [`Attachment::detach`]. A driver that detaches a
    /// program takes its receive queues apart while it polls them (veth with GRO), and the kernel then
    /// refuses a packet that was already redirected, uncounted. `leave_all` is what takes the place of a
    /// program that is attached itself.
    ///
    /// # Errors
    /// When the driver does not change programs, or the interface is gone: all that is left is to detach at
    /// once.
    pub(crate) fn divert(&mut self, leave_all: &Program) -> Result<(), bpf::Error> {
        match self {
            Attachment::Whole { link, .. } => link.update(leave_all),
            Attachment::Shared(membership) => {
                membership.release();
                Ok(())
            }
        }
    }

    /// Leaves the interface, or this port's part in the dispatcher, to a forked process.
    pub(crate) fn abandon(self) {
        if let Attachment::Shared(mut membership) = self {
            membership.entries.clear();
        }
    }

    /// Gives the interface back, or this port's part in the dispatcher.
    ///
    /// # Errors
    /// When the interface is gone.
    pub(crate) fn detach(self) -> Result<(), bpf::Error> {
        match self {
            Attachment::Whole { link, .. } => link.detach(),
            Attachment::Shared(mut membership) => {
                membership.release();
                Ok(())
            }
        }
    }
}

/// What was found of the entries of a port.
#[derive(Debug)]
pub(crate) struct EntryCheck {
    /// Queues whose entries were not ours.
    pub(crate) missing: Vec<u16>,
    /// Why one of them could not be written again.
    pub(crate) failure: Option<bpf::Error>,
}

/// A port's part in a dispatcher, which stays attached as long as any process has a part in it.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(super) dispatcher: Arc<Dispatcher>,
    /// Entries of ours: (queue, number of the program).
    pub(super) entries: Vec<(u32, u32)>,
    pub(super) site: Site,
}

impl Membership {
    /// Writes our missing entries again, for `program`. No other process may have written them: the queues'
    /// sockets are ours.
    pub(crate) fn mend(&self, program: &Program) -> EntryCheck {
        let mut check = EntryCheck { missing: Vec::new(), failure: None };
        let programs = &self.dispatcher.table.programs;
        for &(queue, program_id) in &self.entries {
            // What cannot be read may be there.
            if programs.program_id(queue).is_ok_and(|found| found != Some(program_id)) {
                check.missing.push(queue as u16);
                check.failure = programs.set_program(queue, program).err().or(check.failure);
            }
        }
        check
    }

    /// Takes all entries back, while the sockets are still open and before the dispatcher is let go.
    fn release(&mut self) {
        for (queue, program_id) in self.entries.drain(..) {
            drop(Entry { programs: Arc::clone(&self.dispatcher.table.programs), queue, program_id });
        }
    }
}
