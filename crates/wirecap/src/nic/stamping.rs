//! Times of single packets over AF_XDP: which clock stamps them, and what has to be switched on for that.
//!
//! ```text
//!   XDP program:  clock, or the driver ──► stamp ──► 8 bytes of metadata in front of the packet     program/stamp.rs
//!   queue:        metadata ──► StampClock ──► UTC ──► Descriptor { timestamp_ns }                   port/stamp_reader.rs
//! ```
//!
//! Rule: a NIC's stamping is switched on for as long as the port is captured, and then restored.

use std::sync::Arc;

use wirecap_sys::{
    bpf::{Helper, KernelFunction},
    clock::{self, ClockError, ClockSource, LeapSeconds, PtpClock, StampClock},
    netdev::{self, HardwareStamping, Interface, RxMetadata, StampAbilities},
};

use crate::{
    Diagnostic, Error, Timestamp,
    diagnostic::{Cause, NicDataRefusal},
    program::stamp::StampSource,
    report::TimestampReport,
};

/// What asks the driver for the NIC's time of a packet (Linux 6.3).
const RX_TIMESTAMP: &str = "bpf_xdp_metadata_rx_timestamp";

/// How a port stamps its packets.
#[derive(Debug)]
pub(crate) struct Stamping {
    pub(crate) source: Timestamp,
    /// What the XDP program asks for the time.
    pub(crate) asked: StampSource,
    pub(crate) clock: StampClock,
    /// Kept as long as the port is captured.
    switched_on: Option<HardwareStamping>,
    /// Why the NIC's setting could not be given back.
    pub(crate) left_on: Option<Cause>,
    pub(crate) fallbacks: Vec<Diagnostic>,
}

impl Stamping {
    /// Prepares to stamp packets of the interface as `wanted`; where nothing is wanted, the XDP program
    /// stamps them if `by_default`. `None` for times of batches.
    pub(crate) fn prepare(
        interface: &Interface,
        wanted: Option<Timestamp>,
        by_default: bool,
    ) -> Result<Option<Self>, Error> {
        let mut stamping = match wanted {
            // Only a user who asked for these times needs to know of leap seconds that the table lacks.
            None if by_default => return Self::kernel(interface).map(Some),
            None | Some(Timestamp::Batch | Timestamp::File) => return Ok(None),
            Some(Timestamp::Kernel) => Self::kernel(interface)?,
            Some(Timestamp::Hardware) => Self::hardware(interface)?,
        };
        let expired = stamping.clock.expired_on();
        stamping.fallbacks.extend(expired.map(|until| Diagnostic::LeapSecondsExpired { until }));
        Ok(Some(stamping))
    }

    fn kernel(interface: &Interface) -> Result<Self, Error> {
        // A fifth cheaper than CLOCK_TAI, and never set.
        let asked = StampSource::Clock(Helper::KtimeGetNs);
        Self::new(interface, Timestamp::Kernel, asked, ClockSource::Monotonic)
    }

    fn new(
        interface: &Interface,
        source: Timestamp,
        asked: StampSource,
        clock: ClockSource,
    ) -> Result<Self, Error> {
        let clock = StampClock::new(clock, Arc::new(LeapSeconds::load()))
            .map_err(|source| Error::Clock { name: interface.name.clone(), source })?;
        Ok(Self { source, asked, clock, switched_on: None, left_on: None, fallbacks: Vec::new() })
    }

    fn hardware(interface: &Interface) -> Result<Self, Error> {
        let number = hardware_clock(interface)?;
        let stamping = Self::by_driver(interface, PtpClock::open(number).map(ClockSource::Ptp))?;
        Ok(Self { switched_on: Some(HardwareStamping::enable(interface)?), ..stamping })
    }

    /// Asks the driver of the interface, whose times are of this clock.
    fn by_driver(interface: &Interface, clock: Result<ClockSource, ClockError>) -> Result<Self, Error> {
        let failed = |source| Error::Program { name: interface.name.clone(), source };
        let function = KernelFunction::find(RX_TIMESTAMP).map_err(failed)?;
        let function = function.ok_or_else(|| refusal(interface, NicDataRefusal::NoCall))?;
        let clock = clock.map_err(|source| Error::Clock { name: interface.name.clone(), source })?;
        let asked = StampSource::Driver { function, ifindex: interface.ifindex };
        Self::new(interface, Timestamp::Hardware, asked, clock)
    }

    /// Whether a program that packs can bring the stamps to UTC: those of the kernel's clock, which is never
    /// set, unless this process sees another one. The NIC's have to be looked at one by one.
    pub(crate) fn is_for_programs(&self) -> bool {
        matches!(self.asked, StampSource::Clock(_)) && !clock::is_in_time_namespace()
    }

    /// Gives the NIC's setting back. A second call does nothing.
    pub(crate) fn end(&mut self) {
        let restored = self.switched_on.as_mut().map_or(Ok(()), HardwareStamping::restore);
        if let Err(error) = restored {
            self.left_on = Some(error.into());
        }
    }

    /// Leaves the NIC's setting to a forked process.
    pub(crate) fn abandon(&mut self) {
        self.switched_on.take().into_iter().for_each(HardwareStamping::abandon);
    }

    pub(crate) fn report(&self) -> TimestampReport {
        let resolution_ns = self.clock.resolution_ns().unwrap_or(1);
        let error_bound_ns = self.clock.error_bound_ns();
        let report = TimestampReport::of_packets(self.source, self.clock.clock(), resolution_ns);
        TimestampReport { error_bound_ns, ..report }
    }
}

impl Timestamp {
    /// Why packets of an interface that is taken over AF_XDP cannot have [`Timestamp::Hardware`]; `None` if
    /// they can.
    ///
    /// ```
    /// use wirecap::{Timestamp, diagnostic::NicDataRefusal};
    ///
    /// assert_eq!(Timestamp::no_hardware("lo")?, Some(NicDataRefusal::SoftwareOnly));
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such interface, or the kernel cannot be asked.
    pub fn no_hardware(name: &str) -> Result<Option<NicDataRefusal>, Error> {
        match hardware_clock(&netdev::interface(name)?) {
            Ok(_) => Ok(None),
            Err(Error::NoHardwareTimestamps { reason, .. }) => Ok(Some(reason)),
            Err(error) => Err(error),
        }
    }
}

/// The number of the clock that the NIC of an interface stamps every packet by, `/dev/ptp…`.
pub(crate) fn hardware_clock(interface: &Interface) -> Result<u32, Error> {
    let abilities = netdev::stamp_abilities(&interface.name)?;
    let metadata = interface.xdp_features.and_then(|features| features.rx_metadata);
    clock_number(metadata, abilities).map_err(|reason| refusal(interface, reason))
}

/// The number of the clock that the NIC stamps every packet by, or why there is none.
fn clock_number(metadata: Option<RxMetadata>, abilities: StampAbilities) -> Result<u32, NicDataRefusal> {
    if !abilities.hardware {
        return Err(match abilities.software {
            true => NicDataRefusal::SoftwareOnly,
            false => NicDataRefusal::NotStamped,
        });
    }
    if metadata.is_some_and(|metadata| !metadata.timestamp) {
        return Err(NicDataRefusal::NoTime);
    }
    if !abilities.all_packets {
        return Err(NicDataRefusal::PtpOnly);
    }
    abilities.clock.ok_or(NicDataRefusal::ClockNotKnown)
}

fn refusal(interface: &Interface, reason: NicDataRefusal) -> Error {
    Error::NoHardwareTimestamps { name: interface.name.clone(), reason }
}

#[cfg(test)]
mod tests;
