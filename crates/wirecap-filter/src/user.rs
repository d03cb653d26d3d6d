//! A filter where packets are in user space: as fast as this machine and its policies allow.
//!
//! ```text
//!   Filter ──► NativeFilter, or Program with the reason why there is no native code ──wants(packet, length)──► bool
//!   a filter that asks a socket which way a packet goes: one of them for each type of packet
//! ```

use wirecap_sys::machine_code::Origin;

use crate::compile::Filter;
use crate::error::Error;
use crate::native::NativeFilter;
use crate::program::Program;

/// Types of packets that a socket distinguishes, up to `PACKET_OUTGOING` of <linux/if_packet.h>.
const PACKET_TYPES: u32 = 5;

/// A filter in user space.
///
/// # Example
///
/// ```
/// use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET, UserFilter};
///
/// let arp = UserFilter::new(&Filter::compile("arp", LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN)?);
/// if let Some(reason) = arp.interpreted() {
///     eprintln!("{reason}");
/// }
/// assert!(!arp.wants(&[0; 60], 60));
/// # Ok::<(), wirecap_filter::Error>(())
/// ```
#[derive(Debug)]
pub struct UserFilter {
    /// INVARIANT: not empty. One for all packets, or one for each of [`PACKET_TYPES`].
    runners: Vec<Runner>,
    interpreted: Option<Error>,
}

#[derive(Debug)]
enum Runner {
    Native(NativeFilter),
    Interpreter(Program),
}

impl UserFilter {
    /// For packets whose origin does not matter, or to which the filter is bound already.
    pub fn new(filter: &Filter) -> Self {
        Self::of_programs([filter.program().clone()])
    }

    /// For packets that a socket has seen on an interface, of which it reports the type.
    pub fn for_socket(filter: &Filter, ifindex: u32) -> Self {
        let types = if filter.program().asks(Origin::PacketType) { PACKET_TYPES } else { 1 };
        Self::of_programs((0..types).map(|packet_type| filter.program().bound_to(packet_type, ifindex)))
    }

    fn of_programs(programs: impl IntoIterator<Item = Program>) -> Self {
        let mut interpreted = None;
        let runner = |program| match NativeFilter::new(&program) {
            Ok(native) => Runner::Native(native),
            Err(error) => {
                interpreted = Some(error);
                Runner::Interpreter(program)
            }
        };
        let runners = programs.into_iter().map(runner).collect();
        Self { runners, interpreted }
    }

    /// Why it is interpreted; `None` if it is native code.
    pub fn interpreted(&self) -> Option<&Error> {
        self.interpreted.as_ref()
    }

    /// Whether a packet matches of which `packet` was captured and which was `wire_len` bytes long.
    #[inline]
    pub fn wants(&self, packet: &[u8], wire_len: u32) -> bool {
        self.wants_of_type(0, packet, wire_len)
    }

    /// The same for a packet of the type that a socket reports (`PACKET_…` of <linux/if_packet.h>).
    #[inline]
    pub fn wants_of_type(&self, packet_type: u8, packet: &[u8], wire_len: u32) -> bool {
        match &self.runners[usize::from(packet_type).min(self.runners.len() - 1)] {
            Runner::Native(native) => native.matches(packet, wire_len) != 0,
            Runner::Interpreter(program) => program.run(packet, wire_len) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_SNAPLEN, LINK_TYPE_ETHERNET};

    fn filter(expression: &str) -> Filter {
        Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap()
    }

    #[test]
    fn the_interpreter_runs_where_there_is_no_native_code() {
        let native = UserFilter::new(&filter("arp"));
        let runners = vec![Runner::Interpreter(filter("arp").program().clone())];
        let interpreted = Some(Error::Loops);
        let interpreter = UserFilter { runners, interpreted };
        assert_eq!(native.interpreted().is_none(), cfg!(target_arch = "x86_64"));
        assert!(matches!(interpreter.interpreted(), Some(Error::Loops)));
        let mut frame = [0; 60];
        assert!(!native.wants(&frame, 60) && !interpreter.wants(&frame, 60));
        frame[12..14].copy_from_slice(&[8, 6]);
        assert!(native.wants(&frame, 60) && interpreter.wants(&frame, 60));
    }

    #[test]
    fn a_socket_reports_the_direction_of_a_packet() {
        const OTHERHOST: u8 = 3;
        const OUTGOING: u8 = 4;
        for (expression, for_others, sent) in [
            ("inbound", true, false),
            ("outbound and ifindex 5", false, true),
            ("ifindex 5", true, true),
            ("ifindex 6", false, false),
            ("not inbound", false, true),
        ] {
            let user = UserFilter::for_socket(&filter(expression), 5);
            assert_eq!(user.wants_of_type(OTHERHOST, &[0; 60], 60), for_others, "{expression}");
            assert_eq!(user.wants_of_type(OUTGOING, &[0; 60], 60), sent, "{expression}");
            assert_eq!(user.wants_of_type(u8::MAX, &[0; 60], 60), sent, "{expression}: as the last type");
        }
    }
}
