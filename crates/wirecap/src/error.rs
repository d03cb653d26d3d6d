//! What can go wrong between opening a capture and its end, and what to do about it.

use std::io;

use crate::{
    Access, Diagnostic, PassiveReason, QueueSet, QueueSetError,
    diagnostic::{NicDataRefusal, PackingRefusal, RssRefusal, TapRefusal},
};
use thiserror::Error;
use wirecap_core::{GeometryError, chunk::MAX_RINGS};
use wirecap_sys::{
    bpf,
    clock::ClockError,
    memory::MemoryError,
    netdev::{self, AttachedMode},
    packed::PackedError,
    packet::PacketError,
    process::Process,
    xsk::XskError,
};

/// Why a capture could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No port was named.
    #[error("no interface to capture from; name at least one")]
    NoPort,
    /// A port is named twice.
    #[error("{0} is named twice; name each interface once, or different queues of it")]
    PortTwice(String),
    /// More ports or queues than chunk names can distinguish.
    #[error("{what}: {given} is more than the {most} an engine can have{}", instead_of_many(what))]
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
        "more workers ({workers}) than queues or cores that packets come by ({queues}): in basic mode a worker without one gets nothing"
    )]
    IdleWorkers {
        /// Workers asked for.
        workers: usize,
        /// Receive queues of all ports, and cores of taps.
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
    /// The setting asks for no worker.
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
    /// The cores of the machine are not known; a tapped interface has a stream for each.
    #[error("the cores of this machine cannot be listed: {0}; is /sys mounted?")]
    Cores(io::Error),
    /// There is no such interface, or it cannot be asked.
    #[error(transparent)]
    Interface(netdev::Error),
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
    /// The setting asks for a mode of XDP, and the interface is left to the host.
    #[error("a mode of XDP is asked for, but {name} is captured passively")]
    OnlyPassive {
        /// The interface.
        name: String,
        /// Why it is left to the host, if that was not asked for.
        reason: Option<PassiveReason>,
    },
    /// No link type is registered for packets of such an interface.
    #[error(
        "{name} is of type {kind}, which has no link type, so a file could not say what its packets are; tcpdump -i {name} may work"
    )]
    LinkType {
        /// Its name.
        name: String,
        /// Its type.
        kind: String,
    },
    /// The filter cannot be used.
    #[error(transparent)]
    Filter(#[from] wirecap_filter::Error),
    /// There is nothing to filter.
    #[error("{0} makes packets without contents, so there is nothing to filter; leave the filter out")]
    NoFilter(String),
    /// It cannot be captured passively.
    #[error("{name}: {source}")]
    Passive {
        /// The interface.
        name: String,
        /// Why.
        source: PacketError,
    },
    /// Its packets cannot be packed, which was asked for.
    #[error("packets of {name} cannot be packed")]
    NotPacked {
        /// The interface.
        name: String,
        /// Why not.
        reason: PackingRefusal,
    },
    /// It cannot be tapped, which was asked for.
    #[error("{name} cannot be tapped")]
    NotTapped {
        /// The interface.
        name: String,
        /// Why not.
        reason: TapRefusal,
    },
    /// Native XDP cannot copy what comes in by an interface, which was asked for.
    #[error("{name} cannot be tapped by native XDP: {reason}")]
    NotTappedByXdp {
        /// The interface.
        name: String,
        /// Why not.
        reason: XdpTapRefusal,
    },
    /// There is no memory for blocks.
    #[error("{name}: {source}")]
    Packed {
        /// The interface.
        name: String,
        /// Why.
        source: PackedError,
    },
    /// Another XDP program is attached to the interface.
    #[error(
        "{name} is held by the XDP program {program}{}; {}",
        behind(" of ", holders),
        take_off(*attachment, name, holders)
    )]
    Held {
        /// The interface.
        name: String,
        /// Name of the program.
        program: String,
        /// Processes that hold it; empty if unknown.
        holders: Vec<Process>,
        /// How it is attached.
        attachment: XdpAttachment,
    },
    /// The text behind the `@` of a name is no set of receive queues.
    #[error(
        "{name}: {source}; what `ip link` shows behind the @ is the other end of a pair, not part of the name"
    )]
    QueueSet {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        source: QueueSetError,
    },
    /// The interface does not have such a receive queue.
    #[error(
        "{name} has {queues} receive queue{}, so there is no {name}@{queue}; ethtool -L changes how many there are",
        if *queues == 1 { ", number 0".into() } else { format!("s, numbers 0 to {}", queues - 1) }
    )]
    NoSuchQueue {
        /// The interface.
        name: String,
        /// The queue that was asked for.
        queue: u16,
        /// Receive queues it has.
        queues: u32,
    },
    /// A receive queue whose number is higher than those that can be captured.
    #[error(
        "{name}@{queue} cannot be captured: wirecap captures the receive queues 0 to {} of an interface; name some of these, or reduce its queues with ethtool -L",
        MAX_RINGS - 1
    )]
    QueueNumber {
        /// The interface.
        name: String,
        /// The queue that was asked for.
        queue: u16,
    },
    /// An interface has more receive queues than can be captured.
    #[error(
        "{name} has {queues} receive queues, and wirecap captures {MAX_RINGS} of an interface at most; name some of them, as in \
         {name}@0-{}, or give it fewer: ethtool -L",
        MAX_RINGS - 1
    )]
    ManyQueues {
        /// The interface.
        name: String,
        /// Receive queues it has.
        queues: u32,
    },
    /// Beside the host, receive queues cannot be chosen.
    #[error(
        "{name}@{queues}: only AF_XDP can choose between receive queues, and {name} is captured passively"
    )]
    PassiveQueues {
        /// The interface.
        name: String,
        /// How its packets were to be got at.
        access: Access,
        /// The queues asked for.
        queues: QueueSet,
        /// Why it is left to the host, if that was not asked for.
        reason: Option<PassiveReason>,
    },
    /// Another process captures a receive queue.
    #[error("{name}@{queue} is captured by {holder}; end that capture, or take other queues")]
    QueueTaken {
        /// The interface.
        name: String,
        /// The queue.
        queue: u16,
        /// The process.
        holder: Process,
    },
    /// The capture wants the whole interface, and other processes capture some of its queues.
    #[error(
        "receive queues of {name} are captured by {}; end that{}",
        if holders.is_empty() { "another process".into() } else { list(holders) },
        free.map(|queue| format!(", or name queues that are free, as in {name}@{queue}")).unwrap_or_default()
    )]
    Shared {
        /// The interface.
        name: String,
        /// The processes; empty if unknown.
        holders: Vec<Process>,
        /// A receive queue that no process captures, if there is one.
        free: Option<u32>,
    },
    /// The capture wants some queues, and another process captures the whole interface.
    #[error(
        "{name} is captured as a whole{}; end that capture, or let it name its queues, too, without yours",
        behind(" by ", holders)
    )]
    TakenWhole {
        /// The interface.
        name: String,
        /// The processes; empty if unknown.
        holders: Vec<Process>,
    },
    /// The NIC cannot have both directions of a connection come in by one queue.
    #[error("RSS of {name} cannot be made symmetric")]
    Rss {
        /// The interface.
        name: String,
        /// Why not.
        reason: RssRefusal,
    },
    /// The setting asks for symmetric RSS on an interface that is captured passively.
    #[error("symmetric RSS is for interfaces captured over AF_XDP, and {0} is captured passively")]
    PassiveRss(String),
    /// The process may not join the processes that share the interface.
    #[error(
        "{name} is shared with other processes already, and joining them also needs the capability CAP_SYS_ADMIN ({reason})"
    )]
    JoinNotPermitted {
        /// The interface.
        name: String,
        /// Which step was refused.
        reason: String,
    },
    /// The setting asks for times of a file, and the port is no file.
    #[error(
        "{0} is no trace file, so its packets have no times of a file; use batch, kernel or hardware timestamps"
    )]
    NoFile(String),
    /// A trace file cannot be read.
    #[error("{name}: {source}")]
    Trace {
        /// The port.
        name: String,
        /// Why, and where.
        source: wirecap_file::Error,
    },
    /// The packet memory could not be set up.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The memory is too little for one chunk per pool.
    #[error("the packet memory is too little for a chunk of each pool")]
    LittleMemory {
        /// The setting, in bytes.
        bytes: u64,
        /// What works is at least this, in bytes.
        least: u64,
    },
    /// The memory is more than pools can have.
    #[error("the packet memory is more than the pools can have")]
    MuchMemory {
        /// The setting, in bytes.
        bytes: u64,
        /// The most that works, in bytes.
        most: u64,
    },
    /// Opening was [given up](crate::Builder::give_up).
    #[error("opening was given up, so nothing was captured")]
    GivenUp,
    /// No way of attaching to the interface worked.
    #[error("{name} cannot be captured over AF_XDP")]
    NoMode {
        /// The interface.
        name: String,
        /// What was tried, and why it failed.
        attempts: Vec<Diagnostic>,
    },
    /// The process lacks a privilege for a step, which it names.
    #[error(
        "capturing needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK, and CAP_PERFMON for the modes \
         packed and tap ({0})"
    )]
    NotPermitted(String),
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
    /// The NIC's own times of packets are not available.
    #[error("{name} has no hardware timestamps")]
    NoHardwareTimestamps {
        /// The port.
        name: String,
        /// Why not.
        reason: NicDataRefusal,
    },
    /// The NIC's hash of each packet is not available.
    #[error(
        "{name} has no receive hash; leave Builder::rx_hash out, or take an interface whose driver hands it to XDP programs"
    )]
    NoRxHash {
        /// The port.
        name: String,
        /// Why not.
        reason: NicDataRefusal,
    },
    /// Nothing in the kernel sees the packets of this port.
    #[error("{name} has no {source_name} timestamps, as its packets come from memory; use batch timestamps")]
    OnlyBatchTimestamps {
        /// The port.
        name: String,
        /// The setting.
        source_name: &'static str,
    },
    /// A clock that packets are stamped by cannot be read.
    #[error("{name}: {source}")]
    Clock {
        /// The interface.
        name: String,
        /// Why.
        source: ClockError,
    },
    /// A queue cannot send.
    #[error("queue {queue} of {port} cannot send: {source}; perhaps `ulimit -n` is too low")]
    Transmit {
        /// The port.
        port: String,
        /// Number of the queue.
        queue: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// A descriptor that threads wait on could not be opened.
    #[error("no descriptor to wait on: {0}; perhaps `ulimit -n` is too low")]
    Descriptor(io::Error),
    /// A thread could not be started.
    #[error("a capture thread could not be started: {0}")]
    Thread(io::Error),
}

