//! The engines that are compared.
//!
//! | engine | of the paper's types | its buffer |
//! |---|---|---|
//! | wirecap | WireCAP | R chunks of M cells for each queue, copied into by AF_XDP, or packed |
//! | AF_XDP, a ring of 1,024 | II: the ring is the buffer | as many frames as the ring has entries |
//! | TPACKET_V3 | I: copied into a ring | as much memory as wirecap |
//! | libpcap | I, through the library that most programs use | 2 MiB by default, or as much memory as wirecap |
//!
//! Every engine has one handler for each queue, of the paper's pace. Packet sockets get the packets of their
//! queue by PACKET_FANOUT_QM.

use anyhow::Result;
use wirecap_bench::competitor::{Competitor, Peers};
use wirecap_sim::{
    HANDLER_PPS,
    engines::{
        ring::{Release, RingEngine},
        wirecap::WirecapEngine,
    },
    outcome::Outcome,
    traffic::Traffic,
};

/// Bytes of a cell and of a frame of AF_XDP.
const CELL_BYTES: u64 = 2048;
/// Entries of a NIC's ring (section 4 of the paper).
const RING: u64 = 1024;
/// The pace of the handlers, in packets per second.
pub const PACE_PPS: u64 = HANDLER_PPS as u64;
/// The default buffer of libpcap, in MiB.
const LIBPCAP_DEFAULT_MIB: u64 = 2;

/// M and R.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Cells per chunk.
    pub m: u32,
    /// Chunks per pool.
    pub r: u32,
}

impl Pool {
    /// Memory of a pool, in MiB, rounded up.
    fn mib(self) -> u64 {
        (u64::from(self.m) * u64::from(self.r) * CELL_BYTES).div_ceil(1 << 20)
    }
}

/// How packets reach workers, and how they lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Idle workers fetch them; in cells.
    Pull,
    /// Capture threads hand them over, as in the paper; in cells.
    Push,
    /// Idle workers fetch them; packed one behind the other, as wirecap does where a driver has no zero-copy.
    Packed,
}

impl Delivery {
    /// The flags for it, of the command and of the benchmarks' child.
    fn flags(self) -> &'static str {
        match self {
            Self::Pull => "--dispatch pull --xdp-mode copy",
            Self::Push => "--dispatch push --xdp-mode copy",
            Self::Packed => "--dispatch pull --xdp-mode packed",
        }
    }
}

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// wirecap in basic mode.
    Basic(Pool, Delivery),
    /// wirecap in advanced mode, with T in percent.
    Advanced(Pool, u8, Delivery),
    /// A bare AF_XDP loop whose frames are those of the ring.
    XdpRing,
    /// TPACKET_V3 with the memory of a pool.
    Tpacket(Pool),
    /// libpcap with its default buffer.
    LibpcapDefault,
    /// libpcap with the memory of a pool.
    Libpcap(Pool),
}

impl Engine {
    /// Its name in tables.
    pub fn name(self) -> String {
        let how = |delivery| match delivery {
            Delivery::Pull => "",
            Delivery::Push => ", push",
            Delivery::Packed => ", packed",
        };
        match self {
            Self::Basic(Pool { m, r }, delivery) => format!("WireCAP-B-({m}, {r}){}", how(delivery)),
            Self::Advanced(Pool { m, r }, t, delivery) => {
                format!("WireCAP-A-({m}, {r}, {t} %){}", how(delivery))
            }
            Self::XdpRing => format!("AF_XDP, a ring of {RING}"),
            Self::Tpacket(pool) => format!("TPACKET_V3, {} MiB", pool.mib()),
            Self::LibpcapDefault => format!("libpcap, {LIBPCAP_DEFAULT_MIB} MiB"),
            Self::Libpcap(pool) => format!("libpcap, {} MiB", pool.mib()),
        }
    }

