//! Checks of settings that do not depend on the machine.

use wirecap_core::{
    Geometry,
    chunk::{MAX_NICS, MAX_RINGS},
};

use super::{Config, PoolSize};
use crate::Error;

/// Maximum number of workers, unless there are more receive queues: the cost of looking after buddies grows
/// with its square.
pub(crate) const MAX_WORKERS: usize = 256;

impl Config {
    /// Checks the settings against each other, without asking the machine anything.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint: no port, a port named twice, sizes that are valid on no machine.
    pub fn check(&self) -> Result<(), Error> {
        self.check_sizes()?;
        if self.workers == Some(0) {
            return Err(Error::NoWorker);
        }
        if self.ports.is_empty() {
            return Err(Error::NoPort);
        }
        limit("ports", self.ports.len(), usize::from(MAX_NICS - 1))?;
        limit("allocators", usize::from(self.allocators), usize::from(MAX_RINGS))?;
        for (at, port) in self.ports.iter().enumerate() {
            if self.ports[..at].iter().any(|before| port.overlaps(before)) {
                return Err(Error::PortTwice(port.name()));
            }
        }
        Ok(())
    }

    /// Checks M, R and the rings. With a total of memory, R is known when the queues are, and there is one at
    /// least.
    fn check_sizes(&self) -> Result<(), Error> {
        let chunks = match self.pool_size {
            PoolSize::AtMost(chunks) | PoolSize::Chunks(chunks) => chunks,
            PoolSize::Memory(_) => 1,
        };
        let geometry = Geometry::new(self.cells_per_chunk, chunks, self.cell_bytes)?;
        if let PoolSize::Memory(bytes) = self.pool_size {
            let least = geometry.pool_bytes();
            if bytes < least {
                return Err(Error::LittleMemory { bytes, least });
            }
        }
        if let (Some(ring), PoolSize::AtMost(_) | PoolSize::Chunks(_)) = (self.ring_entries, self.pool_size) {
            geometry.check_ring(ring)?;
        }
        Ok(())
    }
}

pub(crate) fn limit(what: &'static str, given: usize, most: usize) -> Result<(), Error> {
    if given > most { Err(Error::TooMany { what, given, most }) } else { Ok(()) }
}
