//! The receive queues of a capture, numbered consecutively.

use wirecap::{Report, report::QueueMode};

/// The captured receive queues of all ports, numbered consecutively, starting with those of port 0.
///
/// ```
/// # use wirecap::{Capture, port::null::NullPort};
/// # let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1 };
/// # let other = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 1 };
/// # let capture = Capture::builder().port(port).port(other).chunks_per_pool(4).open()?;
/// let queues = wirecap_record::Queues::of(&capture.report());  // a port of two queues, and a port of one
/// assert_eq!(queues.count(), 3);
/// assert_eq!(queues.index(1, 0), Some(2));
/// # Ok::<(), wirecap::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Queues(Vec<Place>);

/// Where packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) port: usize,
    /// The receive queue, as the port numbers it.
    pub(crate) queue: u16,
}

impl Queues {
    /// The queues of a capture.
    pub fn of(report: &Report) -> Self {
        let places = report.ports.iter().enumerate().flat_map(|(port, of)| {
            let captured = of.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
            captured.map(move |queue| Place { port, queue: queue.queue })
        });
        Self(places.collect())
    }

    /// The number of queues.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of a port's queue; `None` if it is not captured.
    pub fn index(&self, port: usize, queue: u16) -> Option<usize> {
        self.0.iter().position(|place| *place == Place { port, queue })
    }

    pub(crate) fn place(&self, index: usize) -> Place {
        self.0[index]
    }

    /// The port of the first queue, or 0 without queues.
    pub(crate) fn first_port(&self) -> usize {
        self.0.first().map_or(0, |place| place.port)
    }

    /// Each of them alone.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        self.0.iter().map(|&place| Self(vec![place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_numbered_across_ports() {
        let places = [(0, 0), (0, 1), (1, 0), (2, 5), (2, 2), (2, 3), (3, 64)];
        let queues = Queues(places.map(|(port, queue)| Place { port, queue }).to_vec());
        assert_eq!(queues.count(), places.len());
        for (index, (port, queue)) in places.into_iter().enumerate() {
            assert_eq!(
                (queues.index(port, queue), queues.place(index)),
                (Some(index), Place { port, queue })
            );
        }
        assert_eq!((queues.index(1, 1), queues.index(2, 4), queues.index(4, 0)), (None, None, None));
    }
}
