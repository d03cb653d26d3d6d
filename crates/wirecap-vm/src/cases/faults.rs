//! Faults of interfaces in use: the capture continues or reports its end, captured packets are kept, and the
//! host gets its interface back.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use wirecap::{Capture, Diagnostic, Dispatch, PortEvent};
use wirecap_sys::netdev;
use wirecap_traffic::FrameSpec;

use super::{Case, command};
use wirecap_testing::{check, crew::Crew, running_command::partial, wait_until};

use crate::{
    host,
    machine::{CAPTURED, Machine, SENDER, Traffic, run, try_run},
    qemu::Cable,
};

pub(super) const CASES: [Case; 7] = [
    ("link-down-up", link_down_up),
    ("link-of-the-other-end", link_of_the_other_end),
    ("link-unplugged", link_unplugged),
    ("queues-taken", queues_taken),
    ("queues-added", queues_added),
    ("killed", killed),
    ("driver-unbound", driver_unbound),
];

const FRAMES: u64 = 1_000;

fn link_down_up(machine: &Machine) {
    link_goes_and_comes(machine, |capture| {
        run("ip", &["link", "set", CAPTURED, "down"]);
        wait_for_event(capture, &PortEvent::Down(CAPTURED.into()));
        run("ip", &["link", "set", CAPTURED, "up"]);
    });
}

fn link_of_the_other_end(machine: &Machine) {
    link_goes_and_comes(machine, |_| {
        run("ip", &["link", "set", SENDER, "down"]);
        run("ip", &["link", "set", SENDER, "up"]);
    });
}

/// The cable is pulled out of the captured NIC and plugged in again: wirecap reports that the carrier is
/// lost, then that it is back.
fn link_unplugged(machine: &Machine) {
    let mut cable = Cable::of(CAPTURED);
    link_goes_and_comes(machine, |capture| {
        cable.plug(false);
        wait_until("the carrier is lost", || !netdev::interface(CAPTURED).unwrap().carrier);
        wait_for_event(capture, &PortEvent::NoCarrier(CAPTURED.into()));
        cable.plug(true);
        wait_for_event(capture, &PortEvent::Up(CAPTURED.into()));
    });
}

/// The capture gets every frame sent before and after `interrupt`. None is sent during it: QEMU may hold such
/// frames until the link is back.
fn link_goes_and_comes(machine: &Machine, mut interrupt: impl FnMut(&mut Capture)) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut expected = 0;
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    expected += FRAMES;
    machine.wait_for(expected, &crew, &capture);
    for _ in 0..2 {
        interrupt(&mut capture);
        machine.wait_for_links();
        machine.spread();
        traffic.send(&capture, FRAMES);
        expected += FRAMES;
        machine.wait_for(expected, &crew, &capture);
    }
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    assert_eq!(report.total().delivered, expected);
    check::each_once(check::intact(&arrivals, FrameSpec::default()), expected, 0);
}

fn wait_for_event(capture: &mut Capture, expected: &PortEvent) {
    let mut seen = Vec::new();
    wait_until(&format!("{expected:?}"), || {
        seen.extend(capture.events());
        seen.contains(expected)
    });
}

/// `ethtool -L` tries to remove captured queues: the kernel refuses, because sockets use them, and the
/// capture continues.
fn queues_taken(machine: &Machine) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    let half = (machine.captured.queues / 2).to_string();
    // The kernel would also refuse to remove a queue that a configured RSS table uses.
    let _ = try_run("ethtool", &["-X", CAPTURED, "default"]);
    let refusal = try_run("ethtool", &["-L", CAPTURED, "combined", &half]).unwrap_err();
    println!("queues-taken: {refusal}");
    machine.spread();
    machine.wait_for_links();
    traffic.send(&capture, FRAMES);
    machine.wait_for(2 * FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    machine.finish(capture);
    check::each_once(check::intact(&arrivals, FrameSpec::default()), 2 * FRAMES, 0);
    machine.set_queues(machine.captured.queues);
}

/// `ethtool -L` adds queues during a capture: wirecap reports them, and counts their packets as passed to the
/// host. virtio-net refuses to add queues while an XDP program is attached.
fn queues_added(machine: &Machine) {
    let all = machine.captured.queues.to_string();
    machine.set_queues(machine.captured.queues / 2);
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    let outcome = try_run("ethtool", &["-L", CAPTURED, "combined", &all]);
    println!("queues-added: {outcome:?}");
    assert_eq!(outcome.is_err(), machine.captured.driver == "virtio_net");
    machine.wait_for_links();
    if outcome.is_ok() {
        let queues = machine.captured.queues;
        let added = Diagnostic::QueuesNotCaptured { captured: queues / 2, queues };
        wait_for_event(&mut capture, &PortEvent::Warning { port: CAPTURED.into(), warning: added });
    }
    machine.spread();
    traffic.send(&capture, FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen == 2 * FRAMES);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    let total = report.total();
    assert_eq!((total.seen, total.lost.total()), (2 * FRAMES, 0), "{report:#?}");
    assert_eq!(total.passed > 0, outcome.is_ok(), "the host gets the packets of other queues: {report:#?}");
    check::each_once(check::intact(&arrivals, FrameSpec::default()), 2 * FRAMES, total.passed);
    machine.set_queues(machine.captured.queues);
}

