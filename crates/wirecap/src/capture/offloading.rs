//! Who helps whom while a capture runs, and the threshold T that decides it.

use std::sync::atomic::Ordering;

use wirecap_core::{BuddyGroup, GeometryError, Mode};

use super::Capture;
use crate::report::Offload;

impl Capture {
    /// T as it is now, in percent; `None` in basic mode.
    pub fn threshold_percent(&self) -> Option<u8> {
        self.shared.groups.first().and_then(BuddyGroup::threshold_percent)
    }

    /// Changes T of a running capture, in percent, and returns what it was. The workers, and with `push` the
    /// capture threads, use it from their next decision on. `None`: the capture is in basic mode, in which
    /// there is no T, and nothing has changed.
    ///
    /// ```
    /// # use wirecap::{Capture, Mode, port::null::NullPort};
    /// # let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 10 };
    /// let builder = Capture::builder().port(port).chunks_per_pool(4).mode(Mode::advanced(60)?);
    /// let capture = builder.open()?;
    /// assert_eq!(capture.set_threshold_percent(40), Ok(Some(60)));
    /// assert_eq!(capture.threshold_percent(), Some(40));
    /// assert!(capture.set_threshold_percent(101).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GeometryError::Threshold`] for more than 100.
    pub fn set_threshold_percent(&self, percent: u32) -> Result<Option<u8>, GeometryError> {
        let Mode::Advanced { threshold_percent } = Mode::advanced(percent)? else { return Ok(None) };
        let before = self.threshold_percent();
        self.shared.groups.iter().for_each(|group| group.set_threshold_percent(threshold_percent));
        // A worker that dozes because no buddy was over T looks again.
        self.shared.sleepers.wake_all();
        Ok(before)
    }

    /// The packets that workers took over from buddies so far, for each pair of workers between which there
    /// were any.
    pub fn offloads(&self) -> Vec<Offload> {
        let workers = 0..self.shared.workers.len();
        let pairs = workers.clone().flat_map(|helper| workers.clone().map(move |home| (home, helper)));
        let offload = |(home, helper): (usize, usize)| {
            let delivered = &self.shared.workers[helper].delivered;
            let of_queue = |&queue: &usize| delivered[queue].load(Ordering::Relaxed);
            let packets = self.shared.homes[home].iter().map(of_queue).sum();
            Offload { home, helper, packets }
        };
        let offloads = pairs.filter(|(home, helper)| home != helper).map(offload);
        offloads.filter(|offload| offload.packets > 0).collect()
    }
}
