//! A whole capture file in memory.

use std::io::Read;

use wirecap_file::{Error, Format, Interface, Packet, Reader, Record, Section, Statistics};

/// Everything in a capture file, up to its end or its damage.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
/// use wirecap_lab::Capture;
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
/// pcap::packet(&mut file, &PacketHeader::default(), 0, [b"abc".as_slice()]);
/// file.extend_from_slice(b"rest");
/// let capture = Capture::read(file.as_slice())?;
/// assert_eq!(capture.packets[0].data, b"abc");
/// assert!(capture.damage.is_some());
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug)]
pub struct Capture {
    /// The format of the file.
    pub format: Format,
    /// Its sections; a pcap file has none.
    pub sections: Vec<Section>,
    /// Its interfaces, each at the index of its [`id`](Interface::id).
    pub interfaces: Vec<Interface>,
    /// Its packets, in the order of the file.
    pub packets: Vec<CapturedPacket>,
    /// Its statistics, in the order of the file.
    pub statistics: Vec<Statistics>,
    /// Why reading ended before the end of the file, if it did.
    pub damage: Option<Error>,
}

/// A [`Packet`] that owns its bytes. The fields are those of [`Packet`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedPacket {
    /// The number of its interface in the file.
    pub interface: u32,
    /// The link type of its interface.
    pub link_type: u16,
    /// When it was received, in nanoseconds since the Unix epoch, if the file has the time.
    pub timestamp_ns: Option<u64>,
    /// Length on the wire, in bytes.
    pub original_len: u32,
    /// The bytes that were kept.
    pub data: Vec<u8>,
    /// The receive queue it came in on.
    pub queue: Option<u32>,
    /// The number that identifies it.
    pub packet_id: Option<u64>,
    /// Whether it was sent rather than received, if the file records the direction.
    pub outbound: Option<bool>,
    /// Comments on it.
    pub comments: Vec<String>,
}

impl Capture {
    /// Reads all of a capture file into memory.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::new`], for a file that is no capture. Later errors are in
    /// [`damage`](Self::damage), next to everything read before them.
    pub fn read(reader: impl Read) -> Result<Self, Error> {
        let mut reader = Reader::new(reader)?;
        let mut capture = Self {
            format: reader.format(),
            sections: Vec::new(),
            interfaces: Vec::new(),
            packets: Vec::new(),
            statistics: Vec::new(),
            damage: None,
        };
        loop {
            match reader.next() {
                Ok(Some(record)) => capture.push(record),
                Ok(None) => return Ok(capture),
                Err(damage) => {
                    capture.damage = Some(damage);
                    return Ok(capture);
                }
            }
        }
    }

    fn push(&mut self, record: Record<'_>) {
        match record {
            Record::Section(section) => self.sections.push(section),
            Record::Interface(interface) => self.interfaces.push(interface),
            Record::Packet(packet) => self.packets.push(packet.into()),
            Record::Statistics(statistics) => self.statistics.push(statistics),
            _ => {}
        }
    }
}

impl From<Packet<'_>> for CapturedPacket {
    fn from(packet: Packet<'_>) -> Self {
        Self {
            interface: packet.interface,
            link_type: packet.link_type,
            timestamp_ns: packet.timestamp_ns,
            original_len: packet.original_len,
            data: packet.data.to_vec(),
            queue: packet.queue,
            packet_id: packet.packet_id,
            outbound: packet.outbound,
            comments: packet.comments.into_iter().map(|comment| comment.into_owned()).collect(),
        }
    }
}
