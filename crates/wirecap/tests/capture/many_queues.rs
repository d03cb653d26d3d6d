//! An interface with more receive queues than a capture can take.

use wirecap::{Capture, queue_devices};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wire::Wire};

#[test]
fn the_first_1024_of_more_queues_can_be_captured_by_name() {
    need_root!("many_queues::the_first_1024_of_more_queues_can_be_captured_by_name");
    let wire = Wire::with_queues("many", 1_030);
    let builder = || Capture::builder().cells_per_chunk(4).chunks_per_pool(4);
    let mut capture = wire.capture_of("in0@0,1023", builder());
    let crew = Crew::eager(capture.take_workers());
    for queue in [0, 1023, 1024] {
        wire.queue_sender(queue, FrameSpec::default()).send(10);
    }
    crew.wait_for(20);
    capture.stopper().stop();
    assert_eq!(crew.join().len(), 20, "packets of queue 1024 go to the host");
    assert_eq!(check::account_closed(&capture.finish()).seen, 20);

    let refused = |port: &str, words: &[&str]| {
        let error = wire.try_capture_of(port, builder()).map(drop).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{port}: {words:?} in: {error}");
    };
    refused("in0@1024", &["in0@1024 cannot be captured", "queues 0 to 1023", "ethtool -L"]);
    refused("in0@5-1029", &["in0@1029 cannot be captured"]);
    refused("in0@1030", &["in0 has 1030 receive queues, numbers 0 to 1029"]);
    refused("in0", &["in0 has 1030 receive queues", "1024 of an interface at most", "in0@0-1023"]);
    assert_eq!(wire.inside.enter(|| queue_devices("in0")).unwrap().len(), 1_024);
}
