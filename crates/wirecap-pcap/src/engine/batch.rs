//! Batches and packets.

use std::{
    ffi::{c_int, c_uint},
    ptr,
};

use wirecap::{Direction, Drain, OwnedPacket, Packets, Refusal, Transmitter};

use super::handles::WorkerHandle;
use crate::{
    boxed_batch::BoxedBatch,
    edge::{catch_panic, set_errno},
};

/// `wirecap_batch_t`. In this order, so that what borrows from the batch is dropped before it.
pub(super) struct BatchHandle {
    /// The packet that the program has, if its cells can be taken out.
    current: Option<OwnedPacket<'static>>,
    rest: Rest,
    view: View,
    batch: BoxedBatch,
}

/// Packets that the program has not seen.
enum Rest {
    /// They can be taken out, each with its cells.
    Cells(Drain<'static>),
    /// They are read where they are.
    Borrowed(Packets<'static>),
}

/// `struct wirecap_view`.
#[repr(C)]
struct View {
    data: *mut u8,
    len: u32,
    captured_len: u32,
    original_len: u32,
    outgoing: u32,
    timestamp_ns: u64,
    number: u64,
}

/// As <wirecap.h> has it.
fn errno(reason: Refusal) -> c_int {
    match reason {
        Refusal::TooLong => libc::EMSGSIZE,
        Refusal::LinkDown => libc::ENETDOWN,
        Refusal::Gone => libc::ENODEV,
        reason if reason.is_for_room() => libc::ENOBUFS,
        _ => libc::EOPNOTSUPP,
    }
}

impl BatchHandle {
    pub(super) fn new(batch: wirecap::Batch) -> Self {
        let batch = BoxedBatch::new(batch);
        // SAFETY: what borrows from the batch is dropped before it, and lent for no longer than the handle.
        let rest = match unsafe { batch.get_mut() }.drain() {
            Some(drain) => Rest::Cells(drain),
            // SAFETY: as above; nothing was drained.
            None => Rest::Borrowed(unsafe { batch.get() }.packets()),
        };
        let view = View {
            data: ptr::null_mut(),
            len: 0,
            captured_len: 0,
            original_len: 0,
            outgoing: 0,
            timestamp_ns: 0,
            number: 0,
        };
        Self { current: None, rest, view, batch }
    }

    fn next(&mut self) -> Option<&View> {
        // The cells of the packet before go home.
        self.current = None;
        self.view = match &mut self.rest {
            Rest::Cells(drain) => {
                let packet = self.current.insert(drain.next()?);
                let (captured, timestamp_ns, number) = (packet.len(), packet.timestamp_ns(), packet.number());
                let data = packet.data_mut();
                View {
                    data: data.as_mut_ptr(),
                    len: data.len() as u32,
                    captured_len: captured as u32,
                    original_len: captured as u32,
                    outgoing: 0,
                    timestamp_ns,
                    number,
                }
            }
            Rest::Borrowed(packets) => {
                let packet = packets.next()?;
                View {
                    data: packet.data().as_ptr().cast_mut(),
                    len: packet.data().len() as u32,
                    captured_len: packet.len() as u32,
                    original_len: packet.original_len() as u32,
                    outgoing: (packet.direction() == Direction::Out).into(),
                    timestamp_ns: packet.timestamp_ns(),
                    number: packet.number(),
                }
            }
        };
        Some(&self.view)
    }

    /// Forwards the current packet.
    ///
    /// # Errors
    /// The errno that says why it was not taken. It stays the current one.
    fn forward(&mut self, transmitter: &mut Transmitter) -> Result<(), c_int> {
        let Some(packet) = self.current.take() else {
            let lie_in_blocks = matches!(self.rest, Rest::Borrowed(_));
            return Err(if lie_in_blocks { libc::EOPNOTSUPP } else { libc::EINVAL });
        };
        packet.forward(transmitter).map_err(|refused| {
            self.current = Some(refused.packet);
            errno(refused.reason)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_batch_device(batch: *const BatchHandle) -> c_uint {
    // SAFETY: the program gives a batch, or null; only the batch itself is read, which its packets do not
    // change.
    catch_panic(0, || unsafe { batch.as_ref().map_or(0, |batch| batch.batch.get().port() as c_uint) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_batch_queue(batch: *const BatchHandle) -> c_uint {
    // SAFETY: as above.
    catch_panic(0, || unsafe { batch.as_ref().map_or(0, |batch| batch.batch.get().queue().into()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_batch_next(batch: *mut BatchHandle) -> *const View {
    catch_panic(ptr::null(), || {
        // SAFETY: the program gives a batch, or null, that no other thread uses.
        unsafe { batch.as_mut() }.and_then(BatchHandle::next).map_or(ptr::null(), ptr::from_ref)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_batch_free(batch: *mut BatchHandle) {
    catch_panic((), || {
        if !batch.is_null() {
            // SAFETY: it is of `wirecap_next_batch`, and freed once.
            drop(unsafe { Box::from_raw(batch) });
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_forward(
    worker: *mut WorkerHandle,
    batch: *mut BatchHandle,
    device: c_uint,
) -> c_int {
    catch_panic(-1, || {
        // SAFETY: the program gives a worker and a batch, or null, that no other thread uses.
        let (worker, batch) = unsafe { (worker.as_mut(), batch.as_mut()) };
        let transmitter = worker.and_then(|worker| worker.transmitter(device));
        let forwarded = match (batch, transmitter) {
            (Some(batch), Some(transmitter)) => batch.forward(transmitter),
            (None, _) => Err(libc::EINVAL),
            (_, None) => Err(libc::ENXIO),
        };
        match forwarded {
            Ok(()) => 0,
            Err(errno) => {
                set_errno(errno);
                -1
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_forward_batch(
    worker: *mut WorkerHandle,
    batch: *mut BatchHandle,
    device: c_uint,
) -> c_uint {
    catch_panic(0, || {
        if batch.is_null() {
            return 0;
        }
        // SAFETY: it is of `wirecap_next_batch`, and freed once.
        let mut batch = unsafe { Box::from_raw(batch) };
        // SAFETY: the program gives a worker, or null, that no other thread uses.
        let worker = unsafe { worker.as_mut() };
        let Some(transmitter) = worker.and_then(|worker| worker.transmitter(device)) else { return 0 };
        let mut taken = 0;
        while batch.next().is_some() {
            taken += c_uint::from(batch.forward(transmitter).is_ok());
        }
        taken
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_keep(batch: *mut BatchHandle) -> *mut OwnedPacket<'static> {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the program gives a batch, or null, that no other thread uses.
        let packet = unsafe { batch.as_mut() }.and_then(|batch| batch.current.take());
        packet.map_or(ptr::null_mut(), |packet| Box::into_raw(Box::new(packet.keep())))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_packet_data(packet: *const OwnedPacket<'static>, len: *mut u32) -> *const u8 {
    catch_panic(ptr::null(), || {
        // SAFETY: the program gives a packet, or null, and room for a length, or null.
        let data = unsafe { packet.as_ref() }.map(OwnedPacket::data);
        if !len.is_null() {
            // SAFETY: as above.
            unsafe { len.write(data.map_or(0, <[u8]>::len) as u32) };
        }
        data.map_or(ptr::null(), <[u8]>::as_ptr)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wirecap_packet_free(packet: *mut OwnedPacket<'static>) {
    catch_panic((), || {
        if !packet.is_null() {
            // SAFETY: it is of `wirecap_keep`, and freed once.
            drop(unsafe { Box::from_raw(packet) });
        }
    });
}
