//! What a reader remembers of each interface until the end of the file.
//!
//! ```text
//!   interface block ──► Interface: the whole description; the caller owns it
//!                  └──► KnownInterface: what decoding its packets needs, and the start of its name
//! ```
//!
//! Rule: the size of a `KnownInterface` is bounded, whatever its block holds. Together with
//! [`MAX_INTERFACES`](crate::MAX_INTERFACES) this bounds the memory of a reader.

use super::record::Interface;
use super::time::Resolution;

/// How much of an interface's name a reader remembers, in bytes.
pub const MAX_NAME_LEN: usize = 255;

/// What a reader remembers of an interface.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, Reader, pcap};
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 96);
/// let reader = Reader::new(file.as_slice())?;
/// let interface = &reader.interfaces()[0];
/// assert_eq!((interface.link_type, interface.snaplen, interface.name()), (1, 96, None));
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInterface {
    /// Its number in the file, see [`Interface::id`].
    pub id: u32,
    /// What its packets start with, from the list of link types.
    pub link_type: u16,
    /// Snapshot length in bytes; 0 says that nothing is cut.
    pub snaplen: u32,
    /// The unit of its timestamps in the file.
    pub resolution: Resolution,
    /// What its timestamps in the file are counted from, in seconds since the Unix epoch.
    pub offset_s: i64,
    /// INVARIANT: at most [`MAX_NAME_LEN`] bytes, in an allocation of that length.
    name: Option<Box<str>>,
}

impl KnownInterface {
    /// The system's name of it, if the file has one: its first [`MAX_NAME_LEN`] bytes.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl From<&Interface> for KnownInterface {
    fn from(interface: &Interface) -> Self {
        let Interface { id, link_type, snaplen, resolution, offset_s, .. } = *interface;
        let name = interface.name.as_deref().map(|name| beginning(name).into());
        Self { id, link_type, snaplen, resolution, offset_s, name }
    }
}

/// The first [`MAX_NAME_LEN`] bytes of a name, or a little less where that would cut a character.
fn beginning(name: &str) -> &str {
    let end = (0..=name.len().min(MAX_NAME_LEN)).rfind(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        for (name, len) in
            [("eth0".to_owned(), 4), ("x".repeat(256), 255), ("é".repeat(200), 254), (String::new(), 0)]
        {
            let interface = Interface { name: Some(name.clone()), ..Interface::default() };
            let known = KnownInterface::from(&interface);
            assert_eq!(known.name(), Some(&name[..len]));
        }
        assert_eq!(KnownInterface::from(&Interface::default()).name(), None);
    }
}
