//! A batch at a place of its own, beside what borrows from it.

use std::ptr::NonNull;

use wirecap::Batch;

/// A batch that stays where it is until this value is dropped. A box would not do: moving it would end the
/// borrows of what it owns.
pub(crate) struct BoxedBatch(NonNull<Batch>);

impl BoxedBatch {
    pub(crate) fn new(batch: Batch) -> Self {
        Self(NonNull::from(Box::leak(Box::new(batch))))
    }

    /// The batch, for longer than this value is borrowed.
    ///
    /// # Safety
    /// The reference, and what borrows from it, is used only as long as this value is there, and beside no
    /// exclusive one but what was drained.
    pub(crate) unsafe fn get<'b>(&self) -> &'b Batch {
        // SAFETY: it is there until this value is dropped; the rest by the caller's promise.
        unsafe { self.0.as_ref() }
    }

    /// The batch, to take packets out, for longer than this value is borrowed.
    ///
    /// # Safety
    /// As [`BoxedBatch::get`], and there is no other reference.
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
