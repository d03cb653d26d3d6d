//! The receive queues of a capture, numbered through.

use wirecap::{
    Report,
    report::{PortReport, QueueMode},
};

/// The receive queues of all ports that are captured, numbered through: port 0's first.
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
pub struct Queues {
    places: Vec<Place>,
    /// For each port its first queue; at the end, how many there are.
    first: Vec<usize>,
}

/// Where packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) port: usize,
    /// The receive queue, as the port numbers it.
    pub(crate) queue: u16,
}

impl Queues {
    /// Those of a capture.
    pub fn of(report: &Report) -> Self {
        let captured = |port: &PortReport| {
            let queues = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
            queues.map(|queue| queue.queue).collect()
        };
        Self::new(report.ports.iter().map(captured))
    }

    pub(crate) fn new(ports: impl IntoIterator<Item = Vec<u16>>) -> Self {
        let (mut places, mut first) = (Vec::new(), vec![0]);
        for (port, queues) in ports.into_iter().enumerate() {
            places.extend(queues.into_iter().map(|queue| Place { port, queue }));
            first.push(places.len());
        }
        Self { places, first }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The number of a port's queue here; `None` if it is not captured.
    pub fn index(&self, port: usize, queue: u16) -> Option<usize> {
        let (place, first) = (Place { port, queue }, *self.first.get(port)?);
        // Nearly always a port has all its queues, or all from its first one on.
        let guess = first + usize::from(queue.wrapping_sub(self.places.get(first)?.queue));
        if self.places.get(guess) == Some(&place) {
            return Some(guess);
        }
        self.places.iter().position(|&other| other == place)
    }

    pub(crate) fn place(&self, index: usize) -> Place {
        self.places[index]
    }

    /// Whether the port has another queue than queue 0, so that a packet has to name its queue.
    pub(crate) fn has_numbers(&self, port: usize) -> bool {
        self.places[self.first[port]..self.first[port + 1]] != [Place { port, queue: 0 }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_numbered_through_all_ports() {
        let queues = Queues::new([vec![0, 1], vec![0], vec![5, 2, 3], vec![64, 65]]);
        assert_eq!(queues.count(), 8);
        for index in 0..queues.count() {
            let Place { port, queue } = queues.place(index);
            assert_eq!(queues.index(port, queue), Some(index));
        }
        assert_eq!((queues.index(1, 1), queues.index(2, 4), queues.index(4, 0)), (None, None, None));
        assert_eq!(
            (queues.place(2), queues.place(3)),
            (Place { port: 1, queue: 0 }, Place { port: 2, queue: 5 })
        );
        assert!(queues.has_numbers(0) && !queues.has_numbers(1) && queues.has_numbers(2));
        assert!(Queues::new([vec![2]]).has_numbers(0), "queue 2 alone is not queue 0");
    }
}
