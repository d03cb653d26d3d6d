//! What can go wrong when an interface is queried.

use std::io;

use netlink_packet_core::DecodeError;

use crate::interface_name::{MAX_ALTERNATIVE_BYTES, MAX_NAME_BYTES};

/// Result of the functions of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an interface could not be described, watched or put into promiscuous mode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name has more bytes than the kernel gives an interface name.
    #[error(
        "interface name {0:?} is {length} bytes long, Linux allows {max}, and {most} for an alternative name",
        length = .0.len(),
        max = MAX_NAME_BYTES,
        most = MAX_ALTERNATIVE_BYTES
    )]
    NameTooLong(String),

    /// The name has a form that no interface can have.
    #[error("{name:?} cannot be the name of an interface ({problem})")]
    NameInvalid {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// No interface of this network namespace has the name.
    #[error(
        "no interface named {name:?} in this network namespace{question}",
        question = did_you_mean(nearest)
    )]
    NoSuchInterface {
        /// The name as given.
        name: String,
        /// Existing names that look like it, the nearest first; empty if none does.
        nearest: Vec<String>,
    },

    /// No interface of this network namespace has this index: it was deleted or moved to another namespace.
    #[error("no interface with index {0} in this network namespace: it was deleted or moved away")]
    NoSuchIndex(u32),

    /// The process lacks a capability.
    #[error("{action} is not permitted: it needs {capability}")]
    NotPermitted {
        /// What was attempted, and on what.
        action: String,
        /// The capability that is missing, as capabilities(7) names it.
        capability: &'static str,
    },

    /// The kernel refused a system call or a request.
    #[error("{action}: {source}{hint}", hint = hint(source))]
    System {
        /// What was attempted, and on what.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },

    /// A message from the kernel has a shape that this program does not understand.
    #[error(
        "{action}: the kernel's answer could not be understood ({source}); \
         please report this with the output of `uname -r`"
    )]
    Malformed {
        /// What was attempted, and on what.
        action: String,
        /// Where the decoding stopped.
        source: DecodeError,
    },
}

impl Error {
    /// The kernel's answer `source` to what `action` says.
    pub(super) fn system(action: impl Into<String>, source: io::Error) -> Self {
        Error::System { action: action.into(), source }
    }

    /// The kernel's refusal to do `action`, which takes `capability`.
    pub(super) fn refused(action: impl Into<String>, capability: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted { action: action.into(), capability },
            _ => Error::system(action, source),
        }
    }

    /// The kernel's error number, if the kernel refused.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// What the user can do about `source`, ready to be appended; empty where there is no general advice.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of open files (`ulimit -n`)",
        Some(libc::ENFILE) => "; the whole machine is out of open files (sysctl fs.file-max)",
        Some(libc::ENOMEM | libc::ENOBUFS) => "; the kernel is short of memory, try again",
        Some(libc::EPERM | libc::EACCES) => {
            "; a container or seccomp profile may forbid it, run outside of it"
        }
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "; this kernel or sandbox lacks the socket type, it needs AF_NETLINK, AF_INET and AF_PACKET"
        }
        Some(libc::EINTR) => "; interrupted by a signal, try again",
        _ => "",
    }
}

/// The suggestion as the end of a sentence; nothing without one.
fn did_you_mean(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_read_as_a_sentence() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(did_you_mean(&[]), "");
        assert_eq!(did_you_mean(&names(&["a"])), "; did you mean \"a\"?");
        assert_eq!(did_you_mean(&names(&["a", "b", "c"])), "; did you mean \"a\", \"b\" or \"c\"?");
    }
}
