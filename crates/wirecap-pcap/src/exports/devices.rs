//! Lists of devices, link types and kinds of time stamps. libpcap's lists are copied, because programs free
//! them by functions of this library.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr, slice,
};

use wirecap::HostView;

use super::ask_libpcap;
use crate::{
    abi::{Address, ERROR, ForeignPcap, Interface},
    edge::catch_panic,
    handle::{Handle, PcapT, without_libpcap},
    libpcap::{Loaded, libpcap},
    live::device::{self, ListedDevice},
    text,
};

/// libpcap's list, then the devices that only the engine has.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_findalldevs(list: *mut *mut Interface, error: *mut c_char) -> c_int {
    catch_panic(ERROR, || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>; libpcap's list is freed once it is copied.
        unsafe {
            list.write(ptr::null_mut());
            let Ok(libpcap) = libpcap() else { return without_libpcap(error, ERROR) };
            let mut theirs = ptr::null_mut();
            let status = (libpcap.pcap_findalldevs)(&mut theirs, error);
            if status != 0 {
                return status;
            }
            let mut interfaces = Vec::new();
            let mut next = theirs.cast_const();
            while let Some(interface) = next.as_ref() {
                interfaces.push(interface);
                next = interface.next;
            }
            let host = HostView::read().ok();
            let more: Vec<_> = interfaces
                .iter()
                .filter_map(|interface| {
                    Some((interface.flags, CStr::from_ptr(interface.name).to_str().ok()?))
                })
                .flat_map(|(flags, name)| {
                    device::variants(name, host.as_ref()).into_iter().map(move |device| (flags, device))
                })
                .collect();
            let mut first: *mut Interface = ptr::null_mut();
            for (flags, ListedDevice { name, description }) in more.into_iter().rev() {
                let (name, description) = (owned(&name), owned(&description));
                first =
                    boxed(Interface { next: first, name, description, addresses: ptr::null_mut(), flags });
            }
            for interface in interfaces.into_iter().rev() {
                first = boxed(Interface {
                    next: first,
                    name: copied(interface.name),
                    description: copied(interface.description),
                    addresses: copied_addresses(interface.addresses),
                    flags: interface.flags,
                });
            }
            (libpcap.pcap_freealldevs)(theirs);
            list.write(first);
            0
        }
    })
}

fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn owned(text: &str) -> *mut c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

/// # Safety
/// `text` is null or a string of C.
unsafe fn copied(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_owned().into_raw()
}

/// # Safety
/// `addresses` is null or a list of libpcap.
unsafe fn copied_addresses(addresses: *const Address) -> *mut Address {
    // SAFETY: by the caller's promise.
    let Some(address) = (unsafe { addresses.as_ref() }) else { return ptr::null_mut() };
    // SAFETY: as above, for each of them.
    unsafe {
        boxed(Address {
            next: copied_addresses(address.next),
            address: copied_socket_address(address.address),
            netmask: copied_socket_address(address.netmask),
            broadcast: copied_socket_address(address.broadcast),
            destination: copied_socket_address(address.destination),
        })
    }
}