/// Why native XDP cannot copy what comes in by an interface.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XdpTapRefusal {
    /// XDP programs see Ethernet packets only.
    #[error("it is of type {kind}, and XDP programs see Ethernet only")]
    NotEthernet {
        /// Its type.
        kind: String,
    },
    /// The driver runs no XDP programs.
    #[error("its driver does not offer it")]
    NotNative,
    /// A step failed, or another XDP program is in the place.
    #[error("{0}")]
    Failed(Box<Error>),
}

impl Error {
    /// As the reason why native XDP cannot copy what comes in by an interface. A lack of privilege stays as
    /// it is.
    pub(crate) fn of_xdp_tap(self, name: &str) -> Self {
        let reason = match self {
            Error::NotEthernet { kind, .. } => XdpTapRefusal::NotEthernet { kind },
            Error::Program { source: bpf::Error::Unsupported { .. }, .. } => XdpTapRefusal::NotNative,
            error @ (Error::NotPermitted(_) | Error::Down(_)) => return error,
            error => XdpTapRefusal::Failed(Box::new(error)),
        };
        Error::NotTappedByXdp { name: name.into(), reason }
    }
}

/// How another XDP program is attached to an interface, which decides how it is taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpAttachment {
    /// By a BPF link, which goes with the processes that hold it: nothing else can take its place.
    Link,
    /// Without a link, in this mode: `ip link` takes it off.
    Netlink(AttachedMode),
    /// This process may not list BPF links.
    Unknown,
}

