//! Programs: instructions the verifier has accepted.

use std::borrow::Cow;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::attr::{Command, ProgInfo, ProgLoad, ProgTestRun, XdpMd};
use super::bound::{canary, with_room};
use super::bytecode::Bytecode;
use super::error::Error;
use super::insn::Insn;
use super::privilege::lacks_perfmon;
use super::syscall::{
    address, address_mut, bpf, bpf_fd, if_there, object_info, object_name, open_by_id, text, with_memlock,
};

/// The license given to the kernel with every program, one that lets it call all helpers.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// `BPF_F_XDP_HAS_FRAGS`: the program can handle packets of several buffers.
const XDP_HAS_FRAGS: u32 = 1 << 5;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: the program runs on one device only, and may ask its driver for metadata.
const XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// `enum bpf_attach_type`: `BPF_XDP`, by which kernels distinguish XDP programs of devices from those of
/// maps.
pub(super) const ATTACH_TYPE_XDP: u32 = 37;

/// Room for the verifier's log in bytes; the second is tried when the first was too small.
const LOG_SIZES: [usize; 2] = [256 << 10, 16 << 20];
/// Times to load again when the verifier was interrupted by a signal (`EAGAIN`).
const LOAD_ATTEMPTS: usize = 5;

/// What a program is for.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Decides which packets a socket gets.
    SocketFilter = 1,
    /// Runs in traffic control on packets that come in by an interface, or leave by it.
    Classifier = 3,
    /// Runs on each packet in the driver, before the host's stack.
    Xdp = 6,
}

impl ProgramKind {
    /// What the program says it will be attached to.
    fn attach_type(self) -> u32 {
        match self {
            Self::SocketFilter | Self::Classifier => 0,
            Self::Xdp => ATTACH_TYPE_XDP,
        }
    }
}

/// What to load.
#[derive(Debug, Clone, Copy)]
pub struct ProgramSpec<'a> {
    /// Its kind.
    pub kind: ProgramKind,
    /// Name shown by `ip link` and `bpftool`: 1 to 15 letters, digits, `_`, `.`.
    pub name: &'a str,
    /// The instructions.
    pub code: &'a Bytecode,
    /// The program can handle packets of several buffers (jumbo frames; Linux 5.18). What lies beyond the
    /// first buffer is reached by helpers only.
    pub frags: bool,
    /// The interface, by its index, that the program is for, if it asks the driver about packets (Linux 6.3).
    /// It can be attached to that one only, in native mode.
    pub bound_to: Option<u32>,
}

impl<'a> ProgramSpec<'a> {
    /// A program without multi-buffer support, under a licence that lets it call all helpers.
    pub fn new(kind: ProgramKind, name: &'a str, code: &'a Bytecode) -> Self {
        Self { kind, name, code, frags: false, bound_to: None }
    }
}

/// A program in the kernel. It lives as long as this value or a link that runs it.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: String,
}

impl Program {
    /// Has the verifier check a program, and loads it.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the verifier's log, [`Error::NotPermitted`], [`Error::BadName`];
    /// [`Error::Blinded`] for a program that is bound to an interface, where the kernel blinds constants.
    pub fn load(spec: &ProgramSpec<'_>) -> Result<Self, Error> {
        let action = || format!("load the BPF program {} ({} instructions)", spec.name, spec.code.len());
        let prog_name = object_name(spec.name)?;
        let mut insns = Cow::Borrowed(spec.code.insns.as_slice());
        if spec.bound_to.is_some() {
            if blinds_constants(spec.name)? {
                return Err(Error::Blinded { name: spec.name.into() });
            }
            insns = with_room(spec.code).into();
        }
        let load = |log: &mut [u8]| load_once(spec, &insns, prog_name, log);

        // Writing the log is slow, so it is asked for only when there is something to explain.
        let cause = match with_memlock(|| load(&mut [])) {
            Ok(fd) => return Ok(Self { fd, name: spec.name.into() }),
            // The verifier has no part in these.
            Err(cause) if cause.raw_os_error() == Some(libc::EPERM) || Error::is_exhaustion(&cause) => {
                return Err(Error::call(action(), cause));
            }
            Err(cause) => cause,
        };
        let lacks_perfmon = lacks_perfmon(&cause);
        let rejected = |log| Error::Rejected { name: spec.name.into(), cause, log, lacks_perfmon };
        for size in LOG_SIZES {
            let mut log = vec![0; size];
            match load(&mut log) {
                Ok(fd) => return Ok(Self { fd, name: spec.name.into() }),
                Err(again) if again.raw_os_error() == Some(libc::ENOSPC) => {}
                Err(_) => return Err(rejected(text(&log))),
            }
        }
        Err(rejected(String::new()))
    }

