//! What can go wrong between an expression and a filter that runs.

use std::{borrow::Cow, io};

use wirecap_sys::{bpf, machine_code, pcap};

/// Failures of compiling, validating and translating filters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// libpcap does not take the expression.
    #[error("filter `{}`: {message}; {hint}", shortened(.expression))]
    Expression {
        /// The expression.
        expression: String,
        /// libpcap's own words.
        message: String,
        /// What usually mends it.
        hint: &'static str,
    },
    /// The expression asks for the direction or the interface of a packet that is read from a file.
    #[error(
        "filter `{}`: `inbound`, `outbound` and `ifindex` are not supported when reading files, which do not record them; leave \
         them out, and choose addresses instead",
        shortened(.0)
    )]
    NotLive(String),
    /// libpcap itself is missing or of no use; also a snapshot length it does not take.
    #[error(transparent)]
    Libpcap(pcap::Error),
    /// An instruction of a classic BPF program is not valid.
    #[error("instruction {index} of the filter is not valid: {reason}")]
    Invalid {
        /// Its index.
        index: usize,
        /// Why.
        reason: InsnError,
    },
    /// The code generator did not manage.
    #[error("no native code for this filter of {insns} instructions ({cause}); use the interpreter")]
    Native {
        /// Length of the filter.
        insns: usize,
        /// Why.
        cause: machine_code::Error,
    },
    /// No memory that could be executed: the kernel's answer.
    #[error(
        "no executable memory for the filter's native code ({0}); use the interpreter, or allow it: \
         MemoryDenyWriteExecute= of systemd and execmem of SELinux forbid it"
    )]
    ExecutableMemory(io::Error),
    /// The filter looks at an offset that eBPF instructions cannot name.
    #[error(
        "instruction {index} of the filter reads {end} bytes into the packet, more than {limit}; run the filter in user space"
    )]
    OffsetTooFar {
        /// Index of the load.
        index: usize,
        /// Where the load ends, in bytes from the start of the packet or from X.
        end: u64,
        /// The greatest end possible.
        limit: u32,
    },
    /// The filter jumps backward, which the kernel's verifier takes only where it sees the end.
    #[error("the filter loops, as `protochain` makes it; run it in user space")]
    Loops,
    /// An expression that packets must not match divides by a part of the packet, which may be zero, and uses
    /// all slots.
    #[error(
        "the filter divides by a part of the packet, and is too complex to be combined with another one; split it up"
    )]
    Divides,
    /// The verifier forbids this process arithmetic on addresses, which headers of variable length and `len`
    /// take: the kernel's error.
    #[error(
        "the filter cannot run in the kernel without CAP_PERFMON: add it (run with sudo, or setcap \
         cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw+ep on the program), or run the filter in user space"
    )]
    KernelPrivilege(bpf::Error),
    /// The filter is too long for eBPF's jumps, or the kernel refused it: the words of either.
    #[error("the filter cannot run in the kernel, run it in user space: {0}")]
    Kernel(bpf::Error),
}

/// Why an instruction is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsnError {
    /// The program as a whole: its length.
    #[error("a program has 1 to {most} instructions, this one {0}", most = crate::MAX_INSNS)]
    Length(usize),
    /// No such operation code.
    #[error("there is no operation {0:#x}")]
    Code(u16),
    /// No such slot.
    #[error("there is no slot {0} in the scratch memory of {slots} slots", slots = crate::MEMORY_SLOTS)]
    Slot(u32),
    /// A constant divisor of zero.
    #[error("it divides by zero")]
    DivisionByZero,
    /// A constant shift that leaves nothing: the distance.
    #[error("it shifts 32 bits by {0}")]
    Shift(u32),
    /// A jump out of the program: where to; negative in front of the first one.
    #[error("it jumps to instruction {0}, which is not there")]
    Jump(i64),
    /// The last instruction is no return.
    #[error("it is the last one and no return")]
    NoReturn,
}

impl Error {
    /// libpcap's refusal of an expression, with a hint.
    pub(crate) fn from_libpcap(expression: &str, cause: pcap::Error) -> Self {
        match cause {
            pcap::Error::Expression(message) => {
                let hint = hint(&message);
                Self::Expression { expression: expression.to_owned(), message, hint }
            }
            other => Self::Libpcap(other),
        }
    }
}

