//! Settings that are one of a few words.
//!
//! Rule: the first line of a variant's documentation is what the help says of it: one whole sentence.

use serde::{Deserialize, Serialize};
use wirecap_core::choices;

choices! {
    /// How chunks get from rings to workers.
    pub enum Dispatch = Pull {
        /// Capture threads hand chunks to workers.
        ///
        /// The paper's way: they drain the rings into capture queues, over T into a buddy's.
        Push = "push",
        /// The workers drain their own receive queues.
        ///
        /// There is no capture thread, and an idle worker helps a buddy over T.
        Pull = "pull",
    }
}

/// Which workers are buddies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// All workers: one application.
    #[default]
    All,
    /// These sets of workers, by their numbers. A worker that is in none is on its own.
    Sets(Vec<Vec<usize>>),
}

choices! {
    /// Which worker is home of which receive queue.
    pub enum Homes = InTurn {
        /// In turn over all ports, so that the queues are spread evenly.
        InTurn = "in-turn",
        /// Queue q of every port has the same worker, which can then forward between the ports.
        ByQueue = "by-queue",
        /// The first worker has all queues; the others only help it, in advanced mode.
        First = "first",
    }
}

choices! {
    /// Which transmitters can send a packet.
    pub enum Reach = All {
        /// All of the engine.
        ///
        /// The kernel keeps some 128 bytes for each cell of the engine with *each* socket: with many queues
        /// that is more than the cells.
        All = "all",
        /// Those of the worker that is home of the packet's queue.
        ///
        /// [`PacketAllocator`](crate::PacketAllocator) n goes with worker n, modulo their number
        /// ([`Transmitter::worker`](crate::Transmitter::worker)). Other transmitters refuse the packet as
        /// [`NotSendable`](crate::Refusal::NotSendable).
        Worker = "worker",
    }
}

choices! {
    /// What becomes of packets that the filter does not want, on a port that takes packets from the host.
    pub enum UnmatchedPolicy = Pass {
        /// The host gets them.
        ///
        /// What a filter in user space does not want has been taken from the host already and is dropped.
        Pass = "pass",
        /// They are dropped.
        Drop = "drop",
    }
}

choices! {
    /// How the NIC spreads packets over its receive queues.
    pub enum Rss = Keep {
        /// As it is set.
        Keep = "keep",
        /// Both directions of a connection to one queue; put back at the end.
        ///
        /// An error where the NIC cannot. Ports without a NIC have no RSS and are left alone.
        Symmetric = "symmetric",
    }
}

choices! {
    /// Which ways of attaching to an interface are tried.
    pub enum Modes = Best {
        /// The best that works: zero-copy, packed, copy, generic.
        ///
        /// The report says which, and why not a better one: as
        /// [`ModeUnavailable`](crate::Diagnostic::ModeUnavailable).
        Best = "best",
        /// The driver writes into the cells; else an error.
        ZeroCopy = "zero-copy",
        /// Native XDP: the program packs packets into blocks, one behind the other.
        ///
        /// There is no socket, and no other copy by the kernel. It takes Linux 5.18, CAP_PERFMON, a whole
        /// interface, chunks of at least 128 KiB, and two of them for each pool; tun has several writers for
        /// a queue and cannot do it. Packets in blocks are not sent on, nor changed in place:
        /// [`Batch::drain`](crate::Batch::drain) returns `None`. Losses are
        /// [`no_free_block`](crate::LossCounts::no_free_block).
        Packed = "packed",
        /// Native XDP, with one copy by the kernel.
        Copy = "copy",
        /// Works with every driver, slowly.
        Generic = "generic",
    }
}

choices! {
    /// Where a [tap](crate::Access::Tap) copies packets that come in. Those that leave are copied by traffic
    /// control in any case.
    pub enum TapHook = Tcx {
        /// In traffic control, where every device has its packets; nothing changes for the host.
        Tcx = "tcx",
        /// In native XDP, before the kernel makes socket buffers of them: faster.
        ///
        /// The host notices. A driver may reset its rings when the program comes and goes, and switches
        /// offloads off, such as large receives. It takes a driver with native XDP, and Linux 5.18 for
        /// packets of several buffers. An interface has one XDP program, so it can have no second such
        /// tap and no capture over AF_XDP at the same time.
        Xdp = "xdp",
    }
}

choices! {
    /// How workers and capture threads wait for packets.
    ///
    /// With all but [`Wait::Busy`], threads to which nothing has come for 2 ms, nor to their buddies, wait in
    /// the kernel until a packet comes, and take no CPU time until then.
    pub enum Wait = Sleep {
        /// Ask again at once; costs a core per thread, also in silence.
        Busy = "busy",
        /// Sleep, shorter than the pool could fill up.
        ///
        /// First 50 µs, then longer, up to a bound that follows from the size of the pool: a quarter of what
        /// it lasts at 10 Gbit/s, and 1 ms at most; while packets [wait for more](crate::port::LONGEST_HOLD),
        /// 8 ms.
        Sleep = "sleep",
        /// Sleep in the kernel until a packet comes.
        Block = "block",
    }
}

choices! {
    /// Where the times of packets come from.
    ///
    /// ```no_run
    /// use wirecap::{Capture, Timestamp};
    ///
    /// let capture = Capture::builder().port("xdp:eth1").timestamp(Timestamp::Kernel).open()?;
    /// println!("{:?}", capture.report().ports[0].timestamp.clock);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub enum Timestamp {
        /// The NIC stamps each packet, where its driver offers that to XDP; else an error.
        Hardware = "hardware",
        /// The XDP program stamps each packet, at some 50 ns each.
        ///
        /// Beside the host, AF_PACKET does.
        Kernel = "kernel",
        /// One time for all packets that one look finds; cheapest. The end says how far off it was.
        ///
        /// These packets are 1 ns apart, from when the reader first saw them in the ring. They came after its
        /// previous look: [`Batch::uncertainty_ns`](crate::Batch::uncertainty_ns).
        Batch = "batch",
        /// Each packet's time in a trace file, whatever is asked for; interfaces have no such times.
        File = "file",
    }
}
