//! A sample of the packets that workers get, for clients that watch: which protocols they are, and who talks.
//!
//! ```text
//!   worker ── a few heads of a batch ──► Sampler ──► thread that watches the capture ──► Sample, in the report
//!             if a client watches                    with each snapshot
//! ```
//!
//! Rule: while no client watches, a sample costs the packet path one read of a flag per batch. A worker never
//! waits for it: while another thread holds the sampler, the batch is not sampled.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use wirecap::{Batch, Report};
use wirecap_headers::{Layout, MacAddress};

/// Bytes of a packet that are kept: Ethernet, four VLAN tags, IPv6 with some extensions, ports.
const HEAD_BYTES: usize = 128;
/// The most packets of a batch.
const PER_BATCH: usize = 8;
/// The most packets of a sample.
const CAPACITY: usize = 1_024;
/// The most rows of a list.
const MAX_ROWS: usize = 20;
/// The link type of Ethernet.
const ETHERNET: u16 = 1;
/// Ports from here on are given to clients (the start of Linux's `ip_local_port_range`).
const CLIENT_PORT: u16 = 32_768;

/// The beginning of a packet.
#[derive(Debug, Clone)]
struct Head {
    /// Its port, in the order of the report.
    port: usize,
    len: usize,
    bytes: [u8; HEAD_BYTES],
    original_len: u64,
    /// How many packets of its batch it stands for.
    weight: u64,
}

impl Head {
    fn bytes_stood_for(&self) -> u64 {
        self.weight * self.original_len
    }
}

/// Collects heads of packets: each that is offered is equally likely to be kept (Vitter's algorithm R).
#[derive(Debug, Default)]
struct Reservoir {
    heads: Vec<Head>,
    offered: u64,
    random: u64,
}

impl Reservoir {
    /// The place of the next head; `None` if it is not kept.
    fn place(&mut self) -> Option<usize> {
        self.offered += 1;
        if self.heads.len() < CAPACITY {
            return Some(self.heads.len());
        }
        // Xorshift suffices: predicting it gains a sender nothing.
        let mut random = self.random | 1;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random = random;
        usize::try_from(random % self.offered).ok().filter(|&place| place < CAPACITY)
    }

    fn put(&mut self, place: usize, head: Head) {
        match self.heads.get_mut(place) {
            Some(kept) => *kept = head,
            None => self.heads.push(head),
        }
    }
}

/// What workers and the thread that watches share.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// How many clients want samples. Relaxed, since the lock below orders the heads.
    watchers: AtomicUsize,
    /// Whether one of them waits for a snapshot with a sample. Relaxed, too.
    is_asked: AtomicBool,
    reservoir: Mutex<Reservoir>,
}

/// A client's subscription to samples; dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct Watcher(Arc<Sampler>);

impl Watcher {
    /// Requests a sample with the next snapshot.
    pub(super) fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sampler {
    /// Subscribes another client.
    pub(super) fn watch(self: &Arc<Self>) -> Watcher {
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            // Discards what was sampled for earlier clients.
            let mut reservoir = self.reservoir();
            *reservoir = Reservoir { random: reservoir.random, ..Reservoir::default() };
            reservoir.heads.reserve_exact(CAPACITY);
        }
        Watcher(Arc::clone(self))
    }

    fn reservoir(&self) -> MutexGuard<'_, Reservoir> {
        self.reservoir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Samples the first packets of a batch while a client watches.
    #[inline]
    pub(crate) fn look(&self, batch: &Batch) {
        if self.watchers.load(Ordering::Relaxed) > 0 {
            self.take_some(batch);
        }
    }

    #[cold]
    fn take_some(&self, batch: &Batch) {
        let Ok(mut reservoir) = self.reservoir.try_lock() else { return };
        // Only the first ones: to find others, all before them would have to be read.
        let weight = (batch.len() as u64).div_ceil(PER_BATCH as u64).max(1);
        for packet in batch.packets().take(PER_BATCH) {
            let Some(place) = reservoir.place() else { continue };
            let data = packet.data();
            let len = data.len().min(HEAD_BYTES);
            let mut bytes = [0; HEAD_BYTES];
            bytes[..len].copy_from_slice(&data[..len]);
            let original_len = packet.original_len() as u64;
            reservoir.put(place, Head { port: batch.port(), len, bytes, original_len, weight });
        }
    }

    /// The sample since the last one; `None` if no client has asked for it.
    pub(crate) fn take(&self, report: &Report) -> Option<Sample> {
        if !self.is_asked.swap(false, Ordering::Relaxed) {
            return None;
        }
        let mut reservoir = self.reservoir();
        let heads = std::mem::replace(&mut reservoir.heads, Vec::with_capacity(CAPACITY));
        reservoir.offered = 0;
        drop(reservoir);
        let is_ethernet =
            |head: &Head| report.ports.get(head.port).is_none_or(|port| port.link_type == ETHERNET);
        Some(Sample::of(&heads, is_ethernet))
    }
}

