use std::time::Duration;
use wirecap::{Capture, Dispatch, Mode, Next};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_traffic::{FrameSpec, LiveGenerator, LiveOptions, Marks};

#[test]
fn live_frames_are_captured_and_accounted_for() {
    let a = Namespace::new("gen").unwrap();
    let b = Namespace::new("cap").unwrap();
    let veth =
        VethPair::new(&a, "va", &b, "vb", VethOptions { queues: 2, ..VethOptions::default() }).unwrap();
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let mut capture =
            b.enter(|| Capture::builder().port("vb").dispatch(dispatch).mode(Mode::Basic).open()).unwrap();
        let workers = capture.take_workers();
        let ifindex = veth.a().ifindex();
        let sent = std::thread::scope(|scope| {
            let handles: Vec<_> = workers
                .into_iter()
                .map(|mut worker| {
                    scope.spawn(move || {
                        let mut numbers = Vec::new();
                        loop {
                            match worker.next_batch_within(Duration::from_millis(200)) {
                                Next::Batch(batch) => {
                                    for packet in &batch {
                                        let marks = Marks::read(packet.data()).unwrap();
                                        numbers.push(marks.sequence);
                                    }
                                }
                                Next::Idle => if !numbers.is_empty() || worker.index() > 0 {},
                                Next::Ended => return numbers,
                            }
                        }
                    })
                })
                .collect();
            let sent = a.enter(|| {
                let mut generator = LiveGenerator::new(ifindex.unwrap(), LiveOptions::default()).unwrap();
                generator.run(100_000).unwrap()
            });
            println!("{sent:?}");
            capture.stopper().stop();
            let mut all: Vec<u64> = Vec::new();
            for handle in handles {
                all.extend(handle.join().unwrap());
            }
            println!("{} packets", all.len());
            sent
        });
        let report = capture.finish();
        println!("{report:#?}");
        assert_eq!(report.total().unexplained(), 0);
        assert_eq!(report.total().seen, sent.frames);
    }
}
