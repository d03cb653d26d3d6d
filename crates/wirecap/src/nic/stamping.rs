//! Times of single packets over AF_XDP: the XDP program writes one in front of each packet, and the queue reads it.
//!
//! ```text
//!   XDP program:  clock, or the driver ──► stamp ──► 8 bytes of metadata, right in front of the packet in its cell
//!   queue:        metadata ──► StampClock ──► UTC ──► Descriptor { timestamp_ns }
//! ```
//!
//! Rule: a packet that cannot be stamped is counted and captured all the same. It has a stamp of 0, "none", or whatever was in
//! its cell before. A stamp that cannot be is none: packets come in the order of their stamps but for [`STAMP_TO_RING`], and
//! none comes before it was stamped.

use std::{sync::Arc, time::Duration};

use wirecap_sys::{
    bpf::{self, Assembler, Cond, Helper, KernelFunction, Label, Reg, Size},
    clock::{ClockSource, LeapSeconds, PtpClock, StampClock, system_ns},
    memory::FilledCell,
    netdev::{self, HardwareStamping, Interface, RxMetadata, StampAbilities},
    xsk::Contents,
};

use crate::{
    Diagnostic, Error, Timestamp,
    diagnostic::{Cause, NicDataRefusal},
    port::{Intake, Outlook, Told},
    program::metadata,
    report::TimestampReport,
};

/// Bytes of a stamp in front of the packet.
pub(crate) const STAMP_BYTES: i32 = 8;
/// The driver's answer on the stack.
const ANSWER: i16 = -16;
/// What asks the driver for the NIC's time of a packet (Linux 6.3).
const RX_TIMESTAMP: &str = "bpf_xdp_metadata_rx_timestamp";

/// How long a packet with a stamp may be on its way to its ring: what is left of a round of the softirq.
const STAMP_TO_RING: Duration = Duration::from_millis(10);
/// So far the clock of a NIC may be from the system clock, and still count as showing what that shows.
const NIC_CLOCK_OFF: Duration = Duration::from_millis(100);

/// What the XDP program asks for the time.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// A clock of the kernel.
    Clock(Helper),
    /// The driver of this interface.
    Driver { function: KernelFunction, ifindex: u32 },
}

/// How a port stamps its packets.
#[derive(Debug)]
pub(crate) struct Stamping {
    source: Timestamp,
    asked: Asked,
    clock: StampClock,
    /// Kept as long as the port is captured.
    switched_on: Option<HardwareStamping>,
    /// Why the NIC's setting could not be given back.
    pub(crate) left_on: Option<Cause>,
    pub(crate) fallbacks: Vec<Diagnostic>,
}