    /// The program, for this number of queues.
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn competitor(self, peers: &Peers, queues: usize) -> Result<Competitor> {
        let name = self.name();
        let common = format!("--queues {queues} --pace {PACE_PPS}");
        let wirecap = |Pool { m, r }, mode: &str, delivery: Delivery| {
            let how = delivery.flags();
            Competitor::wirecap(&name, &format!("-M {m} -R {r} --mode {mode} {how} --pace {PACE_PPS}"))
        };
        Ok(match self {
            Self::Basic(pool, delivery) => wirecap(pool, "basic", delivery)?,
            Self::Advanced(pool, t, delivery) => wirecap(pool, &t.to_string(), delivery)?,
            Self::XdpRing => peers.competitor(
                &name,
                "xsk_count",
                &format!("{common} --frames {RING} --ring {RING} --wait poll"),
            ),
            // A block that the kernel closes for its age wastes its rest: small blocks, and the age of
            // libpcap's.
            Self::Tpacket(pool) => peers.competitor(
                &name,
                "tpacket_count",
                &format!("{common} --block-kib 128 --blocks {} --retire-ms 100", 8 * pool.mib()),
            ),
            Self::LibpcapDefault => {
                peers.competitor(&name, "pcap_count", &format!("{common} --buffer-mib {LIBPCAP_DEFAULT_MIB}"))
            }
            Self::Libpcap(pool) => {
                peers.competitor(&name, "pcap_count", &format!("{common} --buffer-mib {}", pool.mib()))
            }
        })
    }

    /// The flags of the command for the engine; `None` for those that are not wirecap.
    pub fn flags(self) -> Option<String> {
        let (Pool { m, r }, mode, delivery) = match self {
            Self::Basic(pool, delivery) => (pool, "--mode basic".to_owned(), delivery),
            Self::Advanced(pool, t, delivery) => (pool, format!("-T {t}"), delivery),
            _ => return None,
        };
        Some(format!("-M {m} -R {r} {mode} {}", delivery.flags()))
    }

    /// What the simulator makes of this traffic; `None` for engines that it has no model of: what dense
    /// buffers hold depends on the lengths of packets, which are not simulated.
    ///
    /// # Errors
    /// If M or R is not possible.
    pub fn simulate(self, traffic: &Traffic) -> Result<Option<Outcome>> {
        let model = |Pool { m, r }, threshold: Option<u8>, delivery| {
            let engine = match threshold {
                None => WirecapEngine::basic(m, r, HANDLER_PPS),
                Some(percent) => WirecapEngine::advanced(m, r, percent, HANDLER_PPS),
            };
            match delivery {
                Delivery::Pull => Some(engine.pulling()),
                Delivery::Push => Some(engine),
                Delivery::Packed => None,
            }
        };
        let wirecap = |engine: Option<WirecapEngine>| engine.map(|engine| engine.run(traffic)).transpose();
        Ok(match self {
            Self::Basic(pool, delivery) => wirecap(model(pool, None, delivery))?,
            Self::Advanced(pool, t, delivery) => wirecap(model(pool, Some(t), delivery))?,
            Self::XdpRing => {
                // Frames go back in batches of 64, so that the last ones of a batch wait for the others.
                Some(RingEngine { ring: RING, release: Release::Each, pace_pps: HANDLER_PPS }.run(traffic))
            }
            Self::Tpacket(_) | Self::LibpcapDefault | Self::Libpcap(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_memory_is_that_of_the_pool() {
        let pool = Pool { m: 256, r: 100 };
        assert_eq!(pool.mib(), 50);
        assert_eq!(Engine::Tpacket(pool).name(), "TPACKET_V3, 50 MiB");
        assert_eq!(Engine::Advanced(pool, 60, Delivery::Push).name(), "WireCAP-A-(256, 100, 60 %), push");
        assert_eq!(PACE_PPS, 38_844);
    }

    #[test]
    fn the_simulator_has_models_of_cells_alone() {
        let traffic = Traffic::burst(10_000, 1e6);
        let pool = Pool { m: 256, r: 4 };
        let simulated = Engine::Basic(pool, Delivery::Push).simulate(&traffic).unwrap().unwrap();
        assert!(simulated.total().lost() > 8_000);
        assert_eq!(Engine::Tpacket(pool).simulate(&traffic).unwrap(), None);
    }
}