/// What helps where a number is more than an engine can have.
fn instead_of_many(what: &str) -> &'static str {
    match what {
        "ports" => "; use several captures, or merge trace files first (mergecap)",
        "workers" => "; ask for fewer",
        _ => "",
    }
}

/// Processes in one text: `wirecap (pid 7), suricata (pid 9)`.
fn list(processes: &[Process]) -> String {
    processes.iter().map(Process::to_string).collect::<Vec<_>>().join(", ")
}

/// Processes behind a word; nothing if they are unknown.
fn behind(word: &str, processes: &[Process]) -> String {
    if processes.is_empty() { String::new() } else { format!("{word}{}", list(processes)) }
}

/// How an XDP program is taken off an interface.
fn take_off(attachment: XdpAttachment, interface: &str, holders: &[Process]) -> String {
    let mode = match attachment {
        XdpAttachment::Link | XdpAttachment::Unknown if holders.is_empty() => {
            return "end the process that attached it; bpftool net and bpftool link show the program".into();
        }
        XdpAttachment::Link | XdpAttachment::Unknown => return "end that process".into(),
        XdpAttachment::Netlink(AttachedMode::Native) => "xdp",
        XdpAttachment::Netlink(AttachedMode::Generic) => "xdpgeneric",
        XdpAttachment::Netlink(AttachedMode::Offload) => "xdpoffload",
    };
    format!("take it off, if nothing needs it: ip link set {interface} {mode} off")
}

impl From<netdev::Error> for Error {
    /// An `@` in a name that no interface has is meant for queues.
    fn from(error: netdev::Error) -> Self {
        let netdev::Error::NoSuchInterface { name, .. } = &error else { return Error::Interface(error) };
        match name.rsplit_once('@').map(|(_, queues)| queues.parse::<QueueSet>()) {
            Some(Err(source)) => Error::QueueSet { name: name.clone(), source },
            _ => Error::Interface(error),
        }
    }
}

#[cfg(test)]
mod tests;
