//! Trace files built word by word in either byte order, independently of the encoders under test.

/// The byte order to build in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Both byte orders.
pub const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// Block type: section header.
pub const SHB: u32 = 0x0a0d_0d0a;
/// Block type: interface description.
pub const IDB: u32 = 1;
/// Block type: packet, obsolete.
pub const PB: u32 = 2;
/// Block type: simple packet.
pub const SPB: u32 = 3;
/// Block type: interface statistics.
pub const ISB: u32 = 5;
/// Block type: enhanced packet.
pub const EPB: u32 = 6;

impl Order {
    /// 16 bits.
    pub fn u16(self, value: u16) -> Vec<u8> {
        if self == Self::Little { value.to_le_bytes().to_vec() } else { value.to_be_bytes().to_vec() }
    }

    /// 32 bits.
    pub fn u32(self, value: u32) -> Vec<u8> {
        if self == Self::Little { value.to_le_bytes().to_vec() } else { value.to_be_bytes().to_vec() }
    }

    /// 64 bits.
    pub fn u64(self, value: u64) -> Vec<u8> {
        if self == Self::Little { value.to_le_bytes().to_vec() } else { value.to_be_bytes().to_vec() }
    }

    /// A time stamp of pcapng: the upper half first.
    pub fn time(self, ticks: u64) -> Vec<u8> {
        [self.u32((ticks >> 32) as u32), self.u32(ticks as u32)].concat()
    }

    /// An option of a block.
    pub fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        [self.u16(code), self.u16(value.len() as u16), pad(value)].concat()
    }

    /// A block of pcapng with its lengths.
    pub fn block(self, block_type: u32, body: &[Vec<u8>]) -> Vec<u8> {
        let body = body.concat();
        let total = self.u32(body.len() as u32 + 12);
        [self.u32(block_type), total.clone(), body, total].concat()
    }

    /// A section header block.
    pub fn section(self, options: &[Vec<u8>]) -> Vec<u8> {
        let body = [self.u32(0x1a2b_3c4d), self.u16(1), self.u16(0), self.u64(u64::MAX), options.concat()];
        self.block(SHB, &body)
    }

    /// An interface description block.
    pub fn interface(self, link_type: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
        self.block(IDB, &[self.u16(link_type), self.u16(0), self.u32(snaplen), options.concat()])
    }

    /// An enhanced packet block.
    pub fn packet(
        self,
        interface: u32,
        ticks: u64,
        original_len: u32,
        data: &[u8],
        options: &[Vec<u8>],
    ) -> Vec<u8> {
        let lengths = [self.u32(data.len() as u32), self.u32(original_len)].concat();
        self.block(EPB, &[self.u32(interface), self.time(ticks), lengths, pad(data), options.concat()])
    }

    /// The header of a pcap file.
    pub fn pcap_header(self, magic: u32, version: (u16, u16), snaplen: u32, link_type: u32) -> Vec<u8> {
        let version = [self.u16(version.0), self.u16(version.1)].concat();
        [self.u32(magic), version, self.u64(0), self.u32(snaplen), self.u32(link_type)].concat()
    }

    /// A packet of a pcap file; `lengths` are those captured and on the wire.
    pub fn pcap_record(self, seconds: u32, fraction: u32, lengths: (u32, u32), data: &[u8]) -> Vec<u8> {
        let header = [self.u32(seconds), self.u32(fraction), self.u32(lengths.0), self.u32(lengths.1)];
        [header.concat(), data.to_vec()].concat()
    }
}

/// `bytes` padded with zeroes to whole words.
pub fn pad(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}
