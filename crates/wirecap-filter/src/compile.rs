//! From the text of a filter to a program, by the real libpcap.
//!
//! ```text
//!   expression, link type, snaplen ──pcap_open_dead, pcap_compile──► instructions ──Program::new──► Filter
//! ```
//!
//! Rule: the grammar is libpcap's and its errors are quoted in its own words.

use std::ffi::CString;
use std::{io, thread};

use wirecap_sys::machine_code::Origin;
use wirecap_sys::pcap;

use crate::error::Error;
use crate::program::Program;

/// Link type of Ethernet: `DLT_EN10MB`, and `LINKTYPE_ETHERNET` of capture files.
pub const LINK_TYPE_ETHERNET: u16 = 1;

/// The snapshot length tcpdump uses when none is given, in bytes: longer than any packet.
pub const DEFAULT_SNAPLEN: u32 = 262_144;

/// Expressions up to this length are compiled on the caller's stack, in bytes.
const SHORT_BYTES: usize = 4_096;
/// Stack for a longer one, in bytes, and more for each of its bytes: several times the 10 to 15 that libpcap
/// 1.10 was seen to use. It is address space, not memory, until it is used.
const STACK_BYTES: usize = 1_048_576;
const STACK_BYTES_PER_BYTE: usize = 64;

/// A filter: what was asked for, and the program libpcap made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    expression: String,
    link_type: u16,
    program: Program,
}

/// What libpcap's compiler calls a link type of capture files: its numbers are those of the system where the
/// type has different ones (`pcap-common.c`).
fn data_link_type(link_type: u16) -> u16 {
    const NUMBERS: [(u16, u16); 5] = [
        (100, 11), // ATM_RFC1483
        (101, 12), // RAW
        (102, 15), // SLIP_BSDOS
        (103, 16), // PPP_BSDOS
        (106, 19), // ATM_CLIP
    ];
    let number = NUMBERS.iter().find(|(of_files, _)| *of_files == link_type);
    number.map_or(link_type, |(_, of_libpcap)| *of_libpcap)
}

impl Filter {
    /// Compiles an expression of pcap-filter(7) for packets of a link type. An empty one lets everything
    /// through.
    ///
    /// A packet that matches yields `snaplen`, the number of its bytes that are wanted; take
    /// [`DEFAULT_SNAPLEN`] for all of them. One expression at a time is compiled in a process. A millisecond
    /// or less, but libpcap takes time that grows with the cube of a list's length (4 s for 800 addresses;
    /// write networks), and names of hosts are looked up in the network.
    ///
    /// `link_type` is the number in capture files, or libpcap's `DLT_` value where that is another one: raw
    /// IP is 101 in files and 12 in libpcap.
    ///
    /// # Errors
    /// [`Error::Expression`], [`Error::Libpcap`] on a machine without libpcap.
    pub fn compile(expression: &str, link_type: u16, snaplen: u32) -> Result<Self, Error> {
        let text = CString::new(expression).map_err(|nul| Error::Expression {
            expression: expression.to_owned(),
            message: format!("byte {} is a zero byte", nul.nul_position()),
            hint: "an expression is text: take it out",
        })?;
        let libpcap = pcap::library().map_err(Error::Libpcap)?;
        let compile = || libpcap.compile(&text, data_link_type(link_type).into(), snaplen);
        let insns = with_stack(text.as_bytes().len(), compile)
            .map_err(|cause| Error::Expression {
                expression: expression.to_owned(),
                message: format!("no thread with the stack it takes to compile it: {cause}"),
                hint: "raise ulimit -v and -u, or write networks instead of lists of addresses",
            })?
            .map_err(|cause| Error::from_libpcap(expression, cause))?;
        let program = Program::new(insns)?;
        Ok(Self { expression: expression.to_owned(), link_type, program })
    }

