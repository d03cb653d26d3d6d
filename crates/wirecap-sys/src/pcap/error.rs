//! What can go wrong between us and libpcap.

/// Failures of loading libpcap and of its compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No libpcap on this machine, or one that cannot be loaded.
    #[error(
        "cannot load libpcap, which compiles filters ({reason}); install it with `apt install libpcap0.8t64` (Debian 13, \
         Ubuntu 24.04), `apt install libpcap0.8` (before) or `dnf install libpcap`"
    )]
    Missing {
        /// What the dynamic loader said for each name tried.
        reason: String,
    },
    /// A libpcap without a function that every version since 0.8 has.
    #[error("the libpcap that was found has no function {symbol}; install the distribution's own libpcap")]
    NoSymbol {
        /// Name of the function.
        symbol: &'static str,
    },
    /// The snapshot length is not one libpcap takes.
    #[error("snapshot length {snaplen} is not possible: use 1 to 2147483647 bytes")]
    SnapshotLength {
        /// The length as given, in bytes.
        snaplen: u32,
    },
    /// There was no memory for a handle.
    #[error("libpcap has no memory for a handle of link type {link_type}; free some")]
    NoHandle {
        /// The link type asked for.
        link_type: i32,
    },
    /// The compiler refused the expression.
    #[error("{message}")]
    Expression {
        /// libpcap's own words.
        message: String,
    },
}
