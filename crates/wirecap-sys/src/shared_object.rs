//! Libraries that are loaded at run time.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
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

    /// The same; the library calls its own functions even where the program has others of the same name.
    ///
    /// # Errors
    /// The loader's own words.
    pub fn open_bound_to_itself(name: &CStr) -> Result<Self, String> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND)
    }

    fn open_with(name: &CStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the name ends with a zero byte. In the base namespace dlmopen is dlopen, except under
        // AddressSanitizer, which refuses RTLD_DEEPBIND in dlopen because it bypasses the sanitizer's
        // allocator; memory that a library allocates is freed by the same library.
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
