//! Captures of some queues notice changes by other programs, and undo them.

use wirecap::{Builder, Capture, Diagnostic, PortEvent, diagnostic::Recovery};
use wirecap_sys::{bpf, netdev};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

/// Name of the table shared by all captures of an interface.
const TABLE: &str = "wirecap_queues";

fn small() -> Builder {
    Capture::builder().chunks_per_pool(8)
}

/// Removes queues from the table, as the kernel does when it empties it late.
fn lose(wire: &Wire, queues: &[u32]) {
    let interface = wire.inside.enter(|| netdev::interface("in0")).unwrap();
    let table = bpf::shared_map(interface.xdp_programs[0].program_id, TABLE).unwrap().unwrap();
    for queue in queues {
        assert!(table.map.delete(&queue.to_ne_bytes()).unwrap(), "queue {queue} was in the table");
    }
}

/// The losses reported since the last call.
fn lost(capture: &mut Capture) -> Vec<PortEvent> {
    let mut events = capture.events();
    events.retain(|event| matches!(event, PortEvent::Warning { warning: Diagnostic::QueuesLost { .. }, .. }));
    events
}

#[test]
fn vanished_entries_are_written_again_and_reported() {
    need_root!("queues_upkeep::vanished_entries_are_written_again_and_reported");
    let wire = Wire::with_queues("vanish", 4);
    let mut capture = wire.capture_of("in0@0-2", small());
    let other = wire.capture_of("in0@3", small());
    let crew = Crew::eager(capture.take_workers());
    let mut senders: Vec<_> = (0..3).map(|queue| wire.queue_sender(queue, FrameSpec::default())).collect();
    senders.iter_mut().for_each(|sender| sender.send(100));
    crew.wait_for(300);
    assert_eq!(lost(&mut capture), []);

    lose(&wire, &[0, 1]);
    senders[0].send(100);
    let queues = "0-1".parse().unwrap();
    let expected = PortEvent::Warning {
        port: "in0@0-2".into(),
        warning: Diagnostic::QueuesLost { queues, recovery: Recovery::Restored },
    };
    wait_until("the loss is reported", || lost(&mut capture).contains(&expected));
    senders.iter_mut().for_each(|sender| sender.send(100));
    crew.wait_for(600);

    capture.stopper().stop();
    assert_eq!(lost(&mut capture), [], "the loss was reported once, and the end is no loss");
    assert_eq!(crew.join().len(), 600, "frames sent in between go to the host");
    let report = capture.finish();
    check::account_closed(&report);
    let [warning] = &report.ports[0].warnings[..] else { panic!("{:?}", report.ports[0].warnings) };
    let queues = "0-1".parse().unwrap();
    assert_eq!(*warning, Diagnostic::QueuesLost { queues, recovery: Recovery::Restored });
    let report = other.finish();
    assert_eq!(report.ports[0].warnings, []);
    wire.assert_given_back();
}
