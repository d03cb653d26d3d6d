//! What is still to come, by the numbers that queues have here.

use std::sync::Arc;

use wirecap::{Horizon, Horizons};

use super::block::Encoding;

/// Asks the engine for horizons.
#[derive(Debug)]
pub(crate) struct Lookout {
    horizons: Horizons,
    encoding: Arc<Encoding>,
}

impl Lookout {
    pub(crate) fn new(horizons: Horizons, encoding: &Arc<Encoding>) -> Self {
        Self { horizons, encoding: Arc::clone(encoding) }
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        self.encoding.queues.count()
    }

    /// The horizon of a queue, if it has one now.
    pub(crate) fn horizon(&self, queue: usize) -> Option<Horizon> {
        let (port, number) = self.encoding.queues.place(queue);
        self.horizons.of(port, number)
    }
}
