//! A gate that blocks workers until a test opens it: makes workers slow without a clock.

use std::sync::{Arc, Condvar, Mutex};

/// Closed at first. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// Makes a closed gate.
    pub fn closed() -> Self {
        Self::default()
    }

    /// Opens the gate for all threads.
    pub fn open(&self) {
        *self.inner.0.lock().unwrap() = true;
        self.inner.1.notify_all();
    }

    /// Closes the gate again.
    pub fn close(&self) {
        *self.inner.0.lock().unwrap() = false;
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let open = self.inner.0.lock().unwrap();
        drop(self.inner.1.wait_while(open, |open| !*open).unwrap());
    }
}
