//! The name that an interface has now, and how long names may be.

use nix::net::if_::if_indextoname;

/// Longest interface name in bytes: IFNAMSIZ less the terminating zero.
pub(crate) const MAX_NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// Longest alternative name in bytes: ALTIFNAMSIZ less the terminating zero.
pub(crate) const MAX_ALTERNATIVE_BYTES: usize = 127;

/// Name of an interface of the current network namespace; `None` if there is no interface with this index.
pub(crate) fn interface_name(ifindex: u32) -> Option<String> {
    // nix takes the C function's null for a name without a byte.
    let name = if_indextoname(ifindex).ok().filter(|name| !name.is_empty());
    name.map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names() {
        assert_eq!(interface_name(1).as_deref(), Some("lo"));
        assert_eq!(interface_name(999_999), None);
    }
}