    /// The filter of the packets that match `wanted` and do not match `excluded`; `None`: all match. Each is
    /// an expression of its own: `vlan` in one does not move the offsets of the other, and a packet that is
    /// too short for what `excluded` looks at does not match that. For packets that were not cut, see
    /// [`Program::except`].
    ///
    /// ```
    /// use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET};
    ///
    /// let far = "ether[100] = 7";
    /// let filter = Filter::compile_except(None, far, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN)?;
    /// assert!(filter.matches(&[7; 60], 60) && !filter.matches(&[7; 101], 101));
    /// // libpcap itself rejects what is too short for an expression, whatever it says.
    /// let not = Filter::compile(&format!("not ({far})"), LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN)?;
    /// assert!(!not.matches(&[7; 60], 60));
    /// # Ok::<(), wirecap_filter::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Filter::compile`], and [`Error::Divides`].
    pub fn compile_except(
        wanted: Option<&str>,
        excluded: &str,
        link_type: u16,
        snaplen: u32,
    ) -> Result<Self, Error> {
        let of_wanted = Self::compile(wanted.unwrap_or_default(), link_type, snaplen)?;
        let excluding = Self::compile(excluded, link_type, snaplen)?;
        let program = of_wanted.program.except(&excluding.program, snaplen)?;
        let expression = match wanted {
            Some(wanted) => format!("({wanted}) and not ({excluded})"),
            None => format!("not ({excluded})"),
        };
        Ok(Self { expression, link_type, program })
    }

    /// Whether it asks for a packet's direction or interface: `inbound`, `outbound`, `ifindex`. Until
    /// [`bound_to`](Self::bound_to) answers, it matches no packet for which that matters.
    pub fn asks_for_origin(&self) -> bool {
        self.program.asks(Origin::PacketType) || self.program.asks(Origin::Interface)
    }

    /// The filter for packets of one type and one interface; see [`Program::bound_to`].
    #[must_use]
    pub fn bound_to(&self, packet_type: u32, ifindex: u32) -> Self {
        Self { program: self.program.bound_to(packet_type, ifindex), ..self.clone() }
    }

    /// The text it was made from; of [`Filter::compile_except`] one that describes it, from which libpcap
    /// would make another filter.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The link type it was made for; for other packets it means nothing.
    pub fn link_type(&self) -> u16 {
        self.link_type
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether a packet matches, by the interpreter; see [`Program::run`].
    pub fn matches(&self, packet: &[u8], wirelen: u32) -> bool {
        self.program.run(packet, wirelen) != 0
    }
}

/// Calls libpcap's compiler where there is stack enough for an expression of `len` bytes: it calls itself for
/// each term, and a long list of addresses would otherwise end the process.
fn with_stack<T: Send>(len: usize, compile: impl FnOnce() -> T + Send) -> io::Result<T> {
    if len <= SHORT_BYTES {
        return Ok(compile());
    }
    thread::scope(|scope| {
        let compiler = thread::Builder::new().stack_size(stack_bytes(len)).spawn_scoped(scope, compile)?;
        Ok(compiler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Stack for an expression of `len` bytes.
fn stack_bytes(len: usize) -> usize {
    STACK_BYTES + STACK_BYTES_PER_BYTE * len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_ip_has_two_numbers() {
        let [of_libpcap, of_files] = [12, 101].map(|number| Filter::compile("udp", number, 64).unwrap());
        let udp = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17][..], &[0; 18]].concat();
        let tcp = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 6][..], &[0; 18]].concat();
        for filter in [of_libpcap, of_files] {
            assert!(filter.matches(&udp, 28) && !filter.matches(&tcp, 28));
        }
    }

    #[test]
    fn only_directions_and_interfaces_need_a_socket() {
        for (expression, asks) in
            [("inbound", true), ("outbound", true), ("ifindex 7", true), ("tcp port 80", false), ("", false)]
        {
            let filter = Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
            assert_eq!(filter.asks_for_origin(), asks, "{expression}");
            assert!(!filter.bound_to(0, 7).asks_for_origin(), "{expression}");
        }
    }

    #[test]
    fn a_long_expression_gets_stack_for_each_byte() {
        assert_eq!(stack_bytes(10_000), 1_688_576);
    }
}
