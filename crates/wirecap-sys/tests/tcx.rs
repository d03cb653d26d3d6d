//! TCX programs of other processes. Needs root and Linux 6.6.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::bpf::{Assembler, Program, ProgramKind, ProgramSpec, Reg, TCX_NEXT, ingress_programs};

const LINK_CREATE: libc::c_long = 28;
const TCX_INGRESS: u32 = 46;
/// The part of `union bpf_attr` that attaches a program, from linux/bpf.h.
#[repr(C, align(8))]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is a part of bpf_attr for `command`, which has no addresses; the command returns a new
    // descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn load() -> Program {
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, TCX_NEXT).exit();
    let code = asm.finish().unwrap();
    Program::load(&ProgramSpec::new(ProgramKind::Classifier, "mirror", &code)).unwrap()
}

#[test]
fn tcx_ingress_programs_are_found() {
    if !wirecap_lab::require_root("tcx_ingress_programs_are_found") {
        return;
    }
    let namespace = Namespace::new("tcx").unwrap();
    let pair = VethPair::new(&namespace, "wc0", &namespace, "wc1", VethOptions::default()).unwrap();
    let (of, other) = (pair.a().ifindex().unwrap(), pair.b().ifindex().unwrap());
    let found = |ifindex| namespace.enter(|| ingress_programs(ifindex)).unwrap();
    assert_eq!(found(of), [0; 0]);
    let program = load();
    let attr = LinkCreate {
        prog_fd: program.as_fd().as_raw_fd() as u32,
        target_ifindex: of,
        attach_type: TCX_INGRESS,
        flags: 0,
    };
    let link = match namespace.enter(|| bpf(LINK_CREATE, &attr)) {
        // Linux before 6.6 has no TCX.
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => return,
        link => link.unwrap(),
    };
    let ids = found(of);
    assert_eq!((ids.len(), found(other)), (1, vec![]));
    assert_eq!(Program::name_by_id(ids[0]).unwrap(), "mirror");
    drop(link);
    assert_eq!(found(of), [0; 0]);
}
