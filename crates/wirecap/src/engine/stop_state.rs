//! Whether the engine is draining: stopped, or every port at its end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::doze::Sleepers;

/// Has a cache line of its own: every thread reads it with each batch, and few write it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct StopState {
    /// Written by the thread that stops the capture and by the one that ends the last queue. Pairs with the
    /// load in `is_stopping`: a thread that sees it finds every packet in a ring, filled in a pool, or handed
    /// over.
    stopping: AtomicBool,
    /// Queues that are not at their end. Written by the thread that sees one end.
    open_queues: AtomicUsize,
    /// The threads to wake.
    sleepers: Arc<Sleepers>,
}

impl StopState {
    /// For an engine with `queues` queues and these threads.
    pub(crate) fn new(queues: usize, sleepers: Arc<Sleepers>) -> Self {
        Self { stopping: AtomicBool::new(false), open_queues: AtomicUsize::new(queues), sleepers }
    }

    /// The ports are detached; what is in the rings is the last.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.sleepers.wake_all();
    }

    /// One more queue is at its end. Each once.
    pub(crate) fn queue_ended(&self) {
        // Acquires what earlier calls released: the thread that ends the last queue has seen all others end.
        if self.open_queues.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stop();
        }
    }

    /// Whether the engine is draining: stopped, or every port at its end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether every queue is at its end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.open_queues.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use wirecap_sys::wake::{WakeCause, Wakers};

    use super::*;

    #[test]
    fn a_dozing_thread_sees_the_end() {
        let sleepers = Arc::new(Sleepers::new(1, 1).unwrap());
        let stopping = StopState::new(2, Arc::clone(&sleepers));
        let wakers = Arc::new(Wakers::new(vec![]));
        std::thread::scope(|scope| {
            for sleeper in [&sleepers.workers[0], &sleepers.capture_threads[0]] {
                let (stopping, mut watch) = (&stopping, sleeper.watch(&wakers, []));
                scope.spawn(move || {
                    while !stopping.is_stopping() {
                        let limit =
                            || (!stopping.is_stopping()).then_some(std::time::Duration::from_secs(60));
                        assert_ne!(sleeper.doze(&mut watch, limit), Some(WakeCause::Timeout));
                    }
                });
            }
            stopping.queue_ended();
            stopping.queue_ended();
        });
    }

    #[test]
    fn the_last_queue_stops_the_engine_and_a_stop_ends_no_queue() {
        let sleepers = Arc::new(Sleepers::new(1, 0).unwrap());
        let stopping = StopState::new(3, Arc::clone(&sleepers));
        for _ in 0..3 {
            assert!(!stopping.is_stopping() && !stopping.is_at_end());
            stopping.queue_ended();
        }
        assert!(stopping.is_stopping() && stopping.is_at_end());

        let stopping = StopState::new(1, sleepers);
        stopping.stop();
        assert!(stopping.is_stopping() && !stopping.is_at_end());
        assert!(size_of::<StopState>() >= 128, "neighbouring data is in another cache line");
    }
}
