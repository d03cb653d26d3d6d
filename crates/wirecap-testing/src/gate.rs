//! A gate that holds workers up until a test opens it: slowness without a clock.

use std::sync::{Arc, Condvar, Mutex};

/// Closed when it is made. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// A gate, closed.
    pub fn closed() -> Self {
        Self::default()
    }

    /// Lets everybody through from now on.
    pub fn open(&self) {
        *self.inner.0.lock().unwrap() = true;
        self.inner.1.notify_all();
    }

    /// Closes it again.
    pub fn close(&self) {
        *self.inner.0.lock().unwrap() = false;
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let open = self.inner.0.lock().unwrap();
        drop(self.inner.1.wait_while(open, |open| !*open).unwrap());
    }
}