impl Stamping {
    /// Finds out whether packets of the interface can be stamped as wanted, and switches it on; where nothing is wanted, by the XDP
    /// program `by_default` or not at all. `None` for times of batches.
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
        let (asked, clock) =
            (Asked::Clock(Helper::KtimeGetNs), stamp_clock(interface, ClockSource::Monotonic)?);
        let (source, fallbacks) = (Timestamp::Kernel, Vec::new());
        Ok(Self { source, asked, clock, switched_on: None, left_on: None, fallbacks })
    }

    fn hardware(interface: &Interface) -> Result<Self, Error> {
        let number = hardware_clock(interface)?;
        let stamping = Self::by_driver(interface, PtpClock::open(number).map(ClockSource::from))?;
        Ok(Self { switched_on: Some(HardwareStamping::enable(interface)?), ..stamping })
    }

    /// Asks the driver of the interface, whose times are of this clock.
    fn by_driver(
        interface: &Interface,
        clock: Result<ClockSource, wirecap_sys::clock::ClockError>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Program { name: interface.name.clone(), source };
        let function = KernelFunction::find(RX_TIMESTAMP).map_err(failed)?;
        let function = function.ok_or_else(|| refusal(interface, NicDataRefusal::NoCall))?;
        let clock = clock.map_err(|source| Error::Clock { name: interface.name.clone(), source })?;
        Ok(Self {
            source: Timestamp::Hardware,
            asked: Asked::Driver { function, ifindex: interface.ifindex },
            clock: stamp_clock(interface, clock)?,
            switched_on: None,
            left_on: None,
            fallbacks: Vec::new(),
        })
    }

    /// Gives the NIC's setting back. A second call does nothing.
    pub(crate) fn end(&mut self) {
        let restored = self.switched_on.as_mut().map_or(Ok(()), HardwareStamping::restore);
        if let Err(error) = restored {
            self.left_on = Some(error.into());
        }
    }

    /// The interface that the program must be bound to, if it must.
    pub(crate) fn bound_to(&self) -> Option<u32> {
        match self.asked {
            Asked::Clock(_) => None,
            Asked::Driver { ifindex, .. } => Some(ifindex),
        }
    }

    pub(crate) fn report(&self) -> TimestampReport {
        let resolution_ns = self.clock.resolution_ns().unwrap_or(1);
        let error_bound_ns = self.clock.error_bound_ns();
        let report = TimestampReport::of_packets(self.source, self.clock.in_words(), resolution_ns);
        TimestampReport { error_bound_ns, ..report }
    }

    /// Asks the driver, if it is asked, before the packet is changed: the answer is at `asked` on the stack. The context is
    /// in R6; R0 to R5 and R9 are lost.
    pub(crate) fn emit_ask(&self, asm: &mut Assembler, asked: i16) {
        if let Asked::Driver { function, .. } = self.asked {
            emit_question(asm, function);
            asm.store(Size::Double, Reg::R10, asked, Reg::R9);
        }
    }

    /// Stamps the packet, or jumps to `unstamped`. The driver was `asked` before, or is asked now. The context is in R6; R0 to
    /// R5 and R9 are lost, and all pointers into the packet.
    pub(crate) fn emit(&self, asm: &mut Assembler, unstamped: Label, asked: Option<i16>) {
        use Reg::{R0, R1, R9};
        metadata::emit_room(asm, STAMP_BYTES, unstamped);
        match self.asked {
            Asked::Clock(helper) => {
                asm.call(helper);
                asm.mov(R9, R0);
            }
            Asked::Driver { function, .. } => match asked {
                Some(asked) => _ = asm.load(Size::Double, R9, Reg::R10, asked),
                None => emit_question(asm, function),
            },
        }
        metadata::emit_place(asm, STAMP_BYTES, unstamped);
        asm.store(Size::Double, R1, 0, R9);
        if let Asked::Driver { .. } = self.asked {
            // The stamp of 0 is written all the same: the cell holds one of another packet.
            asm.jump_if(Cond::Eq, R9, 0, unstamped);
        }
    }
}

/// Reads the stamps of a queue's packets.
#[derive(Debug)]
pub(crate) struct StampReader {
    /// `None` where packets have the time of their batch.
    stamps: Option<Stamps>,
    /// The packet taken last goes on in the next cell.
    in_packet: bool,
}

/// What is known of stamps that were read.
#[derive(Debug)]
struct Stamps {
    clock: StampClock,
    /// A stamp may be so much older than the moment in which its packet is in the ring.
    lateness_ns: u64,
    /// The latest time that was told, or the start. It goes back when the system clock is set back.
    last_ns: u64,
    /// Packets without a stamp that can be.
    unknown: u64,
}

impl StampReader {
    pub(crate) fn new(stamping: Option<&Stamping>) -> Self {
        Self { stamps: stamping.map(|stamping| Stamps::new(stamping, system_ns())), in_packet: false }
    }

    /// By which stamps are brought to UTC.
    pub(crate) fn clock(&self) -> Option<&StampClock> {
        self.stamps.as_ref().map(|stamps| &stamps.clock)
    }