/// # Safety
/// `address` is null or an address of its family.
unsafe fn copied_socket_address(address: *const libc::sockaddr) -> *mut libc::sockaddr {
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: by the caller's promise; a copy has room for every family.
    unsafe {
        let len = match c_int::from((*address).sa_family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            libc::AF_PACKET => size_of::<libc::sockaddr_ll>(),
            _ => size_of::<libc::sockaddr>(),
        };
        let copy = boxed(std::mem::zeroed::<libc::sockaddr_storage>());
        copy.cast::<u8>().copy_from_nonoverlapping(address.cast(), len);
        copy.cast()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_freealldevs(list: *mut Interface) {
    catch_panic((), || {
        let mut next = list;
        while !next.is_null() {
            // SAFETY: the list is of `pcap_findalldevs`, whose parts are boxes and strings of their own.
            unsafe {
                let interface = Box::from_raw(next);
                free_text(interface.name);
                free_text(interface.description);
                let mut address = interface.addresses;
                while !address.is_null() {
                    let Address { next, address: own, netmask, broadcast, destination } =
                        *Box::from_raw(address);
                    for part in
                        [own, netmask, broadcast, destination].into_iter().filter(|part| !part.is_null())
                    {
                        drop(Box::from_raw(part.cast::<libc::sockaddr_storage>()));
                    }
                    address = next;
                }
                next = interface.next;
            }
        }
    });
}

/// # Safety
/// `text` is null or of [`owned`] or [`copied`].
unsafe fn free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// libpcap's answer for the interface that a device's name contains.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_lookupnet(
    device: *const c_char,
    network: *mut u32,
    netmask: *mut u32,
    error: *mut c_char,
) -> c_int {
    catch_panic(ERROR, || {
        // SAFETY: the program keeps the promises of <pcap/pcap.h>.
        unsafe {
            let Ok(libpcap) = libpcap() else { return without_libpcap(error, ERROR) };
            let served = text::read(device).and_then(|name| device::Device::named(&name));
            let device = served.as_ref().map_or(device, |served| served.interface.as_ptr());
            (libpcap.pcap_lookupnet)(device, network, netmask, error)
        }
    })
}

/// A list for a program, which frees it by `pcap_free_datalinks` or `pcap_free_tstamp_types`.
fn list_of(values: &[c_int], list: *mut *mut c_int) -> c_int {
    // SAFETY: the program gives room for a pointer; malloc's memory has room for the values if it is not
    // null.
    unsafe {
        let memory = libc::malloc(size_of_val(values)).cast::<c_int>();
        if memory.is_null() {
            return ERROR;
        }
        memory.copy_from_nonoverlapping(values.as_ptr(), values.len());
        list.write(memory);
    }
    values.len() as c_int
}

/// Has libpcap list something, and copies the list.
///
/// # Safety
/// `list` has room for a pointer; the functions are those of a list of libpcap.
unsafe fn copied_list(
    list: *mut *mut c_int,
    listed: impl FnOnce(*mut *mut c_int) -> c_int,
    free: unsafe extern "C" fn(*mut c_int),
) -> c_int {
    let mut theirs = ptr::null_mut();
    let status = listed(&mut theirs);
    let Some(len) = usize::try_from(status).ok().filter(|&len| len > 0 && !theirs.is_null()) else {
        if status == 0 {
            // SAFETY: by the caller's promise.
            unsafe { list.write(ptr::null_mut()) };
        }
        return status;
    };
    // SAFETY: libpcap returned a list of this length, which is freed once it is copied.
    unsafe {
        let status = list_of(slice::from_raw_parts(theirs, len), list);
        free(theirs);
        status
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_list_datalinks(handle: *mut PcapT, list: *mut *mut c_int) -> c_int {
    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
    unsafe {
        list_of_handle(handle, list, |libpcap| (libpcap.pcap_list_datalinks, libpcap.pcap_free_datalinks))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_list_tstamp_types(handle: *mut PcapT, list: *mut *mut c_int) -> c_int {
    // SAFETY: the program keeps the promises of <pcap/pcap.h>.
    unsafe {
        list_of_handle(handle, list, |libpcap| {
            (libpcap.pcap_list_tstamp_types, libpcap.pcap_free_tstamp_types)
        })
    }
}

type ListFn = unsafe extern "C" fn(*mut ForeignPcap, *mut *mut c_int) -> c_int;
type FreeFn = unsafe extern "C" fn(*mut c_int);

/// Has libpcap list something of a handle.
///
/// # Safety
/// The program keeps the promises of <pcap/pcap.h>; the functions are those of one list of libpcap.
unsafe fn list_of_handle(
    pointer: *mut PcapT,
    list: *mut *mut c_int,
    functions: impl FnOnce(Loaded) -> (ListFn, FreeFn),
) -> c_int {
    catch_panic(ERROR, || {
        // SAFETY: by the caller's promise.
        let handle = unsafe { Handle::of(pointer) };
        ask_libpcap(handle, ERROR, |libpcap, foreign| {
            let (listed, free) = functions(libpcap);
            // SAFETY: as above; the handle is libpcap's own, or null.
            unsafe { copied_list(list, |list| listed(foreign, list), free) }
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_free_datalinks(list: *mut c_int) {
    // SAFETY: the list is null, or of `list_of`.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_free_tstamp_types(list: *mut c_int) {
    // SAFETY: as above.
    unsafe { libc::free(list.cast()) };
}
