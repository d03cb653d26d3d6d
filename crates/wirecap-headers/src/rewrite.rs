//! All changes of a packet's headers on its way from one side to the other.

use crate::{Frame, Layout, MacAddress, RewriteError, Side, SourceMac, Ttl, VlanMap};

/// How the headers of a packet are changed. By default not at all.
///
/// # Example
///
/// ```
/// use wirecap_headers::{Frame, RewriteError, Rewrite, Side, Ttl, VecFrame};
///
/// let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// bytes.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 2, 17, 0x34, 0xd6, 192, 0, 2, 1, 192, 0, 2, 2]);
/// let mut frame = VecFrame::new(&bytes, 0);
///
/// let destination = Some("02:00:00:00:00:09".parse()?);
/// let rewrite = Rewrite { ttl: Ttl::Decrement, destination, ..Rewrite::default() };
/// assert_eq!(rewrite.apply(Side::B, &mut frame), Ok(()));
/// assert_eq!(frame.data()[..6], [2, 0, 0, 0, 0, 9]);
/// assert_eq!(rewrite.apply(Side::B, &mut frame), Err(RewriteError::Expired));
/// # Ok::<(), wirecap_headers::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// What the VLAN of one side is on the other.
    pub vlans: VlanMap,
    /// What becomes of the TTL.
    pub ttl: Ttl,
    /// The Ethernet address the packet comes from, if not the one it has.
    pub source: Option<SourceMac>,
    /// The Ethernet address the packet goes to, if not the one it has.
    pub destination: Option<MacAddress>,
}

impl Rewrite {
    /// Whether it leaves all packets as they are.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Changes a packet that goes to a side.
    ///
    /// # Errors
    ///
    /// Why the packet is not to be sent; then it is as it was.
    pub fn apply(&self, toward: Side, frame: &mut impl Frame) -> Result<(), RewriteError> {
        if self.ttl == Ttl::Decrement {
            let layout = Layout::of(frame.data());
            if layout.is_some_and(|layout| self.ttl.expires(&layout, frame.data())) {
                return Err(RewriteError::Expired);
            }
        }
        self.vlans.apply(toward, frame)?;
        // The tag may have moved the IP header.
        if self.ttl != Ttl::Keep {
            if let Some(layout) = Layout::of(frame.data()) {
                self.ttl.apply(&layout, frame.data_mut());
            }
        }
        if let Some(source) = self.source {
            source.set_source(frame.data_mut());
        }
        if let Some(destination) = self.destination {
            destination.set_destination(frame.data_mut());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
