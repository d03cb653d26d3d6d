//! What happens to interfaces that are in use: the capture goes on or ends with a word, nothing that was captured is lost, and
//! the host has its interface again.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use wirecap::{Capture, PortEvent};
use wirecap_sys::netdev;
use wirecap_traffic::FrameSpec;

use super::{Case, command};
use crate::{
    machine::{CAPTURED, Machine, SENDER, run, try_run},
    support::{check, crew::Crew, wait_until},
};

pub(super) const CASES: [Case; 6] = [
    ("link-down-up", link_down_up),
    ("link-of-the-other-end", link_of_the_other_end),
    ("queues-taken", queues_taken),
    ("queues-added", queues_added),
    ("killed", killed),
    ("driver-unbound", driver_unbound),
];

const FRAMES: u64 = 1_000;
/// By then the interface must be the host's again.
const HOSTS_AGAIN: Duration = Duration::from_secs(10);

fn link_down_up(machine: &Machine) {
    link_goes_and_comes(machine, CAPTURED);
}

fn link_of_the_other_end(machine: &Machine) {
    link_goes_and_comes(machine, SENDER);
}

fn link_goes_and_comes(machine: &Machine, nic: &str) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut expected = 0;
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    expected += FRAMES;
    machine.wait_for(expected, &crew, &capture);
    for _ in 0..2 {
        run("ip", &["link", "set", nic, "down"]);
        if nic == CAPTURED {
            wait_for_event(&mut capture, &PortEvent::Down(CAPTURED.into()));
        }
        run("ip", &["link", "set", nic, "up"]);
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

/// `ethtool -L` takes queues away that are captured: a driver in zero-copy is not allowed to, and the others go on or not as they
/// can; in any case nothing that came is lost, and the account closes.
fn queues_taken(machine: &Machine) {
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    let half = (machine.captured.queues / 2).to_string();
    let outcome = try_run("ethtool", &["-L", CAPTURED, "combined", &half]);
    assert!(outcome.is_err() || !machine.zero_copy, "sockets in zero-copy hold their queues");
    machine.wait_for_links();
    traffic.send(&capture, FRAMES);
    machine.wait_for(2 * FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    machine.finish(capture);
    check::each_once(check::intact(&arrivals, FrameSpec::default()), 2 * FRAMES, 0);
    machine.set_queues(machine.captured.queues);
}

/// `ethtool -L` adds queues to those that are captured: a driver that does it is told of, and what comes by the new queues is
/// the host's and counted as such.
fn queues_added(machine: &Machine) {
    let all = machine.captured.queues.to_string();
    machine.set_queues(machine.captured.queues / 2);
    let mut capture = machine.capture(machine.builder());
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    let outcome = try_run("ethtool", &["-L", CAPTURED, "combined", &all]);
    machine.wait_for_links();
    if outcome.is_ok() {
        wait_for_event(
            &mut capture,
            &PortEvent::QueuesAdded { port: CAPTURED.into(), queues: machine.captured.queues },
        );
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

/// `kill -9`: the interface is the host's at once, what was in the file stays, and it can be captured anew.
fn killed(machine: &Machine) {
    let path = Path::new("/tmp/killed.pcapng");
    let running = command::start(machine, path, &[]);
    machine.wait_for_links();
    machine.spread();
    let spec = command::spec();
    let mut traffic = machine.traffic(spec);
    traffic.send_slowly(FRAMES);
    let read = || {
        fs::File::open(path).map(|file| wirecap_file::Capture::read(file).map_or(vec![], |file| file.packets))
    };
    wait_until("all are in the file", || read().is_ok_and(|packets| packets.len() as u64 == FRAMES));
    running.kill();
    hosts_again();
    read().unwrap().iter().for_each(|packet| _ = command::sequence_of(packet, spec.len));
    captures_anew(machine);
}

/// The driver is taken from the NIC while it is captured, and given back.
fn driver_unbound(machine: &Machine) {
    let device = fs::read_link(format!("/sys/class/net/{CAPTURED}/device")).unwrap();
    let id = device.file_name().unwrap().to_str().unwrap().to_owned();
    let driver = fs::canonicalize(format!("/sys/class/net/{CAPTURED}/device/driver")).unwrap();
    let mut capture = machine.capture(machine.builder());
    let workers = capture.take_workers();
    let mut traffic = machine.traffic(FrameSpec::default());
    traffic.send(&capture, FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen == FRAMES);
    fs::write(driver.join("unbind"), &id).unwrap();
    wait_until("it is told", || capture.is_deserted() || !capture.events().is_empty());
    // Only now somebody reads.
    let crew = Crew::eager(workers);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    assert!(report.ports[0].removed, "{report:#?}");
    check::each_once(check::intact(&arrivals, FrameSpec::default()), FRAMES, 0);

    fs::write(driver.join("bind"), &id).unwrap();
    machine.set_up_again();
    captures_anew(machine);
}

/// The interface has no program and is not promiscuous, within seconds; and its link comes up.
fn hosts_again() {
    let begun = Instant::now();
    wait_until("the interface is the host's again", || {
        netdev::interface(CAPTURED)
            .is_ok_and(|nic| nic.xdp_programs.is_empty() && !nic.is_promiscuous() && nic.carrier)
    });
    assert!(begun.elapsed() < HOSTS_AGAIN, "after {:?}", begun.elapsed());
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
