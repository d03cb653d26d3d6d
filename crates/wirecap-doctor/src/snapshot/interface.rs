//! A network interface and its settings.

use serde::{Deserialize, Serialize};
use wirecap_sys::netdev::{ChannelCounts, Coalescing, Offload, PauseFrames, RingSizes};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Speed of the link in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// Memory node of the NIC.
    pub numa_node: Option<u32>,
    /// How the host uses it.
    pub host_use: HostUse,
    /// Receive queues in use.
    pub queues: u32,
    /// Numbers of queues (`ethtool -l`).
    pub channels: Option<ChannelCounts>,
    /// Descriptors of each queue (`ethtool -g`).
    pub rings: Option<RingSizes>,
    /// When it interrupts (`ethtool -c`).
    pub coalescing: Option<Coalescing>,
    /// Flow control (`ethtool -a`).
    pub pause: Option<PauseFrames>,
    /// Offloads (`ethtool -k`).
    pub offloads: Vec<Offload>,
    /// How receive queues are chosen (`ethtool -x`).
    pub rss: Option<Rss>,
    /// What XDP can do on it.
    pub xdp: Option<Xdp>,
    /// XDP programs that are attached.
    pub programs: Vec<XdpProgram>,
    /// How the kernel polls its queues.
    pub napi: Napi,
    /// Its interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Whether a virtio device lets the host translate addresses (VIRTIO_F_ACCESS_PLATFORM), which zero-copy
    /// needs there; `None` of other devices.
    pub access_platform: Option<bool>,
    /// What it has counted.
    pub counters: Counters,
}

impl Interface {
    /// Whether an offload is on, by the kernel's name; `None` if that is unknown.
    pub fn offload(&self, name: &str) -> Option<&Offload> {
        self.offloads.iter().find(|offload| offload.name == name)
    }

    /// The most frames per second that the link brings: the shortest, with the gaps between them.
    pub fn line_rate_pps(&self) -> Option<u64> {
        // 64 bytes, and 20 of preamble and gap.
        self.speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000 / ((64 + 20) * 8))
    }

    /// Descriptors of a receive queue.
    pub fn rx_ring(&self) -> Option<u32> {
        self.rings.map(|rings| rings.rx).filter(|rx| *rx > 0)
    }
}

/// How the host uses an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostUse {
    /// IP addresses, without link-local ones of IPv6.
    pub addresses: Vec<String>,
    /// Whether it is a member of a bridge, a bond or the like.
    pub is_member: bool,
}

impl HostUse {
    /// Whether an interruption of the link would be noticed by the host.
    pub fn is_used(&self) -> bool {
        self.is_member || !self.addresses.is_empty()
    }
}

/// How receive queues are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rss {
    /// The receive queue of each hash value.
    pub table: Vec<u32>,
    /// The key, in hexadecimal digits; empty if the driver has none.
    pub key: String,
    /// Whether addresses and ports are joined before they are hashed, so that both directions are the same.
    pub is_joined: bool,
    /// Kinds of flows whose directions are hashed by different fields.
    pub lopsided_flows: Vec<String>,
    /// Kinds of flows that are hashed by addresses alone.
    pub flows_without_ports: Vec<String>,
}

/// What XDP can do on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xdp {
    /// Programs run in the driver, and may redirect packets.
    pub native: bool,
    /// The NIC writes into the memory of user space.
    pub zero_copy: bool,
    /// A packet may span several buffers.
    pub multi_buffer: bool,
    /// Most buffers of a packet in zero-copy; `None` if unknown.
    pub zero_copy_max_segments: Option<u32>,
    /// The driver hands VLAN tags that the NIC took off to programs.
    pub vlan_tags: bool,
}

/// An XDP program that is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpProgram {
    /// Its number in the kernel.
    pub id: u32,
    /// Its name; `None` without the privilege to find out.
    pub name: Option<String>,
    /// The processes that keep it attached.
    pub processes: Vec<String>,
}

/// How the kernel polls the queues of an interface, as `/sys/class/net/NAME` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Napi {
    /// `napi_defer_hard_irqs`: empty polls before the interrupt is switched on again.
    pub defer_hard_irqs: Option<u32>,
    /// `gro_flush_timeout`: the kernel then polls at this interval, in nanoseconds.
    pub gro_flush_timeout_ns: Option<u64>,
    /// `threaded`: polled by kernel threads.
    pub threaded: Option<bool>,
    /// `rps_cpus` of the queues whose packets other processors handle: the queue and the mask.
    pub rps: Vec<(u32, String)>,
}

/// An interrupt of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its name in `/proc/interrupts`.
    pub name: String,
    /// Processors that it goes to (`effective_affinity_list`).
    pub cpus: Vec<u32>,
    /// `smp_affinity`, as it is written.
    pub mask: String,
}

impl Interrupt {
    /// Whether it is of a receive queue, by its name: drivers call them `eth1-TxRx-3`, `virtio2-input.0`,
    /// `ice-eth1-TxRx-0`, `mlx5_comp3@pci:…`, and the others by what they do.
    pub fn is_of_receive_queue(&self) -> bool {
        const OTHERS: [&str; 11] =
            ["config", "async", "ctrl", "control", "mgmt", "misc", "output", "tx-", "-tx", "pages", "event"];
        let name = self.name.to_ascii_lowercase();
        let is_both = name.contains("txrx") || name.contains("tx-rx") || name.contains("rxtx");
        // Of i40e: `i40e-0000:03:00.0:fdir-TxRx-0`.
        if name.contains("fdir") {
            return false;
        }
        let is_known = ["rx", "input", "comp", "queue"].iter().any(|word| name.contains(word));
        is_both || is_known && !OTHERS.iter().any(|word| name.contains(word))
    }
}

/// What an interface has counted since it was made, or the driver loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Packets received.
    pub received: u64,
    /// Packets for which the NIC had no buffer (`rx_missed_errors`, `rx_fifo_errors`).
    pub missed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_receive_queues_are_known_by_their_names() {
        for (name, expected) in [
            ("eth1-TxRx-3", true),
            ("ice-enp1s0f0-TxRx-0", true),
            ("i40e-enp1s0f0-TxRx-12", true),
            ("mlx5_comp3@pci:0000:03:00.0", true),
            ("virtio2-input.0", true),
            ("eth1-rx-0", true),
            ("virtio2-output.0", false),
            ("virtio2-config", false),
            ("eth1-tx-0", false),
            ("eth1", false),
            ("mlx5_async0@pci:0000:03:00.0", false),
            ("i40e-0000:03:00.0:misc", false),
            ("i40e-0000:03:00.0:fdir-TxRx-0", false),
        ] {
            let interrupt = Interrupt { name: name.into(), ..Interrupt::default() };
            assert_eq!(interrupt.is_of_receive_queue(), expected, "{name}");
        }
    }

    #[test]
    fn the_line_rate_is_that_of_the_shortest_frames() {
        let interface = Interface { speed_mbps: Some(10_000), ..Interface::default() };
        assert_eq!(interface.line_rate_pps(), Some(14_880_952));
    }
}