    /// Runs the program on `repeat` live copies of `frame`, which then really go where the program sends
    /// them: `XDP_REDIRECT` to another device, `XDP_TX` out of the loopback device, `XDP_PASS` into the
    /// host's stack.
    ///
    /// The frames come from a pool that is used again and again within one call, so what the program writes
    /// into a frame may still be there when it sees the frame next; it has to write everything that varies.
    /// `batch_size` frames (1 to 256; 0 means 64) are run before the devices are flushed. The call occupies
    /// its CPU until it is done. Linux 5.18; see Documentation/bpf/bpf_prog_run.rst.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]; [`Error::Call`] with `EINVAL` (kernel too old, or a frame longer than about
    /// 3,400 bytes), `E2BIG` (batch), or `EINTR` when a signal came: then some of the frames were sent, and
    /// only a counter in the program knows how many.
    pub fn test_run_live(&self, frame: &[u8], repeat: u32, batch_size: u32) -> Result<(), Error> {
        let context = [XdpMd { data_end: frame.len() as u32, ..XdpMd::default() }];
        let mut attr = ProgTestRun {
            repeat,
            ctx_size_in: size_of::<XdpMd>() as u32,
            ctx_in: address(&context),
            flags: TEST_XDP_LIVE_FRAMES,
            batch_size,
            ..self.test_attr(frame)
        };
        // SAFETY: `frame` and `context` are live, of the lengths given, and only read.
        unsafe { bpf(Command::ProgTestRun, &mut attr) }
            .map(drop)
            .map_err(|cause| self.failed("run live frames by", cause))
    }

    /// The kernel's number of this program.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn id(&self) -> Result<u32, Error> {
        prog_info(self.fd.as_fd()).map(|info| info.id).map_err(|cause| self.failed("ask about", cause))
    }

    /// Name of any program of this machine by its number; empty for programs without one.
    ///
    /// # Errors
    /// [`Error::Call`] with `ENOENT` if there is no such program, [`Error::NotPermitted`] without
    /// CAP_SYS_ADMIN.
    pub fn name_by_id(id: u32) -> Result<String, Error> {
        let failed = |cause| Error::call(format!("look up the BPF program with id {id}"), cause);
        let fd = Self::open_by_id(id).map_err(failed)?;
        prog_info(fd.as_fd()).map(|info| text(&info.name)).map_err(failed)
    }

    /// Opens any program of this machine by its number. `None` if there is no such program.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without CAP_SYS_ADMIN, [`Error::Call`].
    pub fn by_id(id: u32) -> Result<Option<Self>, Error> {
        let open = || {
            let fd = Self::open_by_id(id)?;
            let name = text(&prog_info(fd.as_fd())?.name);
            io::Result::Ok(Self { fd, name })
        };
        if_there(open()).map_err(|cause| Error::call(format!("open the BPF program with id {id}"), cause))
    }

    /// A descriptor of any program of this machine.
    pub(super) fn open_by_id(id: u32) -> io::Result<OwnedFd> {
        // SAFETY: the command goes from a number to a descriptor.
        unsafe { open_by_id(Command::ProgGetFdById, id) }
    }

    pub(super) fn test_attr(&self, frame: &[u8]) -> ProgTestRun {
        ProgTestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: address(frame),
            ..ProgTestRun::default()
        }
    }

    pub(super) fn failed(&self, verb: &str, cause: io::Error) -> Error {
        Error::call(format!("{verb} the BPF program {}", self.name), cause)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the kernel blinds the constants of programs (net.core.bpf_jit_harden). The setting itself is not
/// visible in network namespaces other than the first, so a program with a constant shows it: a blinded
/// constant takes three instructions. That program has the name of the one it is loaded for, which errors
/// quote.
fn blinds_constants(name: &str) -> Result<bool, Error> {
    let code = canary();
    let canary = Program::load(&ProgramSpec::new(ProgramKind::Xdp, name, &code))?;
    let info = prog_info(canary.as_fd()).map_err(|cause| canary.failed("ask about", cause))?;
    Ok(info.xlated_prog_len as usize > size_of_val(code.insns.as_slice()))
}

/// One load; an empty `log` asks for none.
fn load_once(
    spec: &ProgramSpec<'_>,
    insns: &[Insn],
    prog_name: [u8; 16],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let flags = if spec.frags { XDP_HAS_FRAGS } else { 0 }
        | if spec.bound_to.is_some() { XDP_DEV_BOUND_ONLY } else { 0 };
    let mut attr = ProgLoad {
        prog_type: spec.kind as u32,
        insn_cnt: insns.len() as u32,
        insns: address(insns),
        license: address(LICENSE.to_bytes_with_nul()),
        prog_flags: flags,
        prog_ifindex: spec.bound_to.unwrap_or(0),
        prog_name,
        expected_attach_type: spec.kind.attach_type(),
        ..ProgLoad::default()
    };
    if !log.is_empty() {
        (attr.log_level, attr.log_size, attr.log_buf) = (1, log.len() as u32, address_mut(log));
    }
    let mut attempts = LOAD_ATTEMPTS;
    loop {
        // SAFETY: instructions, zero-terminated license and log are live, of the lengths given, and the log
        // is exclusively borrowed. PROG_LOAD returns a new file descriptor.
        match unsafe { bpf_fd(Command::ProgLoad, &mut attr) } {
            Err(cause) if cause.raw_os_error() == Some(libc::EAGAIN) && attempts > 1 => attempts -= 1,
            result => return result,
        }
    }
}

fn prog_info(fd: BorrowedFd<'_>) -> io::Result<ProgInfo> {
    // SAFETY: there are no addresses in it.
    unsafe { object_info(fd, ProgInfo::default()) }
}
