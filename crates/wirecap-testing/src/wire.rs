//! Two namespaces joined by a veth pair: one sends, the other has the capture.

use std::{
    cell::RefCell,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{CopySender, LiveSender, PacketSender, SendAccount, SendPath};
use wirecap::{Builder, Capture, Error};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::{cpu, netdev};
use wirecap_traffic::{FrameSpec, LiveOptions, Template};

/// The sending end.
pub const SENDER: &str = "out0";
/// The captured end.
pub const PORT: &str = "in0";

/// Frames in flight at most: fewer than the 256 that a veth's ring holds, so that none is lost.
const IN_FLIGHT: u32 = 64;

thread_local! {
    /// The namespaces of this test, for [`explain_all`].
    static NAMESPACES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The kernel's counters of this test's interfaces, to explain missing frames.
pub fn explain_all() -> String {
    let counters = |namespace: &String| {
        let output = Command::new("ip").args(["-n", namespace, "-s", "-s", "link", "show"]).output();
        output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into())
    };
    NAMESPACES.with_borrow(|names| names.iter().map(counters).collect::<Vec<_>>().join("\n"))
}

/// A veth pair.
pub struct Wire {
    /// The namespace that sends.
    pub outside: Namespace,
    /// The namespace with the capture.
    pub inside: Namespace,
    /// The pair: end a sends, end b is captured.
    pub veth: VethPair,
}

impl Wire {
    /// A pair with two new namespaces.
    pub fn new(label: &str, options: VethOptions) -> Self {
        let outside = Namespace::new(&format!("{label}_out")).unwrap();
        let inside = Namespace::new(&format!("{label}_in")).unwrap();
        let veth = VethPair::new(&outside, SENDER, &inside, PORT, options).unwrap();
        NAMESPACES.with_borrow_mut(|names| names.extend([&outside, &inside].map(|one| one.name().into())));
        Self { outside, inside, veth }
    }

    /// A pair whose ends have `queues` queues.
    pub fn with_queues(label: &str, queues: u32) -> Self {
        Self::new(label, VethOptions { queues, ..VethOptions::default() })
    }

    /// Opens a capture of end b.
    #[track_caller]
    pub fn capture(&self, builder: Builder) -> Capture {
        self.try_capture(builder).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens a capture of end b, or returns the error.
    pub fn try_capture(&self, builder: Builder) -> Result<Capture, Error> {
        self.try_capture_of(PORT, builder)
    }

    /// Opens a capture of a port in the namespace inside, such as `in0@0-2`.
    #[track_caller]
    pub fn capture_of(&self, port: &str, builder: Builder) -> Capture {
        self.try_capture_of(port, builder).unwrap_or_else(|error| panic!("{port}: {error}"))
    }

    /// Opens a capture of a port in the namespace inside, or returns the error.
    pub fn try_capture_of(&self, port: &str, builder: Builder) -> Result<Capture, Error> {
        self.inside.enter(|| builder.port(port).open())
    }

    /// The account and the kernel's counters of both ends, to explain missing frames.
    pub fn explain(&self, capture: &Capture) -> String {
        let counters = |namespace: &Namespace, end| {
            namespace.ip(&["-s", "-s", "link", "show", "dev", end]).unwrap_or_else(|error| error.to_string())
        };
        let (out, inside) = (counters(&self.outside, SENDER), counters(&self.inside, PORT));
        format!("{:#?}\n{out}\n{inside}", capture.report())
    }

    /// A generator of live frames, for [`Wire::live`].
    pub fn generator(&self, frame: FrameSpec) -> LiveSender {
        let ifindex = self.veth.a().ifindex().unwrap();
        let options = LiveOptions { frame, ..LiveOptions::default() };
        self.outside.enter(|| LiveSender::new(ifindex, options)).unwrap()
    }

    /// Sends live frames from a core. The core decides the receive queue: core modulo queues.
    pub fn live(&self, generator: &mut LiveSender, core: usize, frames: u64) -> SendAccount {
        self.outside.enter(|| {
            cpu::pin_to_core(core).unwrap();
            generator.run(frames).unwrap()
        })
    }

    /// A sender of any frames.
    pub fn packet_sender(&self) -> PacketSender {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.outside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap()
    }

    /// A sender of numbered frames into one receive queue.
    pub fn queue_sender(&self, queue: u16, frame: FrameSpec) -> QueueSender {
        let ifindex = self.veth.a().ifindex().unwrap();
        let open = || CopySender::open(ifindex, queue, IN_FLIGHT).unwrap();
        let transmitter = self.outside.enter(open);
        let template = Template::new(frame).unwrap();
        QueueSender { transmitter, template, flow: u32::from(queue), next: 0 }
    }

    /// Whether an XDP program is attached to end b.
    pub fn is_captured(&self) -> bool {
        !self.inside.enter(|| netdev::interface(PORT)).unwrap().xdp_programs.is_empty()
    }

    /// Asserts that no XDP program is left on end b.
    #[track_caller]
    pub fn assert_given_back(&self) {
        let deadline = Instant::now() + LISTING;
        while self.is_captured() {
            assert!(Instant::now() < deadline, "an XDP program is still attached");
            thread::yield_now();
        }
    }
}

/// How long another process may hold the link of our program: one that lists the links of the machine does so
/// for a moment.
const LISTING: Duration = Duration::from_secs(2);

/// Sends numbered frames of one flow from one transmit queue. On a veth they arrive in the receive queue of
/// the same number.
pub struct QueueSender {
    transmitter: CopySender,
    template: Template,
    flow: u32,
    next: u64,
}

impl QueueSender {
    /// Sends `frames` frames. Returns once the other end has taken them from the wire.
    #[track_caller]
    pub fn send(&mut self, frames: u64) {
        let end = self.next + frames;
        while self.next < end {
            let batch = (end - self.next).min(u64::from(IN_FLIGHT));
            let stamped: Vec<Vec<u8>> = (self.next..self.next + batch)
                .map(|sequence| self.template.stamp(self.flow, sequence).to_vec())
                .collect();
            self.next += self.transmitter.send(stamped.iter().map(Vec::as_slice)).unwrap();
            assert!(self.transmitter.finish(crate::PATIENCE).unwrap(), "the kernel sends all frames");
        }
    }

    /// Frames sent so far, which is the next sequence number.
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// Sends frames. After each few, waits while `is_too_many`, given the number of frames sent so far, is
    /// true.
    #[track_caller]
    pub fn send_while(&mut self, frames: u64, mut is_too_many: impl FnMut(u64) -> bool) {
        let end = self.next + frames;
        while self.next < end {
            self.send((end - self.next).min(u64::from(IN_FLIGHT)));
            let sent = self.next;
            crate::wait_until("the workers keep up", || !is_too_many(sent));
        }
    }
}

/// Gives an unwanted event time to happen. This is the only fixed sleep of the tests; a slow machine makes a
/// test weaker but never makes it fail.
pub fn give_it_a_chance() {
    thread::sleep(Duration::from_millis(100));
}