/// Packets of a sample that have something in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// What that is.
    pub(crate) name: String,
    /// About how many there were, compared with those of other names.
    pub(crate) packets: u64,
    /// Their bytes, as long as they were on the wire.
    pub(crate) bytes: u64,
}

/// A sample of the packets that workers got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Packets in the sample.
    pub(crate) packets: u64,
    /// Bytes of all packets for which they stand.
    pub(crate) bytes: u64,
    /// From one address to another one, by bytes: the first 20.
    pub(crate) talkers: Vec<Share>,
    /// Protocols, by bytes: the first 20.
    pub(crate) protocols: Vec<Share>,
}

impl Sample {
    fn of(heads: &[Head], is_ethernet: impl Fn(&Head) -> bool) -> Self {
        let (mut talkers, mut protocols) = (Tally::default(), Tally::default());
        for head in heads {
            let layout = Some(&head.bytes[..head.len]).filter(|_| is_ethernet(head));
            let packet = layout.and_then(|data| Some((data, Layout::of(data)?)));
            let (talker, protocol) = match packet {
                Some((data, layout)) => (Talkers::of(&layout, data), Protocol::of(&layout, data)),
                None => (None, Protocol::Unknown),
            };
            if let Some(talker) = talker {
                talkers.add(talker, head);
            }
            protocols.add(protocol, head);
        }
        Self {
            packets: heads.len() as u64,
            bytes: heads.iter().map(Head::bytes_stood_for).sum(),
            talkers: talkers.shares(Talkers::name),
            protocols: protocols.shares(Protocol::name),
        }
    }
}

/// Packets and bytes by what they have in common.
#[derive(Debug)]
struct Tally<K>(HashMap<K, (u64, u64)>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Copy> Tally<K> {
    fn add(&mut self, key: K, head: &Head) {
        let sum = self.0.entry(key).or_default();
        *sum = (sum.0 + head.weight, sum.1 + head.bytes_stood_for());
    }

    fn shares(self, name: impl Fn(K) -> String) -> Vec<Share> {
        let share = |(key, (packets, bytes))| Share { name: name(key), packets, bytes };
        let mut shares: Vec<_> = self.0.into_iter().map(share).collect();
        sort(&mut shares);
        shares.truncate(MAX_ROWS);
        shares
    }
}

/// The largest first; the name decides between equal ones, so that rows keep their places.
pub(crate) fn sort(shares: &mut [Share]) {
    shares.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
}

/// The source and destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Talkers {
    Ip(IpAddr, IpAddr),
    Ethernet([u8; 6], [u8; 6]),
}

impl Talkers {
    fn of(layout: &Layout, data: &[u8]) -> Option<Self> {
        let ip = layout.ip().and_then(|ip| Some(Talkers::Ip(ip.source(data)?, ip.destination(data)?)));
        ip.or_else(|| {
            Some(Talkers::Ethernet(MacAddress::source_of(data)?.0, MacAddress::destination_of(data)?.0))
        })
    }

    fn name(self) -> String {
        match self {
            Talkers::Ip(source, destination) => format!("{source} > {destination}"),
            Talkers::Ethernet(source, destination) => {
                format!("{} > {}", MacAddress(source), MacAddress(destination))
            }
        }
    }
}

/// The protocol of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Protocol {
    /// TCP, UDP or SCTP, with the port of the service: the lower one, unless that is a client's, too.
    Port(&'static str, Option<u16>),
    /// Of IP, by its number.
    Ip(u8),
    EtherType(u16),
    /// No Ethernet, or cut short.
    Unknown,
}

impl Protocol {
    fn of(layout: &Layout, data: &[u8]) -> Self {
        let Some(ip) = layout.ip() else { return Protocol::EtherType(layout.ether_type()) };
        let name = match ip.protocol() {
            6 => "tcp",
            17 => "udp",
            132 => "sctp",
            other => return Protocol::Ip(other),
        };
        let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
        let ports = ip.transport().and_then(|start| Some((word(start)?, word(start + 2)?)));
        let service = ports.map(|(source, destination)| source.min(destination));
        Protocol::Port(name, service.filter(|&port| port < CLIENT_PORT))
    }

