//! What ports are opened with: the settings, what follows from them, and the caller's hooks.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use wirecap_core::Geometry;

use crate::{Config, Error, QueueWait};

/// How the ports of a capture are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) hooks: &'a Hooks,
    pub(crate) geometry: Geometry,
    /// Entries of the fill and receive rings.
    pub(crate) ring_entries: u32,
}

/// How the caller takes part while ports are opened. Unlike [`Config`], not data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hooks {
    /// Called at a wait for a queue that another socket has, if the wait is longer than a moment.
    pub(crate) on_wait: Option<fn(&QueueWait)>,
    pub(crate) give_up: GiveUpFlag,
    pub(crate) on_thread: ThreadHook,
    /// What the program takes beside the capture, in bytes, if it says so.
    pub(crate) rest_bytes: Option<u64>,
    /// The cookie of a packet socket that the program sends by.
    pub(crate) own_sender: Option<u64>,
}

/// What each capture thread does before anything else.
#[derive(Clone, Default)]
pub(crate) struct ThreadHook(pub(crate) Option<Arc<dyn Fn() + Send + Sync>>);

impl ThreadHook {
    /// Called by the thread.
    pub(crate) fn call(&self) {
        if let Some(hook) = &self.0 {
            hook();
        }
    }
}

impl fmt::Debug for ThreadHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadHook").field(&self.0.is_some()).finish()
    }
}

/// Whether opening is given up: once the flag is set.
#[derive(Debug, Clone, Default)]
pub(crate) struct GiveUpFlag(pub(crate) Arc<AtomicBool>);

impl GiveUpFlag {
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Error::GivenUp`] if it is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_wanted() { Err(Error::GivenUp) } else { Ok(()) }
    }
}
