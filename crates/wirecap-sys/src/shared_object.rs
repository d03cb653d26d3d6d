//! Libraries that are loaded at run time.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs,
    io::{self, Write},
    os::fd::{AsRawFd, FromRawFd},
    ptr::NonNull,
};

/// What the dynamic loader opened; never closed, so that functions taken from it stay callable.
#[derive(Debug)]
pub struct SharedObject(NonNull<c_void>);

// SAFETY: a handle of the loader, which any thread may use.
unsafe impl Send for SharedObject {}
// SAFETY: as above.
unsafe impl Sync for SharedObject {}

impl SharedObject {
    /// Opens a library, by path if the name has a slash.
    ///
    /// # Errors
    /// The loader's own words.
    pub fn open(name: &CStr) -> Result<Self, String> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// The same; the library calls its own functions even where the program has others of the same name; so
    /// does the program, if it opens the file later.
    ///
    /// It also calls the C library's functions where the program has others: in a program with an allocator
    /// of its own it may free what that one has allocated (strdup), and crash. See
    /// [`SharedObject::open_copy_bound_to_itself`].
    ///
    /// # Errors
    /// The loader's own words.
    pub fn open_bound_to_itself(name: &CStr) -> Result<Self, String> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND)
    }

    /// Opens a library from a copy of its file that is marked as symbolic (`DF_SYMBOLIC` of the ELF
    /// specification): it calls its own functions even where the program has others of the same name, and the
    /// program's where it has none.
    ///
    /// # Errors
    /// Why there is no copy; the loader's own words.
    pub fn open_copy_bound_to_itself(mut library: Vec<u8>) -> Result<Self, String> {
        mark_as_symbolic(&mut library).ok_or("it has no room for the mark")?;
        let (copy, name) = in_memory(&library).map_err(|error| error.to_string())?;
        let opened = Self::open(&name);
        drop(copy);
        opened
    }

    fn open_with(name: &CStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the name ends with a zero byte. In the base namespace dlmopen is dlopen, except under
        // AddressSanitizer, which refuses RTLD_DEEPBIND in dlopen.
        let object = unsafe { libc::dlmopen(libc::LM_ID_BASE, name.as_ptr(), flags) };
        // SAFETY: dlerror's message is this thread's own until its next call, and is copied.
        NonNull::new(object).map(Self).ok_or_else(|| unsafe { text(libc::dlerror()) })
    }

    /// Whether it exports this symbol.
    pub fn has(&self, symbol: &CStr) -> bool {
        self.address(symbol).is_some()
    }

    fn address(&self, symbol: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the object is open, and the name ends with a zero byte.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), symbol.as_ptr()) })
    }

    /// The function of this name, if the library has it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to exactly this C function.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address(name)?;
        // SAFETY: a function pointer is as wide as `address`, not null, and of the right type by our
        // contract.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// A file in memory with these contents, and its path while it is open.
fn in_memory(contents: &[u8]) -> io::Result<(fs::File, CString)> {
    // Named so that the kernel lets programs run from it; Linux before 6.3 does not know the flag.
    const MFD_EXEC: libc::c_uint = 0x10;
    let create = |flags| {
        // SAFETY: the name ends with a zero byte.
        let fd = unsafe { libc::memfd_create(c"libpcap".as_ptr(), libc::MFD_CLOEXEC | flags) };
        // SAFETY: the descriptor is new, and no other value owns it.
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { fs::File::from_raw_fd(fd) }) }
    };
    let mut file = create(MFD_EXEC).or_else(|_| create(0))?;
    file.write_all(contents)?;
    // The loader keeps the name; with two slashes no program asks for it later.
    let name = format!("/proc/self/fd//{}", file.as_raw_fd());
    Ok((file, CString::new(name)?))
}

/// Marks an ELF file as symbolic. `None` if the file is not one of this machine, or has no room for the mark.
fn mark_as_symbolic(file: &mut [u8]) -> Option<()> {
    const PT_DYNAMIC: u64 = 2;
    const DT_NULL: u64 = 0;
    const DT_SYMBOLIC: u64 = 16;
    const DT_FLAGS: u64 = 30;
    const DF_SYMBOLIC: u64 = 2;
    const CLASS_64: u8 = 2;
    /// A tag and its value.
    const ENTRY_BYTES: usize = 16;
    let number = |file: &[u8], at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(number))
    };
    if cfg!(target_endian = "big") || !file.starts_with(b"\x7fELF") || file.get(4) != Some(&CLASS_64) {
        return None;
    }
    let (first, size, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
    let head = |index: u64| usize::try_from(first.checked_add(index * size)?).ok();
    let dynamic = (0..count).filter_map(head).find(|&head| number(file, head, 4) == Some(PT_DYNAMIC))?;
    let begin = usize::try_from(number(file, dynamic + 8, 8)?).ok()?;
    let end = begin.checked_add(usize::try_from(number(file, dynamic + 32, 8)?).ok()?)?;
    for at in (begin..end).step_by(ENTRY_BYTES) {
        let (field, value) = match number(file, at, 8)? {
            DT_FLAGS => (at + 8, number(file, at + 8, 8)? | DF_SYMBOLIC),
            // The list ends here; the linker leaves more of these behind, for such changes.
            DT_NULL if at + 2 * ENTRY_BYTES <= end && number(file, at + ENTRY_BYTES, 8)? == DT_NULL => {
                (at, DT_SYMBOLIC)
            }
            DT_NULL => return None,
            _ => continue,
        };
        file.get_mut(field..field + 8)?.copy_from_slice(&value.to_le_bytes());
        return Some(());
    }
    None
}

/// A copy of a C string.
///
/// # Safety
/// The pointer is null or points to a zero-terminated string that does not change during the call.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "no reason given".into();
    }
    // SAFETY: not null, and our caller vouches for the rest.
    let copy: CString = unsafe { CStr::from_ptr(pointer) }.to_owned();
    copy.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with a dynamic segment that has these tags, whose values are 8.
    fn elf(tags: &[u64]) -> Vec<u8> {
        const HEAD_BYTES: usize = 64 + 56;
        let mut file = vec![0; HEAD_BYTES];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        (file[32], file[54], file[56]) = (64, 56, 1);
        (file[64], file[64 + 8], file[64 + 32]) = (2, HEAD_BYTES as u8, 16 * tags.len() as u8);
        file.extend(tags.iter().flat_map(|tag| [*tag, 8]).flat_map(u64::to_le_bytes));
        file
    }

    #[test]
    fn a_library_is_marked_where_there_is_room() {
        let marked = |tags: &[u64]| {
            let mut file = elf(tags);
            mark_as_symbolic(&mut file).map(|()| {
                let numbers =
                    file[120..].chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
                numbers.collect::<Vec<_>>()
            })
        };
        assert_eq!(marked(&[5, 30, 0]), Some(vec![5, 8, 30, 8 | 2, 0, 8]));
        assert_eq!(marked(&[5, 0, 0]), Some(vec![5, 8, 16, 8, 0, 8]));
        assert_eq!((marked(&[5, 0]), marked(&[5]), marked(&[])), (None, None, None));
        let whole = elf(&[5, 0, 0]);
        for len in 0..whole.len() - 8 {
            assert_eq!(mark_as_symbolic(&mut whole[..len].to_vec()), None, "{len} bytes");
        }
    }
}
