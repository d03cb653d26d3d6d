//! The blocks that describe: the section header and the interfaces.

use super::{BYTE_ORDER_MAGIC, append_block, block, code, options};
use crate::LINK_TYPE_ETHERNET;

/// What wrote a section, and on what. Empty and absent texts are left out.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::SectionInfo;
///
/// let info = SectionInfo { application: Some("wirecap 0.1.0"), ..Default::default() };
/// assert!(info.comments.is_empty());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionInfo<'a> {
    /// The machine, for example its CPU (option `shb_hardware`).
    pub hardware: Option<&'a str>,
    /// The operating system (option `shb_os`).
    pub os: Option<&'a str>,
    /// The application that writes the file (option `shb_userappl`).
    pub application: Option<&'a str>,
    /// Comments on the section, one option each.
    pub comments: &'a [&'a str],
}

/// An interface packets were captured on. Empty and absent texts are left out.
///
/// The timestamps of its packets are always nanoseconds (option `if_tsresol` = 9).
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::InterfaceInfo;
///
/// let info = InterfaceInfo { name: Some("eth0"), speed_bps: Some(10_000_000_000), ..Default::default() };
/// assert_eq!(info.link_type, wirecap_file::LINK_TYPE_ETHERNET);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceInfo<'a> {
    /// The system's name of the interface (option `if_name`).
    pub name: Option<&'a str>,
    /// What the interface is to people (option `if_description`).
    pub description: Option<&'a str>,
    /// What the packets start with, from the list of link types; Ethernet by default.
    pub link_type: u16,
    /// Snapshot length in bytes; 0 says that nothing is cut.
    pub snaplen: u32,
    /// Speed in bits per second (option `if_speed`).
    pub speed_bps: Option<u64>,
    /// The capture filter in the language of tcpdump (option `if_filter`).
    pub filter: Option<&'a str>,
    /// The NIC and its driver (option `if_hardware`).
    pub hardware: Option<&'a str>,
    /// The hardware address (option `if_MACaddr`).
    pub mac: Option<[u8; 6]>,
    /// The operating system of the machine the interface is in (option `if_os`).
    pub os: Option<&'a str>,
    /// Comments on the interface, one option each.
    pub comments: &'a [&'a str],
}

impl Default for InterfaceInfo<'_> {
    fn default() -> Self {
        Self {
            name: None,
            description: None,
            link_type: LINK_TYPE_ETHERNET,
            snaplen: 0,
            speed_bps: None,
            filter: None,
            hardware: None,
            mac: None,
            os: None,
            comments: &[],
        }
    }
}

/// Appends a Section Header Block: the first block of a file, and again wherever interface numbers start
/// over.
///
/// The section's length is written as unknown, so the header never has to be gone back to. Texts longer than
/// 65,535 bytes are cut.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::{SectionInfo, section_header};
///
/// let mut file = Vec::new();
/// section_header(&mut file, &SectionInfo { os: Some("Linux 6.12"), ..Default::default() });
/// assert_eq!(&file[..4], b"\x0a\x0d\x0d\x0a");
/// ```
pub fn section_header(out: &mut Vec<u8>, info: &SectionInfo<'_>) {
    append_block(out, block::SECTION_HEADER, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&(-1_i64).to_le_bytes());
        options::append_text(out, code::SHB_HARDWARE, info.hardware);
        options::append_text(out, code::SHB_OS, info.os);
        options::append_text(out, code::SHB_APPLICATION, info.application);
        options::append_comments(out, info.comments);
        options::append_end(out);
    });
}

/// Appends an Interface Description Block. Interfaces are numbered from 0 in the order they are written in
/// since the last section header.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::{InterfaceInfo, interface};
///
/// let mut file = Vec::new();
/// interface(&mut file, &InterfaceInfo { name: Some("eth0"), filter: Some("udp"), ..Default::default() });
/// assert_eq!(file.len() % 4, 0);
/// ```
pub fn interface(out: &mut Vec<u8>, info: &InterfaceInfo<'_>) {
    append_block(out, block::INTERFACE, |out| {
        out.extend_from_slice(&info.link_type.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&info.snaplen.to_le_bytes());
        options::append_text(out, code::IF_NAME, info.name);
        options::append_text(out, code::IF_DESCRIPTION, info.description);
        if let Some(mac) = info.mac {
            options::append(out, code::IF_MAC, &mac);
        }
        options::append_u64(out, code::IF_SPEED, info.speed_bps);
        options::append(out, code::IF_TSRESOL, &[9]);
        append_filter(out, info.filter);
        options::append_text(out, code::IF_OS, info.os);
        options::append_text(out, code::IF_HARDWARE, info.hardware);
        options::append_comments(out, info.comments);
        options::append_end(out);
    });
}

/// Appends the capture filter: a byte 0, "this is filter text, not bytecode", and the text.
fn append_filter(out: &mut Vec<u8>, filter: Option<&str>) {
    let Some(filter) = filter.filter(|filter| !filter.is_empty()) else { return };
    let text = options::cut(filter, usize::from(u16::MAX) - 1);
    let mut value = Vec::with_capacity(1 + text.len());
    value.push(0);
    value.extend_from_slice(text.as_bytes());
    options::append(out, code::IF_FILTER, &value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_section_header_is_these_bytes() {
        let mut out = vec![0xee]; // The caller's vector need not be aligned.
        section_header(&mut out, &SectionInfo { os: Some("Linux"), ..Default::default() });
        let expected = [
            &[0xee, 0x0a, 0x0d, 0x0d, 0x0a, 44, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..],
            &[0xff; 8],
            &[3, 0, 5, 0, b'L', b'i', b'n', b'u', b'x', 0, 0, 0],
            &[0, 0, 0, 0, 44, 0, 0, 0],
        ]
        .concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn an_interface_is_these_bytes() {
        let mut out = Vec::new();
        let info = InterfaceInfo {
            name: Some("eth0"),
            filter: Some("udp"),
            mac: Some([2, 0, 0, 0, 0, 1]),
            speed_bps: Some(1_000_000_000),
            snaplen: 96,
            ..Default::default()
        };
        interface(&mut out, &info);
        let expected = [
            &[1, 0, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0][..],
            &[2, 0, 4, 0, b'e', b't', b'h', b'0'],
            &[6, 0, 6, 0, 2, 0, 0, 0, 0, 1, 0, 0],
            &[8, 0, 8, 0, 0x00, 0xca, 0x9a, 0x3b, 0, 0, 0, 0],
            &[9, 0, 1, 0, 9, 0, 0, 0],
            &[11, 0, 4, 0, 0, b'u', b'd', b'p'],
            &[0, 0, 0, 0, 72, 0, 0, 0],
        ]
        .concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(40_000);
        let mut out = Vec::new();
        section_header(&mut out, &SectionInfo { comments: &[&long], ..Default::default() });
        assert_eq!(&out[24..28], &[1, 0, 0xfe, 0xff], "65,534 bytes: 65,535 would split an é");

        let filter = format!("x{long}");
        let mut out = Vec::new();
        interface(&mut out, &InterfaceInfo { filter: Some(&filter), ..Default::default() });
        let at = 16 + 8;
        assert_eq!(&out[at..at + 6], &[11, 0, 0xfe, 0xff, 0, b'x'], "the byte in front of the text counts");
    }
}
