//! Several interfaces in one capture.

use wirecap::{Capture, Dispatch, Mode, Modes};
use wirecap_lab::{VethOptions, VethPair};
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, Template};

use wirecap_testing::{CopySender, check, crew::Crew, need_root, wire::Wire};

/// The frames of each port have their own length.
const LENGTHS: [usize; 2] = [60, 200];

fn spec(port: usize) -> FrameSpec {
    FrameSpec { len: LENGTHS[port], ..FrameSpec::default() }
}

#[test]
fn packets_of_each_port_are_distinguished() {
    need_root!("several_ports::packets_of_each_port_are_distinguished");
    for (dispatch, mode) in [
        (Dispatch::Pull, Mode::Basic),
        (Dispatch::Push, Mode::Basic),
        (Dispatch::Pull, Mode::Advanced { threshold_percent: 0 }),
        (Dispatch::Push, Mode::Advanced { threshold_percent: 0 }),
    ] {
        let wire = Wire::with_queues("ports", 2);
        let options = VethOptions { queues: 3, ..VethOptions::default() };
        let second = VethPair::new(&wire.outside, "out1", &wire.inside, "in1", options).unwrap();
        let builder = Capture::builder().chunks_per_pool(8).dispatch(dispatch).mode(mode);
        let mut capture = wire.inside.enter(|| builder.port("in0").port("in1").open()).unwrap();
        let crew = Crew::eager(capture.take_workers());
        for (port, pair) in [&wire.veth, &second].into_iter().enumerate() {
            let ifindex = pair.a().ifindex().unwrap();
            for queue in 0..2 + port as u16 {
                let open = || CopySender::open(ifindex, queue, 64).unwrap();
                let mut transmitter = wire.outside.enter(open);
                let mut template = Template::new(spec(port)).unwrap();
                for sequence in 0..300 {
                    let frame = template.stamp(queue.into(), sequence);
                    transmitter.send(std::iter::once(frame)).unwrap();
                    assert!(transmitter.finish(wirecap_testing::PATIENCE).unwrap());
                }
            }
        }
        crew.wait_for(5 * 300);
        capture.stopper().stop();

        let arrivals = crew.join();
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).delivered, 5 * 300, "{dispatch:?} {mode:?}");
        let queues = check::in_order(&arrivals);
        assert_eq!(queues.keys().copied().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
        for (&(port, _), packets) in &queues {
            check::each_once(check::intact(packets.iter().copied(), spec(port)), 300, 0);
        }
        let names: Vec<_> = report.ports.iter().map(|port| (port.name.as_str(), port.queues.len())).collect();
        assert_eq!(names, [("in0", 2), ("in1", 3)]);
        assert!(
            report.ports.iter().flat_map(|port| &port.queues).all(|queue| queue.account.delivered == 300)
        );
        check::pools_whole(&report);
    }
}

#[test]
fn ports_with_different_mtus_can_be_combined() {
    need_root!("several_ports::ports_with_different_mtus_can_be_combined");
    let wire = Wire::with_queues("mtus", 1);
    let options = VethOptions { mtu: 9_000, ..VethOptions::default() };
    let second = VethPair::new(&wire.outside, "out1", &wire.inside, "in1", options).unwrap();
    let orders = [["in0", "in1"], ["in1", "in0"]];
    for (order, modes, large_parts) in
        orders.into_iter().flat_map(|order| [(order, Modes::Copy, 6), (order, Modes::Best, 1)])
    {
        let builder = Capture::builder().chunks_per_pool(8).port(order[0]).port(order[1]).modes(modes);
        let mut capture = wire.inside.enter(|| builder.open()).unwrap();
        let crew = Crew::eager(capture.take_workers());
        for (pair, len) in [(&wire.veth, 1_514), (&second, 9_014)] {
            let ifindex = pair.a().ifindex().unwrap();
            let open = || PacketSender::open(ifindex, SendPath::Queueing).unwrap();
            wire.outside.enter(open).send(&vec![3; len]).unwrap();
        }
        crew.wait_for(2);
        capture.stopper().stop();
        for arrival in crew.join() {
            let (len, parts) = if order[arrival.port] == "in0" { (1_514, 1) } else { (9_014, large_parts) };
            assert_eq!((arrival.bytes.len(), arrival.parts), (len, parts), "{order:?}");
        }
        let report = capture.finish();
        check::account_closed(&report);
        assert_eq!(report.ports.iter().filter(|port| port.multi_buffer).count(), 1);
    }
}