/// `kill -9` under traffic: the host gets its interface back, packets already in the file stay, and the
/// interface can be captured again.
fn killed(machine: &Machine) {
    let path = Path::new("/tmp/killed.pcapng");
    let running = command::start(machine, path, &[]);
    machine.wait_for_links();
    machine.spread();
    let spec = command::spec();
    let mut traffic = machine.traffic(spec);
    let before = while_sending(&mut traffic, || {
        running.wait_for_bytes(path, FRAMES * spec.len as u64);
        wait_until("the file grows", || in_file(path).packets.len() as u64 >= FRAMES);
        let before = in_file(path).packets.len();
        running.kill();
        machine.ledger.note_killed();
        machine.ledger.note_given_back();
        before
    });
    host::has_its_interface(machine);
    // The last block may be incomplete: the process died while it wrote it.
    let packets = in_file(path).packets;
    assert!(packets.len() >= before, "{} of {before} packets are left", packets.len());
    let sequences: BTreeSet<u64> =
        packets.iter().map(|packet| command::sequence_of(packet, spec.len)).collect();
    assert_eq!(sequences.len(), packets.len(), "no frame is in the file twice");
    assert!(sequences.range(..FRAMES / 2).count() as u64 == FRAMES / 2, "the first frames are complete");
    captures_again(machine);
}

/// The readable part of the file of a capture that still runs or was killed.
fn in_file(path: &Path) -> wirecap_lab::Capture {
    wirecap_lab::Capture::read(File::open(partial(path)).unwrap()).unwrap()
}

/// The driver is unbound from the NIC during a capture and bound again: once while no worker reads and no
/// frame arrives, when all earlier frames must still be delivered; once under traffic, with workers that wait
/// in the kernel.
fn driver_unbound(machine: &Machine) {
    let mut traffic = machine.traffic(FrameSpec::default());
    let mut capture = machine.capture(machine.builder());
    let workers = capture.take_workers();
    traffic.send(&capture, FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen == FRAMES);
    let driver = Driver::unbind();
    wait_until("the removal is reported", || capture.all_ports_gone() || !capture.events().is_empty());
    // Only now do workers read.
    let crew = Crew::eager(workers);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    assert!(report.ports[0].removed, "{report:#?}");
    check::each_once(check::intact(&arrivals, FrameSpec::default()), FRAMES, 0);
    driver.bind_again(machine);

    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let mut capture = machine.capture(machine.builder().dispatch(dispatch));
        let crew = Crew::eager(capture.take_workers());
        let driver = while_sending(&mut traffic, || {
            machine.wait_for(FRAMES / 2, &crew, &capture);
            let driver = Driver::unbind();
            wait_until("the removal is reported", || {
                capture.all_ports_gone() || !capture.events().is_empty()
            });
            driver
        });
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = machine.finish(capture);
        assert!(report.ports[0].removed, "{report:#?}");
        assert_eq!(report.total().seen, arrivals.len() as u64, "{report:#?}");
        check::in_order(&arrivals);
        let mut sequences = check::intact(&arrivals, FrameSpec::default());
        sequences.sort_unstable();
        check::increasing(&sequences);
        driver.bind_again(machine);
    }
    captures_again(machine);
}

/// The driver of [`CAPTURED`], unbound from its NIC.
pub(super) struct Driver {
    folder: PathBuf,
    device: String,
}

impl Driver {
    pub(super) fn unbind() -> Self {
        let device = fs::read_link(format!("/sys/class/net/{CAPTURED}/device")).unwrap();
        let device = device.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = fs::canonicalize(format!("/sys/class/net/{CAPTURED}/device/driver")).unwrap();
        fs::write(folder.join("unbind"), &device).unwrap();
        Self { folder, device }
    }

    /// Binds the driver to the NIC again and waits until the host has its interface.
    pub(super) fn bind_again(self, machine: &Machine) {
        machine.ledger.note_given_back();
        fs::write(self.folder.join("bind"), &self.device).unwrap();
        machine.set_up_again();
        host::has_its_interface(machine);
    }
}

/// Calls `work` while another thread sends frames slowly. Sending also stops if `work` panics.
fn while_sending<T>(traffic: &mut Traffic, work: impl FnOnce() -> T) -> T {
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                traffic.send_slowly(FRAMES / 10);
            }
        });
        let _stop = Stop(&stop);
        work()
    })
}

fn captures_again(machine: &Machine) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    machine.traffic(FrameSpec::default()).send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    crew.join();
    machine.finish(capture);
}
