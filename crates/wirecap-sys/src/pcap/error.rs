//! What can go wrong between us and libpcap.

/// Failures of loading libpcap and of its compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No libpcap on this machine, or one that cannot be loaded: what the dynamic loader said for each
    /// name tried.
    #[error(
        "cannot load libpcap, which compiles filters ({0}); install it with `apt install libpcap0.8t64` (Debian 13, \
         Ubuntu 24.04), `apt install libpcap0.8` (before) or `dnf install libpcap`"
    )]
    Missing(String),
    /// A libpcap without a function that every version since 0.8 has: the name of the function.
    #[error("the libpcap that was found has no function {0}; install the distribution's own libpcap")]
    NoSymbol(&'static str),
    /// The snapshot length is not one that libpcap takes, in bytes.
    #[error("snapshot length {0} is not possible: use 1 to 2147483647 bytes")]
    SnapshotLength(u32),
    /// There was no memory for a handle: the link type asked for.
    #[error("libpcap has no memory for a handle of link type {0}; free some")]
    NoHandle(i32),
    /// The compiler refused the expression: libpcap's own words.
    #[error("{0}")]
    Expression(String),
}
