//! Filters of traffic control on what comes in by an interface: `tc filter show dev NAME ingress`.
//!
//! ```text
//!   RTM_GETTFILTER, parent ffff:fff2 ──► RTM_NEWTFILTER = tcmsg (20 bytes) + TCA_KIND, TCA_OPTIONS { TCA_BPF_NAME }
//! ```
//!
//! The parent names both queueing disciplines that have such filters, `clsact` and `ingress`.

use libc::{RTM_GETTFILTER, TCA_KIND, TCA_OPTIONS};

use super::error::Result;
use super::link::{self, text, texts};
use super::netlink::{Message, each_attribute, split_header};

const ACTION: &str = "reading the tc filters of an interface";
/// Bytes of `struct tcmsg` (linux/rtnetlink.h): family u8, padding, ifindex i32, handle u32, parent u32, info
/// u32.
const HEADER_BYTES: usize = 20;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`.
const INGRESS: u32 = 0xffff_fff2;
/// Of the options of a filter of kind "bpf" (linux/pkt_cls.h).
const TCA_BPF_NAME: u16 = 7;

/// The filters on what comes in by the interface with index `ifindex`, each kind and name once: `u32`,
/// `bpf mirror.o`.
///
/// # Errors
/// As [`interfaces`](super::interfaces).
pub fn ingress_filters(ifindex: u32) -> Result<Vec<String>> {
    let mut header = [0; HEADER_BYTES];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header[12..16].copy_from_slice(&INGRESS.to_ne_bytes());
    let mut filters = Vec::new();
    link::open()?.find(ACTION, &Message::new(RTM_GETTFILTER, &header), |reply| {
        filters.extend(parse(&reply.payload)?);
        Ok(None::<()>)
    })?;
    filters.sort();
    filters.dedup();
    Ok(filters)
}

/// `None` for the head of a chain of filters, which has no handle.
fn parse(payload: &[u8]) -> Result<Option<String>> {
    let (header, attributes) = split_header::<HEADER_BYTES>(ACTION, payload)?;
    let (mut kind_of, mut name) = (String::new(), None);
    each_attribute(ACTION, attributes, |kind, value| {
        match kind {
            TCA_KIND => kind_of = text(value),
            TCA_OPTIONS if kind_of == "bpf" => name = texts(value, TCA_BPF_NAME)?.pop(),
            _ => {}
        }
        Ok(())
    })?;
    let is_filter = header[8..12] != [0; 4];
    Ok(is_filter.then(|| name.map_or_else(|| kind_of.clone(), |name| format!("{kind_of} {name}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_named_by_its_kind_and_its_program() {
        let filter = |handle: u32, kind: &[u8]| {
            let mut header = [0; HEADER_BYTES];
            header[8..12].copy_from_slice(&handle.to_ne_bytes());
            Message::new(0, &header).with(TCA_KIND, kind)
        };
        let parsed = |message: Message| parse(&message.payload).unwrap();
        assert_eq!(parsed(filter(0x800_0000, b"u32\0")).unwrap(), "u32");
        let options = Message::new(0, &[]).with(TCA_BPF_NAME, b"mirror.o\0").payload;
        assert_eq!(parsed(filter(1, b"bpf\0").with(TCA_OPTIONS, &options)).unwrap(), "bpf mirror.o");
        assert_eq!(parsed(filter(1, b"bpf\0")).unwrap(), "bpf");
        assert_eq!(parsed(filter(0, b"bpf\0")), None, "the head of a chain");
    }
}
