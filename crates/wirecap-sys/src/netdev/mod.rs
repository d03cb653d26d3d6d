//! Network interfaces: what they are, what they can do, how they fare.
//!
//! ```text
//!                    ┌ link          rtnetlink    name, state, MTU, MAC, XDP programs; IP addresses
//!  interface(name) ──┤ ethtool       ioctl        driver, queues, speed
//!                    ├ xdp_features  genetlink    what XDP can do here
//!                    └ numa          sysfs        memory node
//!
//!  Surroundings      both, /proc   what the host has around interfaces: on top of them, listeners, PPPoE, multicast
//!  find_route()      rtnetlink     routes over one interface
//!  bridge_table()    rtnetlink     Ethernet addresses it takes beside its own
//!  ingress_filters() rtnetlink     tc filters on what comes in
//!  LinkStatistics    rtnetlink     the kernel's counters
//!  LinkReader        both          counters and queues, asked again and again
//!  PromiscuousMode   PACKET        a mode that ends with the process
//!  HardwareStamping  ioctl         the NIC stamps what it receives, until this is dropped
//!  FrameSocket       PACKET        frames, sent from an interface
//!  bypass_queueing() PACKET        the same straight to the driver
//!  longest_frame()   -             what the kernel lets out
//!  RssReader         ethtool       how receive queues are chosen: read and set
//!  NicSettings       ethtool       rings, queues, coalescing, flow control, offloads, RSS table: read and set
//!  Neighbours        rtnetlink     their Ethernet addresses, as the kernel finds them out
//!  NeighbourChanges  rtnetlink     found, stale, failed, removed: as it happens
//!  changes()         rtnetlink     down, up, removed: as it happens
//!  Namespace         /proc         doing something later where a thread was before
//!  LinkFault         rtnetlink     why nothing can be sent: down, no carrier, removed
//! ```
//!
//! Rule: every answer is about the *network namespace of the calling thread*, at the moment of the call. That
//! is why sockets are asked, and not sysfs, which shows the namespace it was mounted in. Nothing here needs
//! privilege but [`PromiscuousMode`], [`HardwareStamping`], [`FrameSocket`], [`Neighbours::ask`],
//! [`Neighbours::forget`], [`RssReader::set`], what sets something in [`NicSettings`], and
//! [`Namespace::enter`].

mod attributes;
mod bridge_table;
mod bypass;
mod changes;
mod error;
mod ethtool;
mod fault;
mod frame_socket;
mod ingress;
mod interface;
mod link;
mod name;
mod namespace;
mod neighbour;
mod neighbour_changes;
mod neighbours;
mod netlink;
mod nic_settings;
mod numa;
mod promiscuous_mode;
mod reader;
mod routes;
mod rss;
mod stamping;
mod statistics;
mod subscription;
mod surroundings;
mod xdp_features;

use attributes::mac_address;
pub use attributes::{
    AttachedMode, AttachedProgram, Driver, HardwareType, Interface, InterfaceAddress, QueueSource, Queues,
    longest_frame,
};
pub use bridge_table::bridge_table;
pub use bypass::bypass_queueing;
pub use changes::{LinkChanges, LinkEvent, changes};
pub use error::{Error, Result};
pub use fault::LinkFault;
pub use frame_socket::{FrameSocket, bind_packet_socket};
pub use ingress::ingress_filters;
pub use interface::{
    finishes_in_software, interface, interface_with_index, interfaces, transmit_queues, xdp_programs,
};
pub use namespace::{Namespace, namespace_id};
pub use neighbour::{Neighbour, NeighbourState};
pub use neighbour_changes::{NeighbourChanges, NeighbourEvent};
pub use neighbours::{AskedNeighbour, Neighbours};
pub use nic_settings::{ChannelCounts, Coalescing, NicSettings, Offload, PauseFrames, RingSizes};
pub use promiscuous_mode::PromiscuousMode;
pub use reader::{LinkReader, LinkState};
pub use routes::{Route, find_route};
pub use rss::{HashFunction, HashTransform, RssHash, RssReader};
pub use stamping::{HardwareStamping, StampAbilities, stamp_abilities};
pub use statistics::LinkStatistics;
pub use subscription::Subscription;
pub use surroundings::{PacketSocket, PppoeSession, Surroundings, UpperInterface};
pub use wirecap_headers::MacAddress;
pub use xdp_features::{RxMetadata, XdpFeatures};
