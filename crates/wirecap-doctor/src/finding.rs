//! What a rule finds: its evidence, how much it costs, and what would change it.
//!
//! Rule: a rule is declared once, here, with its name, what it looks at, and its evidence. The names are
//! stable: scripts compare them.

use serde::Serialize;
use wirecap_core::choices;

use crate::{
    setting::Change,
    snapshot::{CaptureMode, FileSystem, KernelVersion, Sysctl},
};

choices! {
    /// How much a finding costs.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Packets are lost or damaged, or a capture is not possible as asked.
        Problem = "problem",
        /// Packets are lost under load.
        Warning = "warning",
        /// It costs speed, or matters in some captures.
        Hint = "hint",
    }
}

choices! {
    /// A defect of a driver with AF_XDP.
    pub enum DriverDefect {
        /// Opening or closing AF_XDP sockets under load can stop the NIC for good (ice, before Linux 6.11).
        IceQueueRestart = "ice-queue-restart",
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The interface; `None` if it is of the machine.
    pub interface: Option<String>,
    /// How much it costs.
    pub severity: Severity,
    /// What the rule saw.
    pub evidence: Evidence,
    /// What would change it, as far as it is a setting; empty if it is not.
    pub changes: Vec<Change>,
}

impl Finding {
    /// The rule.
    pub fn rule(&self) -> Rule {
        self.evidence.rule()
    }
}

/// Declares the rules, each with what it looks at and its evidence.
macro_rules! rules {
    ($(
        #[doc = $first:literal]
        $Rule:ident = $name:literal {
            $($(#[doc = $field_doc:literal])+ $field:ident: $Field:ty,)*
        }
    )+) => {
        choices! {
            /// A rule.
            #[derive(PartialOrd, Ord)]
            pub enum Rule {
                $(#[doc = $first] $Rule = $name,)+
            }
        }

        /// What a rule saw.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "rule")]
        pub enum Evidence {
            $(
                #[doc = $first]
                #[serde(rename = $name)]
                $Rule { $($(#[doc = $field_doc])+ $field: $Field,)* },
            )+
        }

        impl Evidence {
            /// The rule.
            pub fn rule(&self) -> Rule {
                match self {
                    $(Self::$Rule { .. } => Rule::$Rule,)+
                }
            }
        }
    };
}

rules! {
    /// The number of receive queues against the cores that may serve them.
    QueuesBeyondCores = "queues-beyond-cores" {
        /// Receive queues.
        queues: u32,
        /// Cores that the process may use.
        cores: u32,
    }
    /// An interface with one receive queue that could have more.
    SingleQueue = "single-queue" {
        /// Queues that can be configured.
        possible: u32,
        /// Cores that the process may use.
        cores: u32,
    }
    /// The RSS table: queues that get no flow, or fewer than others.
    RssTable = "rss-table" {
        /// Queues that get none.
        unused: Vec<u32>,
        /// Entries of the queue with the fewest.
        fewest: u32,
        /// Entries of the queue with the most.
        most: u32,
    }
    /// Whether both directions of a connection come in by the same queue.
    RssDirections = "rss-directions" {
        /// Kinds of flows whose directions are hashed by different fields.
        lopsided_flows: Vec<String>,
    }
    /// Whether flows are hashed by ports as well as by addresses.
    RssPorts = "rss-ports" {
        /// Kinds of flows that are hashed by addresses alone.
        flows: Vec<String>,
    }
    /// An RSS key of zeros, by which every packet has the same hash.
    RssKey = "rss-key" {
        /// Bytes of the key.
        key_bytes: u32,
    }
    /// Large receive offload.
    Lro = "lro" {
        /// The kernel's name of the offload.
        offload: String,
    }
    /// Packets that the NIC joins into longer ones (hardware GRO).
    HardwareGro = "hardware-gro" {
        /// The kernel's name of the offload.
        offload: String,
    }
    /// VLAN tags that the NIC takes off and the driver does not hand to XDP programs.
    VlanStripping = "vlan-stripping" {
        /// The kernel's name of the offload.
        offload: String,
    }
    /// Pause frames that the NIC sends when it has no room.
    PauseFrames = "pause-frames" {
        /// Whether they are negotiated with the other end.
        negotiated: bool,
    }
    /// The number of receive descriptors against what the NIC can have.
    RingSize = "ring-size" {
        /// Descriptors of a queue.
        descriptors: u32,
        /// Most that it can have.
        possible: u32,
    }
    /// Interrupt moderation that the driver adapts to the traffic.
    AdaptiveCoalescing = "adaptive-coalescing" {
        /// The delay now, in microseconds.
        rx_usecs: u32,
    }
    /// The delay of interrupts against the receive ring.
    LongCoalescing = "long-coalescing" {
        /// The delay, in microseconds.
        rx_usecs: u32,
        /// Frames that can come in this time.
        frames: u64,
        /// Descriptors of a queue.
        descriptors: u32,
    }
    /// Deferred interrupts without the timer that replaces them.
    NapiDefer = "napi-defer" {
        /// `napi_defer_hard_irqs`
        polls: u32,
    }
    /// The timer that replaces deferred interrupts against the receive ring.
    GroFlushTimeout = "gro-flush-timeout" {
        /// `gro_flush_timeout`, in nanoseconds.
        timeout_ns: u64,
        /// Frames that can come in this time.
        frames: u64,
        /// Descriptors of a queue; 512 if the driver does not say.
        descriptors: u32,
    }
    /// Queues that are polled by kernel threads.
    ThreadedNapi = "threaded-napi" {
        /// Receive queues.
        queues: u32,
    }
    /// Packets that other processors handle (RPS).
    Rps = "rps" {
        /// Queues with a mask of processors.
        queues: Vec<u32>,
    }
    /// Busy polling of all sockets of the machine.
    BusyPoll = "busy-poll" {
        /// The setting.
        sysctl: Sysctl,
        /// Microseconds.
        usecs: u64,
    }
    /// The MTU against what XDP takes in the driver.
    MtuBeyondXdp = "mtu-beyond-xdp" {
        /// The MTU.
        mtu: u32,
        /// About the most without packets of several buffers.
        limit: u32,
    }
    /// The MTU against a cell, where a packet cannot span several.
    MtuBeyondCell = "mtu-beyond-cell" {
        /// The MTU.
        mtu: u32,
        /// The size of a cell.
        cell_bytes: u32,
        /// The longest frame that fits it.
        room: u32,
    }
    /// A driver without native XDP.
    GenericXdp = "generic-xdp" {
        /// The driver.
        driver: String,
    }
    /// A veth device with fewer receive queues than its other end has transmit queues.
    VethQueues = "veth-queues" {
        /// Receive queues.
        queues: u32,
        /// Most that it can have.
        possible: u32,
    }
    /// A driver that has zero-copy in later kernels.
    ZeroCopyKernel = "zero-copy-kernel" {
        /// The driver.
        driver: String,
        /// The first kernel in which it has zero-copy.
        since: KernelVersion,
        /// The kernel that runs.
        running: KernelVersion,
    }
    /// Drivers that use whole KiB of a cell in zero-copy.
    ZeroCopyCells = "zero-copy-cells" {
        /// The driver.
        driver: String,
        /// The size of a cell.
        cell_bytes: u32,
        /// The longest frame that fits it.
        room: u32,
        /// The longest frame of the interface.
        longest: u32,
    }
    /// Zero-copy of a virtio device that does not let the host translate addresses.
    VirtioZeroCopy = "virtio-zero-copy" {
        /// The driver.
        driver: String,
    }
    /// Known defects of the driver with AF_XDP in this kernel.
    DriverDefect = "driver-defect" {
        /// The driver.
        driver: String,
        /// The defect.
        defect: DriverDefect,
        /// The first kernel without it.
        fixed_in: KernelVersion,
        /// The kernel that runs.
        running: KernelVersion,
    }
    /// XDP programs of others on the interface.
    OtherXdpProgram = "other-xdp-program" {
        /// Its number in the kernel.
        id: u32,
        /// Its name, if it is known.
        name: Option<String>,
        /// The processes that keep it attached, as far as they are visible.
        processes: Vec<String>,
    }
    /// Interrupts of several queues on one processor while others have none.
    InterruptSharing = "interrupt-sharing" {
        /// The processor.
        cpu: u32,
        /// The interrupts that it serves.
        interrupts: Vec<u32>,
        /// Processors that serve none.
        idle_cpus: Vec<u32>,
    }
    /// Interrupts on processors of another memory node than the NIC's.
    InterruptNode = "interrupt-node" {
        /// The memory node of the NIC.
        node: u32,
        /// The interrupts that are served elsewhere.
        interrupts: Vec<u32>,
    }
    /// A daemon that moves interrupts while a capture runs.
    Irqbalance = "irqbalance" {
        /// Interrupts of receive queues that it can move.
        interrupts: u32,
    }
    /// Isolated cores that are all on another memory node than the NIC.
    IsolatedCores = "isolated-cores" {
        /// The memory node of the NIC.
        node: u32,
        /// The isolated cores.
        isolated: Vec<u32>,
    }
    /// Processors whose clock frequency follows the load.
    Governor = "governor" {
        /// How the frequency is chosen.
        governor: String,
        /// The processors.
        cpus: Vec<u32>,
    }
    /// States of idle processors that take long to leave.
    IdleStates = "idle-states" {
        /// The name of the slowest.
        name: String,
        /// How long it takes to leave it, in microseconds.
        latency_us: u32,
        /// The processors.
        cpus: Vec<u32>,
    }
    /// Time that the hypervisor gives to others.
    StealTime = "steal-time" {
        /// Percent of the time since the start.
        percent: f64,
    }
    /// The limit of locked memory against what cells need.
    LockedMemory = "locked-memory" {
        /// The limit, in bytes.
        limit_bytes: u64,
        /// What the cells of all queues take by default, in bytes.
        needed_bytes: u64,
    }
    /// The limit of the control group against what pools need.
    CgroupMemory = "cgroup-memory" {
        /// The limit, in bytes.
        limit_bytes: u64,
        /// Bytes in use.
        used_bytes: u64,
        /// What the pools of all queues take by default, in bytes.
        needed_bytes: u64,
    }
    /// Whether the process may use memory of the NIC's node.
    MemoryNode = "memory-node" {
        /// The memory node of the NIC.
        node: u32,
        /// The nodes that it may use.
        allowed: Vec<u32>,
    }
    /// BPF programs that are interpreted.
    BpfInterpreted = "bpf-interpreted" {
        /// The setting.
        sysctl: Sysctl,
    }
    /// Constants of BPF programs that are hidden, for every user.
    BpfHardening = "bpf-hardening" {
        /// The setting.
        sysctl: Sysctl,
    }
    /// A clock reading before and after each run of a BPF program.
    BpfStatistics = "bpf-statistics" {
        /// The setting.
        sysctl: Sysctl,
    }
    /// Rounds of polling that ended with packets left.
    SoftirqBudget = "softirq-budget" {
        /// Rounds that ended so.
        squeezed: u64,
        /// Packets that were handled.
        processed: u64,
        /// Packets that a round may take; null if unknown.
        budget: Option<u64>,
    }
    /// Packets that the kernel's backlog had no room for.
    Backlog = "backlog" {
        /// Packets that were dropped.
        dropped: u64,
        /// Packets that were handled.
        processed: u64,
        /// Packets that may wait; null if unknown.
        limit: Option<u64>,
    }
    /// The clock that the kernel reads the time from.
    ClockSource = "clock-source" {
        /// The clock.
        source: String,
        /// A faster one that this machine has; null if it has none.
        faster: Option<String>,
    }
    /// Whether something keeps the system clock right.
    ClockSynchronisation = "clock-synchronisation" {
        /// The clock that the kernel reads the time from; null if unknown.
        source: Option<String>,
    }
    /// The kind of file system that packets are written to.
    DiskFileSystem = "disk-file-system" {
        /// The directory.
        path: String,
        /// The type of its file system.
        type_name: String,
        /// What kind of file system that is.
        kind: FileSystem,
    }
    /// Whether the file system takes writes past the page cache.
    DiskDirectIo = "disk-direct-io" {
        /// The directory.
        path: String,
        /// The type of its file system.
        type_name: String,
    }
    /// Free space against the speed of the links.
    DiskSpace = "disk-space" {
        /// The directory.
        path: String,
        /// Bytes that are free.
        free_bytes: u64,
        /// Seconds until they are used up at the full speed of the links.
        seconds: u64,
    }
    /// The measured speed of the disk against that of the links.
    DiskSpeed = "disk-speed" {
        /// The directory.
        path: String,
        /// Bytes per second that were written.
        measured: u64,
        /// Bytes per second of the links.
        needed: u64,
    }
    /// Packets that the NIC had no buffer for, since the driver was loaded.
    NicMissed = "nic-missed" {
        /// Packets that were missed.
        missed: u64,
        /// Packets that were received.
        received: u64,
    }
    /// An earlier capture: it lost packets, and its process hardly ran for a time.
    ProcessStood = "process-stood" {
        /// For how long, in seconds.
        seconds: f64,
    }
    /// An earlier capture: packets lost because the pool was used up.
    LostNoBuffer = "lost-no-buffer" {
        /// The port.
        port: String,
        /// Packets lost.
        lost: u64,
        /// Packets that came.
        seen: u64,
    }
    /// An earlier capture: packets lost because the kernel's ring was full.
    LostRingFull = "lost-ring-full" {
        /// The port.
        port: String,
        /// Packets lost.
        lost: u64,
        /// Packets that came.
        seen: u64,
    }
    /// An earlier capture: packets that were longer than a cell.
    LostTooLong = "lost-too-long" {
        /// The port.
        port: String,
        /// Packets lost.
        lost: u64,
        /// Packets that came.
        seen: u64,
    }
    /// An earlier capture: packets that the NIC or its driver dropped.
    LostBeforeXdp = "lost-before-xdp" {
        /// The port.
        port: String,
        /// Packets lost.
        lost: u64,
        /// Packets that came.
        seen: u64,
    }
    /// An earlier capture: one queue had most of the packets, and nearly all of those lost for want of room.
    SkewedQueues = "skewed-queues" {
        /// The port.
        port: String,
        /// The queue.
        queue: u32,
        /// Its packets, in percent.
        percent: u64,
        /// Queues that were captured.
        queues: u32,
        /// Whether workers helped each other; null if unknown.
        mode: Option<CaptureMode>,
        /// T, in percent; null in basic mode, or if unknown.
        threshold_percent: Option<u8>,
        /// R; null if unknown.
        chunks_per_pool: Option<u32>,
    }
}
