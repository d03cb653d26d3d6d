//! `wirecap size`: answers by simulation, without any privilege.

use std::process::{Command, Output};

use serde_json::Value;
use wirecap_testing::schema::check_records;

use crate::lab::WIRECAP;

fn size(arguments: &str) -> Output {
    Command::new(WIRECAP).arg("size").args(arguments.split_whitespace()).output().unwrap()
}

/// The pools of each mode, in JSON.
fn pools(arguments: &str) -> Vec<Value> {
    let output = size(&format!("{arguments} --json"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(check_records(&output.stdout), 1);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    record["pools"].as_array().unwrap().clone()
}

fn number(pools: &Value, name: &str) -> f64 {
    pools[name].as_f64().unwrap_or_else(|| panic!("{name}: {pools:#}"))
}

/// 14.88 million packets a second for 20 ms, less what is handled in that time: 772 chunks.
#[test]
fn a_burst_into_one_queue_needs_what_the_formula_says() {
    for dispatch in ["pull", "push"] {
        let pools = pools(&format!("--rate 14.88Mpps --burst 20ms --worker 5Mpps --dispatch {dispatch}"));
        let [basic] = &pools[..] else { panic!("{pools:#?}") };
        assert_eq!(basic["mode"], "basic");
        assert!((772.0..780.0).contains(&number(basic, "least_chunks_per_pool")), "{basic:#}");
        // A quarter more, so a quarter longer.
        assert!((0.0245..0.0255).contains(&number(basic, "longest_burst_seconds")), "{basic:#}");
        assert_eq!(number(basic, "cells_bytes"), number(basic, "chunks_per_pool") * 524_288.0);
    }
}

#[test]
fn the_dispatch_is_pull_unless_push_is_asked_for() {
    let traffic = "--queues 4 --rate 2Mpps --burst 100ms --worker 400k --skew 3";
    let text = |arguments: &str| {
        let output = size(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap().replace("\n    ", " ")
    };
    let pull = text(traffic);
    assert!(pull.contains("the dispatch pull") && !pull.contains("--dispatch"), "{pull}");
    let push = text(&format!("{traffic} --dispatch push"));
    assert!(push.contains("the dispatch push") && push.trim_end().ends_with("--dispatch push"), "{push}");
    assert_ne!(pools(traffic), pools(&format!("{traffic} --dispatch push")), "they are simulated apart");
}

#[test]
fn buddies_need_less_for_skewed_bursts_and_outlast_skew_that_lasts() {
    let of_burst = pools("--queues 4 --rate 2Mpps --burst 100ms --worker 400k --skew 3");
    let [basic, advanced] = &of_burst[..] else { panic!("{of_burst:#?}") };
    assert!(number(advanced, "least_chunks_per_pool") < number(basic, "least_chunks_per_pool"));
    assert!(number(advanced, "blocks_bytes") < number(advanced, "cells_bytes"), "short packets are packed");
    // A worker alone is too slow for the busiest queue.
    let lasting = pools("--queues 4 --rate 1Mpps --worker 400k --skew 3");
    let [advanced] = &lasting[..] else { panic!("{lasting:#?}") };
    assert_eq!(advanced["mode"], "advanced");
}

/// The least R is possible, and a quarter more is not; long packets take several cells.
#[test]
fn the_largest_pools_are_the_limit() {
    let pools_of = pools("--rate 14.88Mpps --worker 5Mpps --burst 400ms");
    assert_eq!(number(&pools_of[0], "chunks_per_pool"), 16_384.0, "{pools_of:#?}");
    let output = size("--rate 1Mpps --worker 100k --burst 2s --packet 9022");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("at most 4194304 cells"), "{text}");
}

#[test]
fn what_no_pool_does_is_said_with_the_exit_code() {
    let output = size("--queues 2 --rate 10Mpps --worker 1M");
    let text = String::from_utf8(output.stdout).unwrap().replace("\n    ", " ");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("No pool is large enough") && text.contains("11 workers of this pace keep up"),
        "{text}"
    );
    for (arguments, words) in [
        ("--rate 10Gbit", "--worker"),
        ("--rate 10Gb --worker 1M", "like 10Gbit"),
        ("--rate 1M --worker 1M --queues 2 --skew 3", "at most 2 times the mean"),
        ("--rate 1M --worker 1M -M 100", "like -M 128"),
        ("--rate 100Mpps --worker 1M --burst 1h", "leave --burst out"),
        ("--rate 100Mpps --worker 1M --burst 2s --queues 1024", "raise -M"),
    ] {
        let refused = size(arguments);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.contains(words), "{arguments}: {error}");
    }
}
