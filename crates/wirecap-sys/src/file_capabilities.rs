//! Capabilities that a program file gives to its processes: capabilities(7).

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path, ptr};

/// Whether a program file has capabilities.
///
/// # Errors
/// The kernel's error about the file.
pub fn has_capabilities(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both names end with a zero byte and outlive the call; with a size of 0 nothing is written.
    let size = unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), ptr::null_mut(), 0) };
    if size >= 0 {
        return Ok(size > 0);
    }
    let refused = io::Error::last_os_error();
    match refused.raw_os_error() {
        // A file system without such attributes gives none.
        Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_program_has_none() {
        assert!(!has_capabilities(&std::env::current_exe().unwrap()).unwrap());
        let missing = has_capabilities(Path::new("/nowhere")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
