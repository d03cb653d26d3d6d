//! A batch that its borrowers are kept beside.

use std::ptr::NonNull;

use wirecap::Batch;

/// A batch with a fixed address until this value is dropped. A `Box` would not do: moving it invalidates
/// references into it.
pub(crate) struct BoxedBatch(NonNull<Batch>);

impl BoxedBatch {
    pub(crate) fn new(batch: Batch) -> Self {
        Self(NonNull::from(Box::leak(Box::new(batch))))
    }

    /// The batch, for longer than this value is borrowed.
    ///
    /// # Safety
    /// The reference, and everything that borrows from it, is used only while this value exists, and no
    /// exclusive reference is used at the same time, except by a drain.
    pub(crate) unsafe fn get<'b>(&self) -> &'b Batch {
        // SAFETY: it is there until this value is dropped; the rest by the caller's promise.
        unsafe { self.0.as_ref() }
    }

    /// The batch, to take packets out, for longer than this value is borrowed.
    ///
    /// # Safety
    /// As [`BoxedBatch::get`], and no other reference exists.
    pub(crate) unsafe fn get_mut<'b>(&self) -> &'b mut Batch {
        // SAFETY: as above.
        unsafe { &mut *self.0.as_ptr() }
    }
}

impl Drop for BoxedBatch {
    fn drop(&mut self) {
        // SAFETY: `new` made it of a box, and it is freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