impl From<bpf::Error> for Error {
    fn from(cause: bpf::Error) -> Self {
        match &cause {
            bpf::Error::Rejected { lacks_perfmon: true, .. } => Self::KernelPrivilege(cause),
            _ => Self::Kernel(cause),
        }
    }
}

/// An expression for a message: of a long one the beginning and the end.
pub fn shortened(expression: &str) -> Cow<'_, str> {
    const WHOLE: usize = 200;
    const ENDS: usize = 90;
    let chars = expression.chars().count();
    if chars <= WHOLE {
        return expression.into();
    }
    let nth = |n: usize| expression.char_indices().nth(n).map_or(expression.len(), |(at, _)| at);
    let (head, tail) = (&expression[..nth(ENDS)], &expression[nth(chars - ENDS)..]);
    format!("{head} … ({} more characters) … {tail}", chars - 2 * ENDS).into()
}

/// Hints for refused expressions, by words of libpcap's messages. The first row with a word in the message
/// counts.
const HINTS: [(&[&str], &str); 7] = [
    (
        &["syntax error", "illegal", "parse error"],
        "the language is described in pcap-filter(7); quote the expression, so that the shell leaves it alone",
    ),
    (
        &["rejects all packets"],
        "its parts contradict each other, so no packet can match: look for `and` where `or` is meant",
    ),
    (
        &["not a live capture"],
        "this libpcap compiles it for its own captures only, libpcap 1.10 also for others: write addresses",
    ),
    (
        &["unknown host", "unknown network", "resolve"],
        "check the spelling and the name server, or write the address",
    ),
    (
        &["unknown port", "unknown protocol", "unknown ether proto"],
        "it is not in /etc/services, /etc/protocols or libpcap's own list: write the number",
    ),
    (
        &["not supported on", "not available", "PF "],
        "it is for packets of another kind, such as logs of a firewall or tapped radio: leave it out",
    ),
    (
        &["netmask", "broadcast"],
        "the netmask is not known here: write the broadcast address, as in `dst host 192.0.2.255`",
    ),
];

/// What usually mends a refusal.
///
/// libpcap gives no code for it: `pcap_compile` returns -1 whatever is wrong, and `pcap_geterr` a sentence.
/// So its words choose the hint, and nothing else: other words, of another version, cost the hint and change
/// no behaviour.
fn hint(message: &str) -> &'static str {
    let row = HINTS.iter().find(|(words, _)| words.iter().any(|word| message.contains(word)));
    row.map_or("the language is described in pcap-filter(7)", |(_, hint)| hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/differential/refusals.rs` asks libpcap itself; these are its messages on other systems and in
    /// other versions.
    #[test]
    fn each_message_of_libpcap_has_its_hint() {
        for (message, hinted) in [
            ("parse error", "quote"),
            ("illegal token: ;", "quote"),
            ("expression rejects all packets", "`or` is meant"),
            ("not a live capture, 'inbound' not supported on EN10MB", "libpcap 1.10"),
            ("unknown network 'nonet'", "name server"),
            ("couldn't resolve host", "name server"),
            ("unknown ether proto 'x'", "write the number"),
            ("PF reason not available", "leave it out"),
            ("only ether/fddi/tr broadcast supported here", "broadcast address"),
            ("gateway requires a name", "pcap-filter(7)"),
        ] {
            let cause = pcap::Error::Expression(message.to_owned());
            let text = Error::from_libpcap("ip", cause).to_string();
            assert!(text.contains(message) && text.contains(hinted), "{text}");
        }
    }

    #[test]
    fn a_missing_capability_shows_in_the_kernels_answer() {
        for lacks_perfmon in [false, true] {
            let (name, log) = ("filter".into(), "R2 pointer -= pointer prohibited".into());
            let cause = io::Error::from_raw_os_error(13);
            let error = Error::from(bpf::Error::Rejected { name, cause, log, lacks_perfmon });
            assert_eq!(matches!(error, Error::KernelPrivilege(_)), lacks_perfmon, "{error}");
        }
    }

    #[test]
    fn expressions_of_two_hundred_characters_are_printed_whole() {
        let whole = "ö".repeat(200);
        assert_eq!(shortened(&whole), whole);
        let longer = format!("{whole}ä");
        assert_eq!(
            shortened(&longer),
            format!("{0} … (21 more characters) … {1}ä", "ö".repeat(90), "ö".repeat(89))
        );
    }
}
