//! A pair of virtual Ethernet interfaces: each end receives what the other sends.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use crate::error::Error;
use crate::namespace::Namespace;

/// How long an interface may take to come up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The settings of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VethOptions {
    /// Receive and transmit queues of each end; [`Interface::set_channels`] cannot exceed this number.
    pub queues: u32,
    /// Largest packet in bytes, without the Ethernet header. XDP without multi-buffer support takes about
    /// 3,500.
    pub mtu: u32,
    /// Leave IPv6 on: the kernel then sends neighbour and router solicitations by itself.
    pub ipv6: bool,
    /// Addresses of end a, such as `192.0.2.1/24`.
    pub addresses_a: Vec<String>,
    /// Addresses of end b.
    pub addresses_b: Vec<String>,
}

impl Default for VethOptions {
    /// One queue, an MTU of 1,500 bytes, no IPv6, no addresses.
    fn default() -> Self {
        Self { queues: 1, mtu: 1500, ipv6: false, addresses_a: Vec::new(), addresses_b: Vec::new() }
    }
}

/// Two connected interfaces, both up. Dropping the pair deletes it.
#[derive(Debug)]
pub struct VethPair {
    a: Interface,
    b: Interface,
}

/// An interface inside a namespace.
#[derive(Debug, Clone)]
pub struct Interface {
    namespace: Namespace,
    name: String,
}

impl VethPair {
    /// Makes a pair with end `name_a` in `namespace_a` and end `name_b` in `namespace_b` (which may be the
    /// same).
    ///
    /// # Errors
    /// [`Error::Failed`] with the output of ip(8), e.g. for a name that is in use or longer than 15 bytes.
    pub fn new(
        namespace_a: &Namespace,
        name_a: &str,
        namespace_b: &Namespace,
        name_b: &str,
        options: VethOptions,
    ) -> Result<Self, Error> {
        let (queues, mtu) = (options.queues.to_string(), options.mtu.to_string());
        let size = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let mut arguments = vec!["link", "add", "dev", name_a];
        arguments.extend(size);
        arguments.extend(["type", "veth", "peer", "name", name_b, "netns", namespace_b.name()]);
        arguments.extend(size);
        namespace_a.ip(&arguments)?;

        let end =
            |namespace: &Namespace, name: &str| Interface { namespace: namespace.clone(), name: name.into() };
        let pair = Self { a: end(namespace_a, name_a), b: end(namespace_b, name_b) };
        for (end, addresses) in [(&pair.a, &options.addresses_a), (&pair.b, &options.addresses_b)] {
            if options.ipv6 {
                end.namespace.trust_ipv6_addresses(&end.name)?;
                end.namespace.disable_ipv6(&end.name, false)?;
            }
            for address in addresses {
                end.namespace.ip(&["address", "add", address, "dev", &end.name])?;
            }
            end.set_up()?;
        }
        pair.wait_until_connected()?;
        Ok(pair)
    }

    /// Waits until both ends can send: the kernel attaches an end's queueing discipline some time after the
    /// carrier is up (`linkwatch`), and drops frames sent before.
    fn wait_until_connected(&self) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        for end in [&self.a, &self.b] {
            while !end.namespace.ip(&["-o", "link", "show", "dev", &end.name])?.contains(" state UP ") {
                if Instant::now() >= deadline {
                    let cause = io::Error::new(io::ErrorKind::TimedOut, "the link does not come up");
                    return Err(Error::Setting { action: format!("connect {}", end.name), cause });
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// End a.
    pub fn a(&self) -> &Interface {
        &self.a
    }

    /// End b.
    pub fn b(&self) -> &Interface {
        &self.b
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        // The pair may be gone already, or go with its namespace.
        let _ = self.a.namespace.ip(&["link", "del", "dev", &self.a.name]);
    }
}

impl Interface {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The interface's index, which is valid only inside its namespace.
    ///
    /// # Errors
    /// [`Error::Setting`] if the interface is gone.
    pub fn ifindex(&self) -> Result<u32, Error> {
        self.namespace.enter(|| nix::net::if_::if_nametoindex(self.name.as_str())).map_err(|errno| {
            Error::Setting {
                action: format!("find interface {} in namespace {}", self.name, self.namespace.name()),
                cause: errno.into(),
            }
        })
    }

    /// Brings the interface up.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn set_up(&self) -> Result<(), Error> {
        self.namespace.ip(&["link", "set", "dev", &self.name, "up"]).map(drop)
    }

    /// Takes the interface down; the other end loses its carrier.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn set_down(&self) -> Result<(), Error> {
        self.namespace.ip(&["link", "set", "dev", &self.name, "down"]).map(drop)
    }

    /// Sets the largest packet in bytes, without the Ethernet header.
    ///
    /// # Errors
    /// [`Error::Failed`], e.g. above the limit of an attached XDP program.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        self.namespace.ip(&["link", "set", "dev", &self.name, "mtu", &mtu.to_string()]).map(drop)
    }

    /// Changes the number of receive and transmit queues in use (`ethtool -L`), at most
    /// [`VethOptions::queues`].
    ///
    /// # Errors
    /// [`Error::Failed`]; with an XDP program attached the kernel refuses fewer receive queues than the other
    /// end has transmit queues.
    pub fn set_channels(&self, rx: u32, tx: u32) -> Result<(), Error> {
        self.namespace.ethtool(&["-L", &self.name, "rx", &rx.to_string(), "tx", &tx.to_string()]).map(drop)
    }

    /// Turns generic receive offload on or off. If on, a veth end polls (NAPI), which it needs to receive
    /// redirected frames without an XDP program.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn set_gro(&self, on: bool) -> Result<(), Error> {
        self.namespace.ethtool(&["-K", &self.name, "gro", if on { "on" } else { "off" }]).map(drop)
    }
}
