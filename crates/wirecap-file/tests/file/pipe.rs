//! Reading from a source that has no bytes at the moment.

use std::io::{self, ErrorKind, Read};

use wirecap_file::{Error, Reader, Record};
use wirecap_lab::CapturedPacket;

use wirecap_lab::trace_bytes::{IDB, ORDERS, Order};

/// Yields a few bytes at a time; if it drips, it reports before each that there are none.
struct Tap<'a> {
    data: &'a [u8],
    drips: bool,
    dry: bool,
    piece: usize,
}

impl Read for Tap<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.dry = self.drips && !self.dry;
        if self.dry {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = self.data.len().min(self.piece).min(buffer.len());
        buffer[..len].copy_from_slice(&self.data[..len]);
        self.data = &self.data[len..];
        Ok(len)
    }
}

/// Yields `left`, then `again` for ever.
struct EndlessReader {
    left: Vec<u8>,
    again: Vec<u8>,
    given: usize,
}

impl Read for EndlessReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(self.given < 16 << 20, "a single call reads without end");
        if self.left.is_empty() {
            self.left = self.again.repeat(1_000);
        }
        let len = self.left.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.left[..len]);
        self.left.drain(..len);
        self.given += len;
        Ok(len)
    }
}

fn pcap(order: Order) -> Vec<u8> {
    let mut file = order.pcap_header(0xa1b2_c3d4, (2, 4), 0, 1);
    for len in [0, 7, 1500, 9000] {
        file.extend(order.pcap_record(1, 2, (len, len), &vec![len as u8; len as usize]));
    }
    file
}

/// Two sections in different byte orders, and a block of an unknown type.
fn pcapng(order: Order) -> Vec<u8> {
    let mut file = Vec::new();
    for order in [order, if order == Order::Big { Order::Little } else { Order::Big }] {
        file.extend(order.section(&[]));
        file.extend(order.interface(1, 0, &[]));
        file.extend(order.packet(0, 5, 300, &[7; 300], &[]));
        file.extend(order.block(0xbad, &[vec![1; 400]]));
        file.extend(order.packet(0, 6, 3, b"abc", &[]));
    }
    file
}

#[test]
fn nothing_is_missing_after_a_pause() {
    for order in ORDERS {
        for file in [pcap(order), pcapng(order)] {
            let whole = wirecap_lab::Capture::read(file.as_slice()).unwrap();
            assert_eq!((whole.packets.len(), whole.damage.is_none()), (4, true));
            for piece in [1, 3, 64, 1000] {
                let mut reader =
                    Reader::new(Tap { data: &file, drips: false, dry: false, piece }).expect("a header");
                reader.get_mut().drips = true;
                let (mut packets, mut waits) = (Vec::new(), 0);
                loop {
                    match reader.next() {
                        Ok(Some(Record::Packet(packet))) => packets.push(CapturedPacket::from(packet)),
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(Error::Read { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
                            waits += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!(packets, whole.packets);
                assert!(waits > 1, "the reader never had to wait");
            }
        }
    }
}

#[test]
fn each_call_reads_one_block_even_without_packets() {
    let order = Order::Little;
    let endless =
        EndlessReader { left: order.section(&[]), again: order.block(0xbad, &[vec![1; 8]]), given: 0 };
    let mut reader = Reader::new(endless).unwrap();
    assert!(matches!(reader.next(), Ok(Some(Record::Section(_)))));
    for number in 0..3 {
        assert!(matches!(reader.next(), Ok(Some(Record::Other(0xbad)))), "block {number}");
        assert_eq!(reader.offset(), 28 + 20 * (number + 1));
    }
}

#[test]
fn a_record_knows_its_offset_even_behind_skipped_blocks() {
    let order = Order::Big;
    let (section, interface) = (order.section(&[]), order.interface(1, 0, &[]));
    let unknown = order.block(0xbad, &[vec![1; 8]]);
    let other = order.interface(101, 0, &[]);
    assert_eq!(other[..4], order.u32(IDB));
    let file = [section.clone(), interface.clone(), unknown.clone(), other].concat();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let mut starts = Vec::new();
    while reader.next().unwrap().is_some() {
        starts.push(reader.record_offset() as usize);
    }
    let unknown_at = section.len() + interface.len();
    assert_eq!(starts, [0, section.len(), unknown_at, unknown_at + unknown.len()]);
}