    fn name(self) -> String {
        match self {
            Protocol::Port(name, Some(port)) => format!("{name} {port}"),
            Protocol::Port(name, None) => name.into(),
            Protocol::Ip(1) => "icmp".into(),
            Protocol::Ip(2) => "igmp".into(),
            Protocol::Ip(4 | 41) => "ip in ip".into(),
            Protocol::Ip(47) => "gre".into(),
            Protocol::Ip(50) => "esp".into(),
            Protocol::Ip(58) => "icmp6".into(),
            Protocol::Ip(89) => "ospf".into(),
            Protocol::Ip(number) => format!("ip protocol {number}"),
            // The length of an 802.3 frame.
            Protocol::EtherType(0..0x600) => "802.3".into(),
            Protocol::EtherType(0x0806) => "arp".into(),
            Protocol::EtherType(0x8847 | 0x8848) => "mpls".into(),
            Protocol::EtherType(0x8863 | 0x8864) => "pppoe".into(),
            Protocol::EtherType(0x88cc) => "lldp".into(),
            Protocol::EtherType(number) => format!("ethertype 0x{number:04x}"),
            Protocol::Unknown => "unknown".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(bytes: &[u8], original_len: u64) -> Head {
        let mut head = Head { port: 0, len: bytes.len(), bytes: [0; HEAD_BYTES], original_len, weight: 1 };
        head.bytes[..bytes.len()].copy_from_slice(bytes);
        head
    }

    /// An IPv4 packet of this protocol from host 1 to host 2, with these ports.
    fn ip(protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0; 4]);
        frame
    }

    #[test]
    fn a_sample_has_the_largest_talkers_and_protocols_first() {
        let arp = [[0xff; 6].as_slice(), &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 28]].concat();
        let heads = [
            head(&ip(6, [51_000, 443]), 1_514),
            head(&ip(6, [443, 51_000]), 60),
            head(&ip(17, [53, 40_000]), 90),
            head(&ip(17, [40_000, 50_000]), 80),
            head(&ip(1, [0, 0]), 70),
            head(&arp, 60),
            head(&arp[..10], 10),
        ];
        let sample = Sample::of(&heads, |_| true);
        let name = |shares: &[Share]| {
            shares.iter().map(|share| format!("{} {}", share.name, share.bytes)).collect::<Vec<_>>()
        };
        assert_eq!((sample.packets, sample.bytes), (7, 1_884));
        assert_eq!(
            name(&sample.protocols),
            ["tcp 443 1574", "udp 53 90", "udp 80", "icmp 70", "arp 60", "unknown 10"]
        );
        assert_eq!(
            name(&sample.talkers),
            ["192.0.2.1 > 192.0.2.2 1814", "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff 60"]
        );
        // A head that stands for several packets counts that many times.
        let heavy = Head { weight: 10, ..heads[2].clone() };
        let sample = Sample::of(&[heads[0].clone(), heavy], |_| true);
        assert_eq!((sample.packets, sample.bytes, sample.protocols[1].packets), (2, 2_414, 10));
        let other = Sample::of(&heads[..1], |_| false);
        assert_eq!((other.talkers, name(&other.protocols)), (vec![], vec!["unknown 1514".to_owned()]));
    }

    #[test]
    fn every_packet_is_as_likely_to_be_in_the_sample() {
        let mut reservoir = Reservoir::default();
        let offered = 8 * CAPACITY as u64;
        for number in 0..offered {
            if let Some(place) = reservoir.place() {
                reservoir.put(place, head(&[], number));
            }
        }
        assert_eq!((reservoir.heads.len(), reservoir.offered), (CAPACITY, offered));
        // Each eighth of what was offered has about an eighth of the sample: within five standard deviations.
        let mut eighths = [0_i64; 8];
        reservoir.heads.iter().for_each(|head| eighths[head.original_len as usize / CAPACITY] += 1);
        let (mean, deviation) = (CAPACITY as i64 / 8, 5 * 11);
        assert!(eighths.iter().all(|count| (count - mean).abs() < deviation), "{eighths:?}");
    }

    #[test]
    fn nothing_is_sampled_while_nobody_watches() {
        use wirecap::{Capture, port::null::NullPort};
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 1_000 };
        let mut capture = Capture::builder().port(port).chunks_per_pool(4).open().unwrap();
        let mut worker = capture.take_workers().remove(0);
        let sampler = Arc::new(Sampler::default());
        let report = capture.report();
        let mut batch = || worker.next_batch().unwrap();
        sampler.look(&batch());
        assert_eq!(sampler.take(&report), None);
        let watcher = sampler.watch();
        sampler.look(&batch());
        assert_eq!(sampler.take(&report), None, "nobody has asked yet");
        watcher.ask();
        let sample = sampler.take(&report).unwrap();
        assert!((1..=PER_BATCH as u64).contains(&sample.packets), "{sample:?}");
        watcher.ask();
        assert_eq!(sampler.take(&report), Some(Sample::default()), "a sample is taken once");
        sampler.look(&batch());
        drop(watcher);
        sampler.look(&batch());
        let watcher = sampler.watch();
        watcher.ask();
        assert_eq!(sampler.take(&report), Some(Sample::default()), "the last watcher left nothing");
    }
}
