//! Processes that share an interface are killed: the others continue, and queues without a process go to the
//! host.

use std::{
    env,
    net::UdpSocket,
    process::{Child, Command, Stdio},
    time::Duration,
};

use wirecap::{Builder, Capture, queue_devices};
use wirecap_lab::VethOptions;
use wirecap_sys::netdev;
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

/// Set to the captured port for the process that is killed: it runs this same test again.
const VICTIM: &str = "WIRECAP_TEST_QUEUES_VICTIM";
const TEST: &str =
    "queues_killed::a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host";

/// A process that captures a port until it is killed.
struct Victim(Child);

impl Victim {
    fn start(wire: &Wire, port: &str) -> Self {
        // Determined here: within the namespace of a test the path may differ.
        let program = env::current_exe().unwrap();
        let start = || {
            let mut command = Command::new(&program);
            command.args(["--exact", TEST, "--nocapture"]).env(VICTIM, port);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let victim = Self(wire.inside.enter(start));
        wait_until("the victim captures", || holders(wire).contains(&victim.0.id()));
        victim
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The process was killed already, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that capture queues.
fn holders(wire: &Wire) -> Vec<u32> {
    let devices = wire.inside.enter(|| queue_devices("in0")).unwrap();
    devices.into_iter().flat_map(|device| device.pids).collect()
}

/// With such a small M, frames longer than a cell are not split, but counted as lost.
fn victim_of(port: &str) -> Builder {
    Capture::builder().port(port).cells_per_chunk(8).chunks_per_pool(64)
}

fn capture_until_killed(port: &str) -> ! {
    let mut capture = victim_of(port).open().unwrap();
    Crew::eager(capture.take_workers()).join();
    unreachable!("this capture is not stopped");
}

#[test]
fn a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host() {
    if let Some(port) = env::var_os(VICTIM) {
        capture_until_killed(port.to_str().unwrap());
    }
    need_root!("queues_killed::a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host");
    // With this MTU the victim would count long frames as lost if it were alive.
    let addresses_b = vec!["198.19.0.1/15".into()];
    let wire =
        Wire::new("orphan", VethOptions { queues: 3, mtu: 3_000, addresses_b, ..VethOptions::default() });
    let mac = wire.inside.enter(|| netdev::interface("in0")).unwrap().mac.unwrap().0;
    let frame = |len| FrameSpec { len, destination_mac: mac, ..FrameSpec::default() };
    let small = || Capture::builder().chunks_per_pool(8);

    let mut founder = Victim::start(&wire, "xdp:in0@0");
    let mut capture = wire.capture_of("xdp:in0@1-2", small());
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.queue_sender(1, frame(60));
    sender.send(100);
    founder.kill();
    sender.send(100);
    crew.wait_for(200);

    // The victim's entry is still in the table; the host gets its packets, even long frames.
    let hears = host_listener(&wire);
    for (queue, len) in [(0, 60), (0, 3_014)] {
        let mut sender = wire.queue_sender(queue, frame(len));
        wait_until("the host hears", || {
            sender.send(1);
            hears()
        });
    }
    let devices = wire.inside.enter(|| queue_devices("in0")).unwrap();
    assert_eq!(
        devices.iter().map(|device| device.in_use).collect::<Vec<_>>(),
        [Some(false), Some(true), Some(true)]
    );

    // A successor takes the queue.
    let mut successor = wire.capture_of("xdp:in0@0", small());
    let successors = Crew::eager(successor.take_workers());
    wire.queue_sender(0, frame(60)).send(100);
    sender.send(100);
    successors.wait_for(100);
    crew.wait_for(300);
    for (capture, crew, packets) in [(successor, successors, 100), (capture, crew, 300)] {
        capture.stopper().stop();
        assert_eq!(crew.join().len(), packets);
        assert_eq!(check::account_closed(&capture.finish()).lost.total(), 0);
    }
    wire.assert_given_back();

    // All processes are killed: nothing is left.
    let mut victims = [Victim::start(&wire, "xdp:in0@2"), Victim::start(&wire, "xdp:in0@0-1")];
    victims.iter_mut().for_each(Victim::kill);
    wait_until("the dispatcher is gone", || !wire.is_captured());
    assert_eq!(wire.inside.enter(|| netdev::interface("in0")).unwrap().promiscuity, 0);
    let mut sender = wire.queue_sender(2, frame(60));
    wait_until("the host hears", || {
        sender.send(1);
        hears()
    });
    drop(wire.capture_of("xdp:in0", small()));
}

/// Returns a function that reports whether one of our frames has reached the host since its last call.
fn host_listener(wire: &Wire) -> impl Fn() -> bool {
    let listener = wire.inside.enter(|| UdpSocket::bind("198.19.0.1:9")).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    move || {
        let mut buffer = [0; 4096];
        let mut heard = false;
        while listener.recv(&mut buffer).is_ok_and(|len| len >= 12) {
            heard = true;
        }
        heard
    }
}
