//! What all our sockets do with the kernel: opened, options set and read.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// Structures of integers: any bytes are a value.
///
/// # Safety
/// That is so, padding included.
pub(crate) unsafe trait Integers {}
// SAFETY: an integer.
unsafe impl Integers for u32 {}
// SAFETY: an integer.
unsafe impl Integers for u64 {}
// SAFETY: an array of integers.
unsafe impl Integers for [u32; 3] {}

/// Opens a socket of protocol 0: one of packets hears nothing before it is bound.
pub(crate) fn open(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option (`setsockopt`).
pub(crate) fn set<T>(fd: impl AsFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer is valid for reads of the length given, for the duration of the call.
    let result = unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, option, value, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a socket to an address of its family.
pub(crate) fn bind<T>(fd: impl AsFd, address: &T) -> io::Result<()> {
    let (address, len) = (ptr::from_ref(address).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer is valid for reads of the length given, for the duration of the call.
    let result = unsafe { libc::bind(fd.as_fd().as_raw_fd(), address, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option (`getsockopt`).
pub(crate) fn get<T: Integers>(fd: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    of_number(fd.as_fd().as_raw_fd(), level, option)
}

/// Reads an option of whatever has this number, if it is a socket that has the option. A number that is no
/// descriptor, or another one since, makes it fail or describe that one: memory is not concerned.
pub(crate) fn of_number<T: Integers>(
    number: libc::c_int,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    // SAFETY: `T` consists of integers, for which all zero bytes are a value.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into a value for which any bytes are valid; both
    // outlive the call.
    let result =
        unsafe { libc::getsockopt(number, level, option, ptr::from_mut(&mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is a list of numbers, of at most `max` entries.
pub(crate) fn get_list(
    fd: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    max: usize,
) -> io::Result<Vec<u32>> {
    let mut list = vec![0_u32; max];
    let mut len = size_of_val(list.as_slice()) as libc::socklen_t;
    let number = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes into the list, whose numbers may be any; both outlive the
    // call.
    let result = unsafe { libc::getsockopt(number, level, option, list.as_mut_ptr().cast(), &raw mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    list.truncate(len as usize / size_of::<u32>());
    Ok(list)
}
