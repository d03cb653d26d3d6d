//! What can go wrong between opening a capture and its end, and what to do about it.

use std::io;

use thiserror::Error;
use wirecap_core::GeometryError;
use wirecap_sys::{bpf, memory::MemoryError, netdev, packet::PacketError, xsk::XskError};

/// Why a capture could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No port was named.
    #[error("no interface to capture from; name at least one")]
    NoPort,
    /// A port is named twice.
    #[error("{0} is named twice; name each interface once")]
    PortTwice(String),
    /// More ports or queues than chunk names can tell apart.
    #[error("{what}: {given} is more than the {most} an engine can have")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// M, R, T or the cell size cannot be used.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Some workers would never get a packet.
    #[error(
        "{workers} workers for {queues} receive queues: in basic mode a worker without a queue gets nothing; \
         use at most {queues} workers, or advanced mode"
    )]
    IdleWorkers {
        /// Workers asked for.
        workers: usize,
        /// Receive queues of all ports.
        queues: usize,
    },
    /// A set of buddies names a worker that is not there, or that is in a set already.
    #[error("worker {worker} cannot be in this buddy group: workers are 0 to {}, each in one group", workers - 1)]
    Grouping {
        /// The worker.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// No worker.
    #[error("0 workers cannot capture anything; use at least 1")]
    NoWorker,
    /// A core that the process may not use.
    #[error("core {core} cannot be used: {source}")]
    Core {
        /// Its number.
        core: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such interface, or it cannot be asked.
    #[error(transparent)]
    Interface(#[from] netdev::Error),
    /// The interface is down.
    #[error("{0} is down; bring it up first: ip link set {0} up")]
    Down(String),
    /// The interface cannot be captured over AF_XDP as it is no Ethernet device.
    #[error("{name} is of type {kind}; AF_XDP captures Ethernet interfaces only")]
    NotEthernet {
        /// Its name.
        name: String,
        /// Its type.
        kind: String,
    },
    /// A way of attaching XDP was asked for, and the interface is left to the host.
    #[error(
        "a mode of XDP is asked for, but {name} is captured beside the host, since {reason}; say xdp:{name} to take it"
    )]
    OnlyPassive {
        /// The interface.
        name: String,
        /// Why it is left to the host.
        reason: String,
    },
    /// Nobody has said how to write down what packets of such an interface begin with.
    #[error(
        "{name} is of type {kind}, whose packets cannot be told from others in a file; tcpdump -i {name} may do"
    )]
    LinkType {
        /// Its name.
        name: String,
        /// Its type.
        kind: String,
    },
    /// It cannot be captured beside the host.
    #[error("{name}: {source}")]
    Passive {
        /// The interface.
        name: String,
        /// Why.
        source: PacketError,
    },
    /// Another XDP program is attached to the interface.
    #[error(
        "{name} is held by the XDP program {program}{}; end that program, or take it off: ip link set {name} xdp off",
        if holders.is_empty() { String::new() } else { format!(" of {holders}") }
    )]
    Held {
        /// The interface.
        name: String,
        /// Name of the program.
        program: String,
        /// Processes that hold it, if they can be told.
        holders: String,
    },
    /// A trace file cannot be read, or not to its end.
    #[error("{name}: {source}")]
    Trace {
        /// The port.
        name: String,
        /// Why, and where.
        source: wirecap_file::Error,
    },
    /// Packets of a trace file begin with different things, and a port has one link type.
    #[error(
        "{name}: the packet at byte {offset} is of interface {interface}, whose link type is {other}; it was {link_type} \
         before, and a port has one; everything before it was captured. Take the file apart first: tshark -r FILE -Y \
         'frame.interface_id == N' -w PART"
    )]
    LinkTypes {
        /// The port.
        name: String,
        /// Number of the interface in the file, with its name if it has one.
        interface: String,
        /// Link type of the port.
        link_type: u16,
        /// Link type of the interface.
        other: u16,
        /// Where the packet's record starts in the file, in bytes.
        offset: u64,
    },
    /// The packet memory could not be set up.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No way of attaching to the interface worked.
    #[error("{name} cannot be captured over AF_XDP: {}", attempts.join("; "))]
    NoMode {
        /// The interface.
        name: String,
        /// What was tried, and why it failed.
        attempts: Vec<String>,
    },
    /// The process lacks a privilege.
    #[error(
        "capturing needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK ({reason}); run as root, or \
         once: sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep {program}"
    )]
    NotPermitted {
        /// Which step was refused.
        reason: String,
        /// Path of the running program.
        program: String,
    },
    /// An AF_XDP socket could not be set up.
    #[error("{name}: {source}")]
    Socket {
        /// The interface.
        name: String,
        /// Why.
        source: XskError,
    },
    /// The XDP program could not be loaded or attached.
    #[error("{name}: {source}")]
    Program {
        /// The interface.
        name: String,
        /// Why.
        source: bpf::Error,
    },
    /// A thread could not be started.
    #[error("a capture thread could not be started: {0}")]
    Thread(io::Error),
}

impl Error {
    /// The error for a step that lacks privilege.
    pub(crate) fn not_permitted(reason: impl ToString) -> Self {
        let program =
            std::env::current_exe().map_or_else(|_| "PROGRAM".into(), |path| path.display().to_string());
        Error::NotPermitted { reason: reason.to_string(), program }
    }
}
