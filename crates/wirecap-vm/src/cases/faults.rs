//! What happens to interfaces that are in use: the capture goes on or ends with a word, nothing that was
//! captured is lost, and the host has its interface again.

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
use wirecap_testing::{check, crew::Crew, wait_until};

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

/// The cable is pulled out of the captured NIC and plugged in again: the carrier goes, which is told, and
/// comes.
fn link_unplugged(machine: &Machine) {
    let mut cable = Cable::of(CAPTURED);
    link_goes_and_comes(machine, |capture| {
        cable.plug(false);
        wait_until("the carrier is gone", || !netdev::interface(CAPTURED).unwrap().carrier);
        wait_for_event(capture, &PortEvent::NoCarrier(CAPTURED.into()));
        cable.plug(true);
        wait_for_event(capture, &PortEvent::Up(CAPTURED.into()));
    });
}

/// All frames come that are sent before the link was gone, and after. What is sent meanwhile QEMU may keep
/// until it is there again.
fn link_goes_and_comes(machine: &Machine, mut it_goes: impl FnMut(&mut Capture)) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut expected = 0;
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    expected += FRAMES;
    machine.wait_for(expected, &crew, &capture);
    for _ in 0..2 {
        it_goes(&mut capture);
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

/// `ethtool -L` takes queues away that are captured: the kernel refuses it, as sockets hold them, and the
/// capture goes on.
fn queues_taken(machine: &Machine) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    let half = (machine.captured.queues / 2).to_string();
    // A table that somebody has set would hold its queues, too.
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

/// `ethtool -L` adds queues to those that are captured: it is told, and what comes by the new queues is the
/// host's and counted as such. virtio-net refuses it while a program is on it.
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
    wait_until("all are seen", || capture.report().total().seen == 2 * FRAMES);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    let total = report.total();
    assert_eq!((total.seen, total.lost.total()), (2 * FRAMES, 0), "{report:#?}");
    assert_eq!(total.passed > 0, outcome.is_ok(), "the host has what comes by other queues: {report:#?}");
    check::each_once(check::intact(&arrivals, FrameSpec::default()), 2 * FRAMES, total.passed);
    machine.set_queues(machine.captured.queues);
}

/// `kill -9` under traffic: the interface is the host's at once, what was in the file stays, and it can be
/// captured anew.
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
    // The last block may be cut: it was being written.
    let packets = in_file(path).packets;
    assert!(packets.len() >= before, "{} of {before} packets are left", packets.len());
    let sequences: BTreeSet<u64> =
        packets.iter().map(|packet| command::sequence_of(packet, spec.len)).collect();
    assert_eq!(sequences.len(), packets.len(), "some are there twice");
    assert!(sequences.range(..FRAMES / 2).count() as u64 == FRAMES / 2, "what came first is whole");
    captures_anew(machine);
}

/// What can be read of a file that is being written, or was.
fn in_file(path: &Path) -> wirecap_lab::Capture {
    wirecap_lab::Capture::read(File::open(path).unwrap()).unwrap()
}

/// The driver is taken from the NIC while it is captured, and given back: once when nobody reads and nothing
/// comes, and all that came before must still be there; once under traffic, with threads that wait in the
/// kernel.
fn driver_unbound(machine: &Machine) {
    let mut traffic = machine.traffic(FrameSpec::default());
    let mut capture = machine.capture(machine.builder());
    let workers = capture.take_workers();
    traffic.send(&capture, FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen == FRAMES);
    let driver = Driver::unbind();
    wait_until("it is told", || capture.all_ports_gone() || !capture.events().is_empty());
    // Only now somebody reads.
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
            wait_until("it is told", || capture.all_ports_gone() || !capture.events().is_empty());
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
    captures_anew(machine);
}

/// The driver of [`CAPTURED`], when it has been taken from its NIC.
struct Driver {
    folder: PathBuf,
    device: String,
}

impl Driver {
    fn unbind() -> Self {
        let device = fs::read_link(format!("/sys/class/net/{CAPTURED}/device")).unwrap();
        let device = device.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = fs::canonicalize(format!("/sys/class/net/{CAPTURED}/device/driver")).unwrap();
        fs::write(folder.join("unbind"), &device).unwrap();
        Self { folder, device }
    }

    /// Gives it back, and waits until the host has its interface.
    fn bind_again(self, machine: &Machine) {
        machine.ledger.note_given_back();
        fs::write(self.folder.join("bind"), &self.device).unwrap();
        machine.set_up_again();
        host::has_its_interface(machine);
    }
}

/// Does something while frames come, one by one or a few at a time. Stops sending also when it panics.
fn while_sending<T>(traffic: &mut Traffic, something: impl FnOnce() -> T) -> T {
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
        something()
    })
}

fn captures_anew(machine: &Machine) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    machine.traffic(FrameSpec::default()).send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    crew.join();
    machine.finish(capture);
}