    /// Packets that were to have a stamp, and had none that can be.
    pub(crate) fn unknown(&self) -> u64 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.unknown)
    }

    /// What is certain of the times of packets when none waits.
    pub(crate) fn outlook(&self, now_ns: u64) -> Outlook {
        match &self.stamps {
            Some(stamps) => Outlook::After(now_ns.saturating_sub(stamps.lateness_ns)),
            None => Outlook::OnReceipt,
        }
    }

    /// Puts cells into `intake`, with the times of their packets.
    #[inline]
    pub(crate) fn take(
        &mut self,
        cells: impl Iterator<Item = FilledCell>,
        contents: Contents<'_>,
        intake: &mut Intake<'_>,
    ) {
        let Some(stamps) = &mut self.stamps else {
            return intake.take(cells);
        };
        let (now_ns, in_packet) = (intake.now_ns(), &mut self.in_packet);
        stamps.look(now_ns);
        intake.take_stamped(cells.map(|cell| {
            let told = if *in_packet {
                Told::Continued
            } else {
                stamps.tell(contents.metadata(&cell).unwrap_or(0), now_ns, system_ns)
            };
            *in_packet = cell.more();
            (cell, told)
        }));
    }
}

impl Stamps {
    /// No packet is stamped before `now_ns`.
    fn new(stamping: &Stamping, now_ns: u64) -> Self {
        let lateness = match stamping.source {
            Timestamp::Hardware => STAMP_TO_RING + NIC_CLOCK_OFF,
            _ => STAMP_TO_RING,
        };
        let (clock, lateness_ns) = (stamping.clock.clone(), lateness.as_nanos() as u64);
        Self { clock, lateness_ns, last_ns: now_ns, unknown: 0 }
    }

    /// Before the stamps of a batch are read, at its time.
    #[inline]
    fn look(&mut self, now_ns: u64) {
        self.clock.look(now_ns);
        self.last_ns = self.last_ns.min(now_ns);
    }

    /// What a stamp tells of a packet that is taken in a batch of `now_ns`, or a little later: `later_ns` says when.
    #[inline]
    fn tell(&mut self, stamp: u64, now_ns: u64, later_ns: impl Fn() -> u64) -> Told {
        let told_ns = match self.clock.utc_ns(stamp, now_ns) {
            // It may have come while the thread stood still, after it had read the time of the batch.
            None if stamp != 0 => self.clock.utc_ns(stamp, later_ns()),
            told_ns => told_ns,
        };
        match told_ns {
            Some(told_ns) if told_ns >= self.last_ns.saturating_sub(self.lateness_ns) => {
                self.last_ns = self.last_ns.max(told_ns);
                Told::At(told_ns)
            }
            _ => {
                self.unknown += 1;
                Told::Unknown
            }
        }
    }
}

/// Asks the driver for the time of the packet: in R9, 0 if it has none.
fn emit_question(asm: &mut Assembler, function: KernelFunction) {
    use Reg::{R0, R1, R2, R6, R9, R10};
    let has_answered = asm.label();
    asm.store_imm(Size::Double, R10, ANSWER, 0);
    asm.mov(R1, R6).mov(R2, R10).alu64(bpf::Alu::Add, R2, i32::from(ANSWER));
    asm.call_kernel(function);
    asm.load(Size::Double, R9, R10, ANSWER);
    asm.jump_if32(Cond::Eq, R0, 0, has_answered);
    asm.mov_imm(R9, 0);
    asm.bind(has_answered);
}

fn stamp_clock(interface: &Interface, source: ClockSource) -> Result<StampClock, Error> {
    StampClock::new(source, Arc::new(LeapSeconds::load()))
        .map_err(|source| Error::Clock { name: interface.name.clone(), source })
}

impl Timestamp {
    /// Why packets of an interface that is taken over AF_XDP cannot have [`Timestamp::Hardware`]; `None` if they
    /// can.
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
#[path = "stamping_tests.rs"]
mod tests;
