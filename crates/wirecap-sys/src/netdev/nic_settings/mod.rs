//! The settings of a NIC that ethtool(8) shows, read and set as a whole.
//!
//! ```text
//!   rings          ethtool -g, -G     descriptors of each queue
//!   channels       ethtool -l, -L     queues
//!   coalescing     ethtool -c, -C     when the NIC interrupts
//!   pause          ethtool -a, -A     flow control
//!   offloads       ethtool -k, -K     one by one, by name         offloads.rs
//!   indirection    ethtool -x, -X     hash ──► receive queue      indirection.rs
//! ```
//!
//! Rule: what is read can be written back unchanged. So each type has every field of the kernel's structure.

mod indirection;
mod offloads;

use std::io;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::ethtool::{Ethtool, Request};
pub use offloads::Offload;

// linux/ethtool.h; not in libc.
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRINGPARAM: u32 = 0x11;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_SPAUSEPARAM: u32 = 0x13;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// Declares a setting: the fields of the kernel's structure behind the command, in its order.
macro_rules! setting {
    (
        $(#[$doc:meta])*
        $Name:ident, $Request:ident, $words:literal { $($(#[$field_doc:meta])* $field:ident,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $Name {
            $($(#[$field_doc])* pub $field: u32,)*
        }

        #[repr(C)]
        struct $Request {
            command: u32,
            $($field: u32,)*
        }
        const _: () = assert!(size_of::<$Request>() == 4 * $words);
        // SAFETY: as the trait demands; the kernel copies as many bytes as its structure has, which is
        // checked above.
        unsafe impl Request for $Request {}

        impl From<$Request> for $Name {
            fn from(request: $Request) -> Self {
                Self { $($field: request.$field,)* }
            }
        }

        impl $Name {
            fn request(&self, command: u32) -> $Request {
                $Request { command, $($field: self.$field,)* }
            }
        }
    };
}

setting! {
    /// Descriptors of each queue, and how many there can be (`struct ethtool_ringparam`).
    RingSizes, RingRequest, 9 {
        /// Most for packets that come in.
        rx_max,
        /// Most of the ring for short packets.
        rx_mini_max,
        /// Most of the ring for long packets.
        rx_jumbo_max,
        /// Most for packets that leave.
        tx_max,
        /// For packets that come in.
        rx,
        /// Of the ring for short packets.
        rx_mini,
        /// Of the ring for long packets.
        rx_jumbo,
        /// For packets that leave.
        tx,
    }
}

setting! {
    /// Numbers of queues (`struct ethtool_channels`).
    ChannelCounts, ChannelRequest, 9 {
        /// Most queues that only receive.
        max_rx,
        /// Most queues that only send.
        max_tx,
        /// Most other interrupts.
        max_other,
        /// Most queues that do both.
        max_combined,
        /// Queues that only receive.
        rx,
        /// Queues that only send.
        tx,
        /// Other interrupts.
        other,
        /// Queues that do both.
        combined,
    }
}

setting! {
    /// When the NIC interrupts (`struct ethtool_coalesce`).
    Coalescing, CoalesceRequest, 23 {
        /// Longest delay of the interrupt after a packet came in, in microseconds.
        rx_usecs,
        /// Packets that come in before the interrupt.
        rx_frames,
        /// `rx_usecs` while an interrupt is being served.
        rx_usecs_irq,
        /// `rx_frames` while an interrupt is being served.
        rx_frames_irq,
        /// Longest delay of the interrupt after a packet was sent, in microseconds.
        tx_usecs,
        /// Packets that are sent before the interrupt.
        tx_frames,
        /// `tx_usecs` while an interrupt is being served.
        tx_usecs_irq,
        /// `tx_frames` while an interrupt is being served.
        tx_frames_irq,
        /// Interval of the NIC's statistics, in microseconds.
        stats_block_usecs,
        /// Whether the driver chooses `rx_usecs` itself.
        adaptive_rx,
        /// Whether the driver chooses `tx_usecs` itself.
        adaptive_tx,
        /// Below this rate the values `_low` apply, in packets per second.
        pkt_rate_low,
        /// See `pkt_rate_low`.
        rx_usecs_low,
        /// See `pkt_rate_low`.
        rx_frames_low,
        /// See `pkt_rate_low`.
        tx_usecs_low,
        /// See `pkt_rate_low`.
        tx_frames_low,
        /// Above this rate the values `_high` apply, in packets per second.
        pkt_rate_high,
        /// See `pkt_rate_high`.
        rx_usecs_high,
        /// See `pkt_rate_high`.
        rx_frames_high,
        /// See `pkt_rate_high`.
        tx_usecs_high,
        /// See `pkt_rate_high`.
        tx_frames_high,
        /// How often the rate is measured, in seconds.
        rate_sample_interval,
    }
}

setting! {
    /// Flow control (`struct ethtool_pauseparam`), each 0 or 1.
    PauseFrames, PauseRequest, 4 {
        /// Negotiated with the other end.
        autoneg,
        /// Stops sending when the other end asks for it.
        rx,
        /// Asks the other end to stop sending.
        tx,
    }
}

/// Reads and sets what ethtool(8) does, of interfaces of the network namespace it was opened in.
///
/// Each `set` needs CAP_NET_ADMIN. A driver without a setting answers `EOPNOTSUPP`.
#[derive(Debug)]
pub struct NicSettings {
    ethtool: Ethtool,
}

impl NicSettings {
    /// Opens its socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be opened.
    pub fn open() -> Result<Self> {
        Ok(Self { ethtool: Ethtool::open()? })
    }

    /// The rings.
    ///
    /// # Errors
    /// [`Error::System`] if the driver does not say.
    pub fn rings(&self, interface: &str) -> Result<RingSizes> {
        self.get(interface, "rings", RingRequest::new(ETHTOOL_GRINGPARAM)).map(RingSizes::from)
    }

    /// Sets the rings. Most drivers restart the interface for it.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the driver refuses.
    pub fn set_rings(&self, interface: &str, rings: &RingSizes) -> Result<()> {
        self.set(interface, "rings", rings.request(ETHTOOL_SRINGPARAM))
    }

    /// The numbers of queues.
    ///
    /// # Errors
    /// [`Error::System`] if the driver does not say.
    pub fn channels(&self, interface: &str) -> Result<ChannelCounts> {
        self.get(interface, "numbers of queues", ChannelRequest::new(ETHTOOL_GCHANNELS))
            .map(ChannelCounts::from)
    }

    /// Sets the numbers of queues. Most drivers restart the interface for it.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the driver refuses.
    pub fn set_channels(&self, interface: &str, channels: &ChannelCounts) -> Result<()> {
        self.set(interface, "numbers of queues", channels.request(ETHTOOL_SCHANNELS))
    }

    /// When it interrupts.
    ///
    /// # Errors
    /// [`Error::System`] if the driver does not say.
    pub fn coalescing(&self, interface: &str) -> Result<Coalescing> {
        self.get(interface, "interrupt coalescing", CoalesceRequest::new(ETHTOOL_GCOALESCE))
            .map(Coalescing::from)
    }

    /// Sets when it interrupts.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the driver refuses.
    pub fn set_coalescing(&self, interface: &str, coalescing: &Coalescing) -> Result<()> {
        self.set(interface, "interrupt coalescing", coalescing.request(ETHTOOL_SCOALESCE))
    }

    /// Flow control.
    ///
    /// # Errors
    /// [`Error::System`] if the driver does not say.
    pub fn pause(&self, interface: &str) -> Result<PauseFrames> {
        self.get(interface, "flow control", PauseRequest::new(ETHTOOL_GPAUSEPARAM)).map(PauseFrames::from)
    }

    /// Sets flow control. The link is negotiated again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the driver refuses.
    pub fn set_pause(&self, interface: &str, pause: &PauseFrames) -> Result<()> {
        self.set(interface, "flow control", pause.request(ETHTOOL_SPAUSEPARAM))
    }

    fn get<R: Request>(&self, interface: &str, what: &str, mut request: R) -> Result<R> {
        self.ethtool.request(interface, &mut request).map_err(|source| reading(interface, what, source))?;
        Ok(request)
    }

    fn set<R: Request>(&self, interface: &str, what: &str, mut request: R) -> Result<()> {
        self.ethtool.request(interface, &mut request).map_err(|source| setting(interface, what, source))
    }
}

fn reading(interface: &str, what: &str, source: io::Error) -> Error {
    Error::refused(format!("reading the {what} of {interface}"), "CAP_NET_ADMIN", source)
}

fn setting(interface: &str, what: &str, source: io::Error) -> Error {
    Error::refused(format!("setting the {what} of {interface}"), "CAP_NET_ADMIN", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_written_as_it_was_read() {
        let read = RingRequest {
            rx_max: 4096,
            tx_max: 2048,
            rx: 512,
            tx: 256,
            ..RingRequest::new(ETHTOOL_GRINGPARAM)
        };
        let rings = RingSizes::from(read);
        let written = rings.request(ETHTOOL_SRINGPARAM);
        assert_eq!((written.command, written.rx_max, written.tx_max), (0x11, 4096, 2048));
        assert_eq!((written.rx, written.tx, written.rx_mini), (512, 256, 0));
    }

    #[test]
    fn what_a_driver_does_not_have_is_an_error_with_its_number() {
        let settings = NicSettings::open().unwrap();
        for error in [settings.rings("lo").unwrap_err(), settings.coalescing("lo").unwrap_err()] {
            assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
        }
        assert_eq!(settings.pause("none0").unwrap_err().errno(), Some(libc::ENODEV));
    }
}
