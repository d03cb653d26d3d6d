//! An interface, put together from what several families of questions answer.

#[cfg(doc)]
use super::Error;
use super::attributes::{AttachedProgram, Interface, InterfaceAddress, QueueSource, Queues};
use super::ethtool::Ethtool;
use super::link::{self, Link, Selector};
use super::xdp_features::{NetdevFamily, XdpFeatures};
use super::{Result, numa};

impl Interface {
    fn assemble(
        link: Link,
        addresses: &[(u32, InterfaceAddress)],
        ethtool: &Ethtool,
        features: Option<XdpFeatures>,
    ) -> Self {
        let queues = queues(&link, ethtool);
        let Self { name, ifindex, mac, .. } = &link.interface;
        Self {
            addresses: InterfaceAddress::of(*ifindex, addresses),
            driver: ethtool.driver(name),
            queues,
            speed_mbps: ethtool.speed_mbps(name),
            takes_vlan_tags: ethtool.takes_vlan_tags(name).unwrap_or(false),
            numa_node: numa::numa_node(name, *ifindex, *mac),
            xdp_features: features,
            ..link.interface
        }
    }
}

/// All interfaces of this network namespace, sorted by index.
///
/// What a driver does not say is `None`, also where an interface vanishes while the list is made.
///
/// # Errors
/// [`Error::System`] if the kernel refuses a socket or a question, [`Error::Malformed`] if its answer makes
/// no sense.
pub fn interfaces() -> Result<Vec<Interface>> {
    let mut rtnetlink = link::open()?;
    let links = link::links(&mut rtnetlink)?;
    let addresses = link::addresses(&mut rtnetlink)?;
    let mut features = NetdevFamily::open()?.all()?;
    let ethtool = Ethtool::open()?;
    let assemble = |link: Link| {
        let features = features.remove(&link.interface.ifindex);
        Interface::assemble(link, &addresses, &ethtool, features)
    };
    Ok(links.into_iter().map(assemble).collect())
}

/// The interface `name` of this network namespace; an alternative name serves as well.
///
/// ```
/// let loopback = wirecap_sys::netdev::interface("lo").unwrap();
/// assert_eq!((loopback.name.as_str(), loopback.mac), ("lo", None));
/// ```
///
/// # Errors
/// [`Error::NoSuchInterface`] with the names that look like it; [`Error::NameTooLong`] and
/// [`Error::NameInvalid`] for what cannot be a name; else as [`interfaces`].
pub fn interface(name: &str) -> Result<Interface> {
    interface_of(Selector::Name(name))
}

fn interface_of(selector: Selector<'_>) -> Result<Interface> {
    let mut rtnetlink = link::open()?;
    let link = link::link(&mut rtnetlink, selector)?;
    let addresses = link::addresses(&mut rtnetlink)?;
    let features = NetdevFamily::open()?.one(link.interface.ifindex)?;
    Ok(Interface::assemble(link, &addresses, &Ethtool::open()?, features))
}

/// The XDP programs attached now to the interface with index `ifindex`, native first.
///
/// # Errors
/// [`Error::NoSuchIndex`] once the interface is gone; else as [`interfaces`].
pub fn xdp_programs(ifindex: u32) -> Result<Vec<AttachedProgram>> {
    Ok(link::link(&mut link::open()?, Selector::Index(ifindex))?.interface.xdp_programs)
}

/// The interface with index `ifindex` of this network namespace, also after it was renamed.
///
/// # Errors
/// [`Error::NoSuchIndex`]; else as [`interfaces`].
pub fn interface_with_index(ifindex: u32) -> Result<Interface> {
    interface_of(Selector::Index(ifindex))
}

pub(super) fn queues(link: &Link, ethtool: &Ethtool) -> Queues {
    match ethtool.channels(&link.interface.name) {
        Some(queues) => queues,
        None => {
            let allocated = link.rx_queues_allocated.max(1);
            Queues { current: allocated, max: allocated, source: QueueSource::Allocated }
        }
    }
}

/// Whether the kernel fills in the checksums of packets that leave by an interface, or cuts up long segments,
/// since offloads of the NIC are off or missing (`ethtool -k`: tx-checksumming, tcp-segmentation-offload); in
/// the network namespace of the calling thread. `None` if the interface does not say.
///
/// # Errors
/// [`Error::System`] if there is no socket to ask through.
pub fn finishes_in_software(interface: &str) -> Result<Option<bool>> {
    Ok(Ethtool::open()?.finishes_in_software(interface))
}

/// How many transmit queues of an interface are in use, in the network namespace of the calling thread;
/// `None` if its driver does not say. Their numbers are 0 to one less.
///
/// # Errors
/// [`Error::System`] if there is no socket to ask through.
pub fn transmit_queues(interface: &str) -> Result<Option<u32>> {
    Ok(Ethtool::open()?.transmit_queues(interface))
}
