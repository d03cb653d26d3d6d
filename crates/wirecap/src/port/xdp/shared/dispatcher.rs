//! The program that hands packets to the programs of others: looked for, joined, founded.

use std::{ops::Range, sync::Arc};

use wirecap_core::chunk::MAX_RINGS;
use wirecap_sys::{
    bpf::{
        self, Assembler, Cond, Helper, Label, Link, Map, MapKind, Program, ProgramKind, ProgramSpec, Reg,
        SharedMap, Size, XDP_PASS, XdpMode, xdp_md,
    },
    netdev::{self, AttachedMode, AttachedProgram, Interface},
};

use super::Attempts;
use crate::{
    Error,
    nic::{holders::TABLE, preflight},
    program,
};

/// Name of the dispatcher in the kernel.
const DISPATCHER: &str = "wirecap_share";

/// The program of a dispatcher, and its table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(super) program: Arc<Program>,
    pub(super) program_id: u32,
    pub(crate) programs: Arc<Map>,
    /// Whether it takes packets of several buffers. All programs in the table have to agree on that.
    pub(crate) frags: bool,
}

/// A dispatcher that runs on an interface.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    // Closed before the table, see the rules above.
    pub(super) link: Link,
    pub(crate) table: Table,
    /// How it is attached.
    pub(crate) mode: XdpMode,
}

/// The dispatcher on an interface; `None` if nothing is attached to it.
///
/// # Errors
/// When something else is attached, or the process may not look into what belongs to others.
pub(crate) fn find(interface: &Interface) -> Result<Option<Dispatcher>, Error> {
    let mut attempts = Attempts::new();
    loop {
        let Some(attached) = netdev::interface(&interface.name)?.xdp_programs.first().copied() else {
            return Ok(None);
        };
        let name = || interface.name.clone();
        let found = Dispatcher::join(attached, interface.ifindex).map_err(|source| match source {
            bpf::Error::NotPermitted { .. } => {
                Error::JoinNotPermitted { name: name(), reason: source.to_string() }
            }
            source => Error::Program { name: name(), source },
        });
        match found? {
            JoinOutcome::Yes(dispatcher) => return Ok(Some(dispatcher)),
            JoinOutcome::Gone if attempts.again() => {}
            // It is no dispatcher; a program whose process has just ended may be there for a moment.
            JoinOutcome::Gone | JoinOutcome::Other => match preflight::check_holder(interface) {
                Err(Error::Shared { .. }) if attempts.again() => {}
                Err(Error::Held { name, program, holders, .. }) if program == program::NAME => {
                    return Err(Error::TakenWhole { name, holders });
                }
                checked => checked?,
            },
        }
    }
}

/// What came of joining.
pub(super) enum JoinOutcome {
    Yes(Dispatcher),
    /// It is gone.
    Gone,
    /// The program is not a dispatcher of wirecap.
    Other,
}

impl Dispatcher {
    /// Joins the dispatcher that is attached, if it is one.
    pub(super) fn join(attached: AttachedProgram, ifindex: u32) -> Result<JoinOutcome, bpf::Error> {
        let mode = match attached.mode {
            AttachedMode::Native => XdpMode::Native,
            AttachedMode::Generic => XdpMode::Generic,
            AttachedMode::Offload => return Ok(JoinOutcome::Other),
        };
        let Some(SharedMap { map, max_entries }) = bpf::shared_map(attached.program_id, TABLE)? else {
            let gone = Program::name_by_id(attached.program_id).is_err();
            return Ok(if gone { JoinOutcome::Gone } else { JoinOutcome::Other });
        };
        let program_id = attached.program_id;
        let Some(program) = Program::by_id(program_id)? else { return Ok(JoinOutcome::Gone) };
        let Some(link) = Link::of_program(program_id)? else { return Ok(JoinOutcome::Gone) };
        let link = link.closed_before(&map)?;
        // The interface may be gone, or the link detached by force.
        if link.ifindex()? != Some(ifindex) {
            return Ok(JoinOutcome::Gone);
        }
        let frags = takes_frags(&map, max_entries - 1)?;
        let (program, programs) = (Arc::new(program), Arc::new(map));
        Self::new(Table { program, program_id, programs, frags }, link, mode).map(JoinOutcome::Yes)
    }

    /// The dispatcher of a table, attached by `link`.
    pub(super) fn new(table: Table, link: Link, mode: XdpMode) -> Result<Self, bpf::Error> {
        Ok(Self { link: link.closed_before(&table.programs)?, table, mode })
    }
}

/// Whether the programs of a table take packets of several buffers. The kernel does not say, but it refuses a
/// program that differs. Tried with the entry behind those of all queues.
fn takes_frags(programs: &Map, spare: u32) -> Result<bool, bpf::Error> {
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, XDP_PASS).exit();
    let insns = asm.finish()?;
    let trial = Program::load(&ProgramSpec::new(ProgramKind::Xdp, DISPATCHER, &insns))?;
    programs.accepts(&trial, spare).map(|accepted| !accepted)
}

/// Continues as the program of the queue whose number is in R3, one of `queues`; to `pass` if the queue has
/// no program.
///
/// With a constant index the kernel makes a tail call a plain jump. With an index from a register it is an
/// indirect one, which protection against Spectre makes many times as expensive.
fn branch(asm: &mut Assembler, programs: &Map, queues: Range<u32>, pass: Label) {
    let middle = queues.start + (queues.end - queues.start) / 2;
    if middle == queues.start {
        asm.jump_if(Cond::Ne, Reg::R3, queues.start as i32, pass);
        asm.load_map_fd(Reg::R2, programs).mov_imm(Reg::R3, queues.start as i32).call(Helper::TailCall);
        asm.jump(pass);
        return;
    }
    let upper = asm.label();
    asm.jump_if(Cond::Ge, Reg::R3, middle as i32, upper);
    branch(asm, programs, queues.start..middle, pass);
    asm.bind(upper);
    branch(asm, programs, middle..queues.end, pass);
}

impl Table {
    /// Loads a dispatcher for an interface that can have `queues` receive queues. Packets of those from
    /// [`MAX_RINGS`] on, which cannot be captured, go to the host: the kernel refuses a program with more
    /// tail calls than that.
    pub(crate) fn load(queues: u32, frags: bool) -> Result<Self, bpf::Error> {
        let queues = queues.min(MAX_RINGS.into());
        let programs = program::array(MapKind::ProgArray, 4, queues + 1, TABLE)?;
        let mut asm = Assembler::new();
        asm.load(Size::Word, Reg::R3, Reg::R1, xdp_md::RX_QUEUE_INDEX);
        let pass = asm.label();
        branch(&mut asm, &programs, 0..queues, pass);
        asm.bind(pass).mov_imm(Reg::R0, XDP_PASS).exit();
        let insns = asm.finish()?;
        let spec = ProgramSpec { frags, ..ProgramSpec::new(ProgramKind::Xdp, DISPATCHER, &insns) };
        let (program, programs) = (Arc::new(Program::load(&spec)?), Arc::new(programs));
        Ok(Self { program_id: program.id()?, program, programs, frags })
    }
}
