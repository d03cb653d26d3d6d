//! The program: where it is, and whether a library can be preloaded into it.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use wirecap_sys::file_capabilities::has_capabilities;

use crate::process::executable;

/// Bytes of an ELF file that are read: its head and its program headers.
const HEAD_BYTES: u64 = 4096;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// How a program is linked, as far as that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linkage {
    /// The dynamic loader starts it, or its interpreter: a script.
    Dynamic,
    /// Statically linked.
    Static,
    /// A 32-bit program.
    Narrow,
}

/// The file of a program, as a shell finds it.
///
/// # Errors
/// No such program is in PATH.
pub(super) fn find(name: &OsStr) -> Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    match executable::in_path(name) {
        Some(found) => Ok(found),
        None => bail!(usage!("there is no program {} in PATH", name.to_string_lossy())),
    }
}

/// Refuses a program into which no library can be preloaded.
///
/// # Errors
/// Why not, and what to do instead.
pub(super) fn check(path: &Path) -> Result<()> {
    let name = path.display();
    // A file that cannot be read may still be executed: then the loader decides.
    match File::open(path).and_then(|file| linkage(&mut file.take(HEAD_BYTES))) {
        Ok(Linkage::Static) => {
            bail!(
                "{name} is statically linked: its libpcap is part of it and cannot be replaced; build it with the shared library"
            )
        }
        Ok(Linkage::Narrow) => {
            bail!("{name} is a 32-bit program and the library is 64-bit; use a 64-bit build")
        }
        Ok(Linkage::Dynamic) | Err(_) => {}
    }
    if let Some(why) = privileges(path) {
        bail!(
            "{name} {why}, so the loader does not preload libraries into it; run it as root, or have it find wirecap under the \
             name of libpcap (see the book, \"Existing programs\")"
        );
    }
    Ok(())
}

/// Why the loader starts the program in secure mode for this user; `None` if it does not.
fn privileges(path: &Path) -> Option<&'static str> {
    let user = nix::unistd::geteuid().as_raw();
    let file = fs::metadata(path).ok()?;
    if file.mode() & SET_USER_ID != 0 && file.uid() != user {
        return Some("changes its user (setuid)");
    }
    if file.mode() & SET_GROUP_ID != 0 && file.gid() != nix::unistd::getegid().as_raw() {
        return Some("changes its group (setgid)");
    }
    (user != 0 && has_capabilities(path).unwrap_or(false)).then_some("has file capabilities")
}

/// Whether this program has capabilities from its file: another one that it starts does not get them.
pub(super) fn has_own_capabilities() -> bool {
    let has_some = || env::current_exe().and_then(|own| has_capabilities(&own)).unwrap_or(false);
    !nix::unistd::geteuid().is_root() && has_some()
}

fn linkage(file: &mut impl Read) -> std::io::Result<Linkage> {
    const MAGIC: &[u8] = b"\x7fELF";
    const CLASS_64: u8 = 2;
    const PT_INTERP: u32 = 3;
    let mut head = Vec::new();
    file.read_to_end(&mut head)?;
    if !head.starts_with(MAGIC) {
        return Ok(Linkage::Dynamic);
    }
    if head.get(4) != Some(&CLASS_64) {
        return Ok(Linkage::Narrow);
    }
    let word = |at: usize| {
        head.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_ne_bytes([bytes[0], bytes[1]])))
    };
    let long = |at: usize| {
        head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
    };
    let (first, size, count) = (long(32) as usize, word(54), word(56));
    let has_loader = (0..count).any(|index| long(first + index * size) == PT_INTERP);
    Ok(if has_loader { Linkage::Dynamic } else { Linkage::Static })
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// An ELF file of this class with one program header of this type.
    fn elf(class: u8, kind: u32) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..4].copy_from_slice(b"\x7fELF");
        file[4] = class;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&kind.to_ne_bytes());
        file
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        for (file, expected) in [
            (elf(2, 3), Linkage::Dynamic),
            (elf(2, 1), Linkage::Static),
            (elf(1, 3), Linkage::Narrow),
            (b"#!/bin/sh\n".to_vec(), Linkage::Dynamic),
            (elf(2, 3)[..20].to_vec(), Linkage::Static),
        ] {
            assert_eq!(linkage(&mut file.as_slice()).unwrap(), expected);
        }
        let own = File::open(env::current_exe().unwrap()).unwrap();
        assert_eq!(linkage(&mut own.take(HEAD_BYTES)).unwrap(), Linkage::Dynamic);
    }

    #[test]
    fn programs_are_found_as_by_a_shell() {
        let find = |name: &str| find(name.as_ref());
        assert!(find("sh").unwrap().ends_with("sh"));
        assert_eq!(find("./here").unwrap(), PathBuf::from("./here"));
        let error = find("no-such-program-anywhere").unwrap_err();
        assert!(error.to_string().contains("no program no-such-program-anywhere in PATH"), "{error}");
    }
}
